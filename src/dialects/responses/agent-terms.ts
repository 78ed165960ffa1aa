import { isObject, listOf, stringOf } from "../../lib/json.ts";
import { type Edits, editedField } from "../../lib/json-text.ts";
import { JSON_INSTRUCTION } from "../refusals/own-words.ts";
import { textsOf } from "../server-tools.ts";
import { isSearch, lostOfSearch } from "./server-tools.ts";

type Wire = Record<string, unknown>;

/** A search of the web, which has its hosts in one list here, and neither a kind of place nor what it may read. */
function tellSearch(entry: Wire): Wire {
  const { filters, user_location: location, external_web_access: _web, search_content_types: _types, ...rest } = entry;
  const told: Wire = { ...rest, type: "web_search" };
  if (isObject(filters)) {
    const { allowed_domains: allowed, blocked_domains: blocked, ...others } = filters;
    const hosts = [...textsOf(allowed), ...textsOf(blocked).map((host) => `-${host}`)];
    told["filters"] = { ...others, ...(hosts.length > 0 && { search_domain_filter: hosts }) };
  }
  if (isObject(location)) {
    const { type: _type, timezone: _zone, ...place } = location;
    told["user_location"] = place;
  }
  return told;
}

/** A choice of tools: of a function by its name alone, of a search under its one name. */
function tellChoice(choice: Wire): Wire {
  if (isSearch(choice)) return { ...choice, type: "web_search" };
  return choice["type"] === "function" ? { name: choice["name"] } : choice;
}

/** An answer's form: a schema in a field of its own, and JSON without one, which is not known here, in words. */
function tellFormat(format: Wire, body: Wire, edits: Edits): void {
  const { type, ...schema } = format;
  if (type === "text") return;
  if (type === "json_object") {
    const said = stringOf(editedField("instructions", body, edits));
    edits["instructions"] = said === "" ? JSON_INSTRUCTION : `${said}\n\n${JSON_INSTRUCTION}`;
  } else edits["response_format"] = type === "json_schema" ? { type, json_schema: schema } : format;
}

/** Says a body in the terms of {@link Quirks.agentTerms}, as edits beside those that are there. */
export function tellAgent(body: Wire, edits: Edits): void {
  const text = editedField("text", body, edits);
  if (text !== undefined) edits["text"] = undefined;
  const format = isObject(text) ? text["format"] : undefined;
  if (isObject(format)) tellFormat(format, body, edits);
  const tools = editedField("tools", body, edits);
  if (listOf(tools).some(isSearch)) {
    edits["tools"] = listOf(tools).map((tool) => (isSearch(tool) ? tellSearch(tool) : tool));
  }
  const choice = editedField("tool_choice", body, edits);
  if (isObject(choice)) edits["tool_choice"] = tellChoice(choice);
}

/** Paths of what a body says that has no word in these terms. */
export function lostOnAgent({ text, tools }: Wire): string[] {
  const lost = isObject(text) && stringOf(text["verbosity"]) !== "" ? ["text.verbosity"] : [];
  for (const [at, tool] of listOf(tools).entries()) {
    if (!isSearch(tool)) continue;
    lost.push(...lostOfSearch(tool, `tools[${at}]`));
    const { user_location: location } = tool;
    if (isObject(location) && location["timezone"] != null) lost.push(`tools[${at}].user_location.timezone`);
  }
  return lost;
}
