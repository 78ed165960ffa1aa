import { isObject, listOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { dataUrl } from "../media/url.ts";

type Wire = Record<string, unknown>;

/** Fields of a tool of another dialect that become those of the function in it. */
const FUNCTION_FIELDS = ["name", "description", "strict"] as const;
/** All that is read of such a tool. */
const FLAT_FIELDS: ReadonlySet<string> = new Set([
  ...FUNCTION_FIELDS,
  ...["type", "format", "input_schema", "parameters", "cache_control"],
]);

const isNamed = (value: unknown): value is Wire & { name: string } =>
  isObject(value) && typeof value["name"] === "string" && value["name"] !== "";

/**
 * Whether a tool's own fields stand in it, and not in a `function` or `custom` of it: so in the responses dialect, and, with `input_schema`, in the messages
 * dialect. Tools of other types are their vendor's.
 */
const isFlat = (tool: unknown): tool is Wire & { name: string } =>
  isNamed(tool) &&
  !isObject(tool["function"]) &&
  !isObject(tool["custom"]) &&
  (tool["type"] == null || tool["type"] === "function" || tool["type"] === "custom");

/** A grammar as it stands here: one level deeper than in the responses dialect. */
function nestedFormat(format: unknown): unknown {
  if (!isObject(format) || typeof format["definition"] !== "string") return format;
  const { type, ...grammar } = format;
  return { type, grammar };
}

function nestedTool(tool: unknown): unknown {
  if (!isFlat(tool)) return tool;
  const { name, description, format, input_schema: schema, cache_control: cache } = tool;
  if (tool["type"] === "custom" && schema === undefined) {
    const custom = {
      name,
      ...(description != null && { description }),
      ...(format != null && { format: nestedFormat(format) }),
    };
    return { type: "custom", custom };
  }
  const called: Wire = {};
  for (const field of FUNCTION_FIELDS) if (tool[field] != null) called[field] = tool[field];
  const parameters = schema ?? tool["parameters"];
  if (parameters != null) called["parameters"] = parameters;
  return { type: "function", function: called, ...(cache != null && { cache_control: cache }) };
}

/** A choice in the words of the messages dialect, or one that names its tool as the responses dialect does. */
function nestedChoice(choice: unknown): unknown {
  if (!isObject(choice)) return choice;
  const { type, name } = choice;
  if (type === "any") return "required";
  if (type === "auto" || type === "none") return type;
  if (!isNamed(choice) || isObject(choice["function"]) || isObject(choice["custom"])) return choice;
  return type === "custom" ? { type, custom: { name } } : { type: "function", function: { name } };
}

const isCall = (part: unknown): part is Wire => isObject(part) && part["type"] === "tool_use";
const isResult = (part: unknown): part is Wire => isObject(part) && part["type"] === "tool_result";

/** An image of the messages dialect, as this one shows it; any other part, and an image of a file that its vendor keeps, as it is. */
function imageOf(part: unknown): unknown {
  if (!isObject(part) || part["type"] !== "image") return part;
  const { source, ...own } = part;
  if (!isObject(source)) return part;
  const { type, media_type: kind, data, url } = source;
  if (type === "url") return { ...own, type: "image_url", image_url: { url } };
  if (type !== "base64") return part;
  return {
    ...own,
    type: "image_url",
    image_url: { url: dataUrl({ mediaType: stringOf(kind), data: stringOf(data) }) },
  };
}

function toCall({ id, name, input }: Wire): Wire {
  return { id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}

function toResult({ tool_use_id: id, content }: Wire): Wire {
  return { role: "tool", tool_call_id: id, content: Array.isArray(content) ? content.map(imageOf) : (content ?? "") };
}

/** A message with its images in this dialect's form; one whose calls and results are parts of its content, as several: results stand before what the user says with them. */
function ownMessages(message: unknown): unknown[] {
  if (!isObject(message) || !Array.isArray(message["content"])) return [message];
  const content = mapChanged<unknown>(message["content"], imageOf);
  if (!content.some((part) => isCall(part) || isResult(part)))
    return [content === message["content"] ? message : { ...message, content }];
  const said = content.filter((part) => !isCall(part) && !isResult(part));
  if (message["role"] === "assistant") {
    const calls = [...listOf(message["tool_calls"]), ...content.filter(isCall).map(toCall)];
    return [{ ...message, content: said.length > 0 ? said : null, tool_calls: calls }];
  }
  const results = content.filter(isResult).map(toResult);
  return said.length > 0 ? [...results, { ...message, content: said }] : results;
}

/** What this dialect has no word for: fields of such tools, and that a call has failed. */
function lostOf({ tools, messages }: Wire): string[] {
  const lost = listOf(tools).flatMap((tool, at) =>
    isFlat(tool) ? unknownPaths(tool, FLAT_FIELDS, `tools[${at}]`) : [],
  );
  for (const [at, message] of listOf(messages).entries()) {
    for (const [place, part] of listOf(isObject(message) && message["content"]).entries())
      if (isResult(part) && part["is_error"] === true) lost.push(`messages[${at}].content[${place}].is_error`);
  }
  return lost;
}

/**
 * Edits of a body whose tools are told in the form of another dialect, after which all of it is in this one; undefined where they are told in this one's. `lost`: what
 * of them could not be said, by its place.
 * Cursor, at the endpoint of a key of one's own, sends its patch tool as the responses dialect has it beside functions in this dialect's form
 * (archestra-ai/archestra #7375, BerriAI/litellm #34029), and to models with "claude-" in their names tools, calls and results as the messages dialect has
 * them (router-for-me/CLIProxyAPI #3805, automazeio/vibeproxy #411).
 */
export function ownForms(body: Wire): { edits: Edits; lost: readonly string[] } | undefined {
  const { tools, tool_choice: choice, messages } = body;
  if (!Array.isArray(tools) || !tools.some(isFlat)) return undefined;
  const edits: Edits = { tools: mapChanged<unknown>(tools, nestedTool) };
  if (choice != null) edits["tool_choice"] = nestedChoice(choice);
  if (isObject(choice) && choice["disable_parallel_tool_use"] === true) edits["parallel_tool_calls"] = false;
  if (Array.isArray(messages)) edits["messages"] = messages.flatMap(ownMessages);
  return { edits, lost: lostOf(body) };
}
