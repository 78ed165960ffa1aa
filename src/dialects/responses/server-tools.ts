import { invalidField } from "../../canon/errors.ts";
import type { SearchHit } from "../../canon/web-tools.ts";
import { isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { MAX_DOMAINS } from "../../wire/bounds.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import {
  type BroughtTool,
  countOf,
  describeResults,
  describeSearch,
  leavePlaces,
  type OfferedTool,
  readPlace,
  resultsOfSize,
  type ServedFunction,
  type ServedOutcome,
  type ServerToolHalf,
  textsOf,
} from "../server-tools.ts";
import { FOUND_TOOLS, isClientCall, isHosted } from "./client-tools.ts";
import { BROUGHT_TOOLS } from "./decode-tools.ts";
import { REPEATED_FIELDS } from "./response-object.ts";

type Wire = Record<string, unknown>;

/** `web_search`, `web_search_preview`, and either with the day of its version. */
const TYPE = /^web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/;
/** Item of a search. */
const SEARCH_CALL = "web_search_call";
const ID_PREFIX = "ws_";

/** Whether an entry of `tools`, or a choice of them, is a search of the web that the vendor runs. */
export const isSearch = (entry: unknown): entry is Wire => isObject(entry) && TYPE.test(stringOf(entry["type"]));

/** Fields of the tool, and of its filters, that are heeded or told apart. */
const OFFER_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "filters", "search_context_size", "user_location", "external_web_access", "search_content_types"],
]);
const FILTER_FIELDS: ReadonlySet<string> = new Set(["allowed_domains", "blocked_domains"]);

/** Paths of what OpenAI alone heeds of a search: that its index is all that is searched and nothing on the web is asked, and that images are found. */
export function lostOfSearch(entry: Wire, place: string): string[] {
  const lost = entry["external_web_access"] === false ? [`${place}.external_web_access`] : [];
  if (textsOf(entry["search_content_types"]).some((type) => type !== "text"))
    lost.push(`${place}.search_content_types`);
  return lost;
}

/** Paths of what only the vendor's own tool heeds, hosts beyond those that an engine is told among it. */
function lostOf(entry: Wire, place: string): string[] {
  const lost = [
    ...unknownPaths(entry, OFFER_FIELDS, place),
    ...unknownPaths(entry["filters"], FILTER_FIELDS, `${place}.filters`),
  ];
  const { allowed_domains: allowed } = isObject(entry["filters"]) ? entry["filters"] : {};
  if (textsOf(allowed).length > MAX_DOMAINS) lost.push(`${place}.filters.allowed_domains`);
  return [...lost, ...lostOfSearch(entry, place)];
}

function readOffer(entry: Wire, place: string, maxUses: number | undefined): OfferedTool {
  const filters = isObject(entry["filters"]) ? entry["filters"] : {};
  const allowed = textsOf(filters["allowed_domains"]);
  const blocked = textsOf(filters["blocked_domains"]);
  if (allowed.length > 0 && blocked.length > 0) {
    const message = `${place}.filters: allowed_domains and blocked_domains cannot both be given.`;
    throw invalidField(`${place}.filters.blocked_domains`, message);
  }
  return {
    tool: "web_search",
    place,
    maxUses,
    allowed,
    blocked,
    ...readPlace(entry["user_location"]),
    maxResults: resultsOfSize(entry["search_context_size"]),
    maxContentTokens: undefined,
    lost: lostOf(entry, place),
  };
}

const NONE: readonly OfferedTool[] = [];

function find(body: Wire): readonly OfferedTool[] {
  const { tools } = body;
  if (!Array.isArray(tools) || !tools.some(isSearch)) return NONE;
  return tools.flatMap((entry: unknown, at) =>
    isSearch(entry) ? [readOffer(entry, `tools[${at}]`, countOf(body["max_tool_calls"]))] : [],
  );
}

function readHit(entry: Wire): SearchHit {
  const { title, url, snippet, date } = entry;
  return {
    title: stringOf(title),
    url: stringOf(url),
    snippet: stringOf(snippet),
    source: "",
    date: stringOf(date) || null,
  };
}

/** What an earlier search gave: its results where the item still has them, else the addresses. */
function outputOf(item: Wire): string {
  const results = objectsOf(item["results"]).map(readHit);
  if (results.length > 0) return describeResults(results);
  if (item["status"] === "failed") return "The search failed.";
  const sources = isObject(item["action"]) ? objectsOf(item["action"]["sources"]) : [];
  const places = sources.map((source) => stringOf(source["url"])).filter((url) => url !== "");
  return ["The results of this search are not at hand any more.", ...places].join("\n");
}

/**
 * What an earlier search that the gateway ran says to a model that is not offered it any more, or whose vendor searches itself and knows of no results in
 * such an item. Undefined for any other item.
 */
export function textOfServed(item: unknown): string | undefined {
  if (!isObject(item) || item["type"] !== SEARCH_CALL || listOf(item["results"]).length === 0) return undefined;
  const query = isObject(item["action"]) ? stringOf(item["action"]["query"]) : "";
  return `${describeSearch(query)}\n\n${outputOf(item)}`;
}

/** An item's name as OpenAI gives it. With `include: ["web_search_call.results"]` its own items have results too, and go back as they came. */
const OPENAI_ID = /^ws_[0-9a-f]{32,}$/;

const isOpenAis = (item: unknown): boolean => isObject(item) && OPENAI_ID.test(stringOf(item["id"]));

function mend(body: Wire): Edits | undefined {
  const input = listOf(body["input"]);
  const mended = mapChanged(input, (item) => {
    const text = isOpenAis(item) ? undefined : textOfServed(item);
    if (text === undefined) return item;
    return { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
  });
  return mended === input ? undefined : { input: mended };
}

/** An earlier search of these tools as the call and the output of a client's own function. */
function openItem(item: unknown, name: string): unknown[] {
  if (!isObject(item) || item["type"] !== SEARCH_CALL || !isObject(item["action"])) return [item];
  const { action } = item;
  if (action["type"] !== "search") return [item];
  const callId = stringOf(item["id"]).slice(ID_PREFIX.length) || stringOf(item["id"]);
  const [first] = textsOf(action["queries"]);
  const query = JSON.stringify({ query: stringOf(action["query"]) || (first ?? "") });
  return [
    { type: "function_call", call_id: callId, name, arguments: query },
    { type: "function_call_output", call_id: callId, output: outputOf(item) },
  ];
}

/** A choice that names the search, or has it among the tools that it allows, as one of the function in its place; undefined for any other. */
function nameSearch(choice: unknown, { name }: ServedFunction): Wire | undefined {
  if (isSearch(choice)) return { type: "function", name };
  const allowed = isObject(choice) && choice["type"] === "allowed_tools" ? listOf(choice["tools"]) : [];
  if (!isObject(choice) || !allowed.some(isSearch)) return undefined;
  return { ...choice, tools: allowed.map((tool) => (isSearch(tool) ? { type: "function", name } : tool)) };
}

function open(body: Wire, functions: readonly ServedFunction[]): Edits {
  const left = functions.values();
  const tools = listOf(body["tools"]).map((entry) => {
    const served = isSearch(entry) ? left.next().value : undefined;
    if (!served) return entry;
    const { name, description, schema } = served;
    return { type: "function", name, description, parameters: schema, strict: false };
  });
  const [first] = functions;
  const edits: Edits = { tools };
  if (body["max_tool_calls"] != null) edits["max_tool_calls"] = undefined;
  const choice = first && nameSearch(body["tool_choice"], first);
  if (choice) edits["tool_choice"] = choice;
  const { input } = body;
  if (first && Array.isArray(input) && input.some((item) => isObject(item) && item["type"] === SEARCH_CALL)) {
    edits["input"] = input.flatMap((item) => openItem(item, first.name));
  }
  const include = listOf(body["include"]);
  const kept = include.filter((entry) => !stringOf(entry).startsWith(`${SEARCH_CALL}.`));
  if (kept.length < include.length) edits["include"] = kept;
  return edits;
}

/** A choice that the first round has honoured binds the next ones no more: the loop would never end. */
function freeChoice(choice: unknown, last: boolean): Edits {
  if (last) return { tool_choice: "none" };
  if (choice !== "required" && !isObject(choice)) return {};
  return { tool_choice: isObject(choice) && choice["type"] === "allowed_tools" ? { ...choice, mode: "auto" } : "auto" };
}

function extend(body: Wire, reply: Wire, outcomes: readonly ServedOutcome[], last: boolean): Edits {
  const { input } = body;
  const before = typeof input === "string" ? [{ role: "user", content: input }] : listOf(input);
  const results = outcomes.map(({ call, text }) => ({ type: "function_call_output", call_id: call.id, output: text }));
  return { input: [...before, ...listOf(reply["output"]), ...results], ...freeChoice(body["tool_choice"], last) };
}

/** The item of a search. Its results stay with it, since clients send items back and nothing is stored here. */
function resultBlock({ call, subject, ...outcome }: ServedOutcome): Wire {
  const results = outcome.kind === "results" ? outcome.results : [];
  const sources = results.map(({ url }) => ({ type: "url", url }));
  const shown = results.map(({ title, url, snippet, date }) => ({ title, url, snippet, ...(date && { date }) }));
  return {
    id: call.shownId,
    type: SEARCH_CALL,
    status: outcome.kind === "fault" ? "failed" : "completed",
    action: { type: "search", query: subject, queries: [subject], sources },
    ...(shown.length > 0 && { results: shown }),
  };
}

/**
 * Tools that the client runs, or a server that it names, and those that find or call other tools, which cost no more than their tokens. All others are a
 * vendor's own: OpenAI bills them by the call, the image, or the minute of a container, xAI its searches (docs.x.ai, "Tools"), Perplexity pages that it reads,
 * searches for people, prices and images, and its sandbox (docs.perplexity.ai, "Pricing"). Of those that come nobody knows what they will cost.
 */
const UNPRICED_TYPES: ReadonlySet<unknown> = new Set([
  ...[undefined, null, "function", "custom", "mcp", "namespace", "tool_search", "programmatic_tool_calling"],
  ...["shell", "local_shell", "apply_patch", "computer", "computer_use_preview"],
]);

/** A search of the web is none of them: what becomes of it is decided where it is known who may search. */
const isPriced = (tool: Wire): boolean =>
  UNPRICED_TYPES.has(tool["type"]) ? isHosted(tool["environment"]) : !isSearch(tool);

/** Items that bring tools: agents' own, and what a search for tools gave (openai/codex, "Responses Lite"; tool search). */
const BRINGING: ReadonlySet<unknown> = new Set([BROUGHT_TOOLS, FOUND_TOOLS]);

function broughtTools({ input }: Wire): BroughtTool[] {
  return listOf(input).flatMap((item, at) => {
    if (!isObject(item) || !BRINGING.has(item["type"])) return [];
    const places = listOf(item["tools"]).map((tool, index) => ({ place: `input[${at}].tools[${index}]`, tool }));
    return places.filter((brought): brought is BroughtTool => isObject(brought.tool));
  });
}

/** An item that brings nothing any more goes as well; what a search gave stays, since its call wants an answer. */
const leaveBrought = (body: Wire, places: ReadonlySet<string>): Edits =>
  leavePlaces(body, ["input", "tools"], places, ({ type }) => type !== BROUGHT_TOOLS);

/** Beside the calls of {@link isClientCall}: what stands on a screen, and whether a tool of an MCP server may be run, the client alone can say. */
const ASKING: ReadonlySet<unknown> = new Set(["computer_call", "mcp_approval_request"]);

/** Searching for clients of the responses dialect: an item for each search, and annotations in the text. */
export const serverTools: ServerToolHalf = {
  isPriced,
  brought: { find: broughtTools, leave: leaveBrought },
  mending: { seal: `"${SEARCH_CALL}"`, edit: mend },
  keepsResults: true,
  isClients: (item) => isClientCall(item) || ASKING.has(item["type"]),
  citesAll: true,
  lost: ["top_logprobs"],
  repeats: REPEATED_FIELDS,
  find,
  open,
  extend,
  // The model's own name is found again in later turns.
  shownId: (id) => ID_PREFIX + id.replace(/[^a-zA-Z0-9_-]/g, "_"),
  callBlock: () => undefined,
  callInput: ({ arguments: text }) => text,
  resultBlock,
};
