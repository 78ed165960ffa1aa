import { invalidField } from "../../canon/errors.ts";
import type { OutputFormat, Prompt, Tool } from "../../canon/prompt.ts";
import { isObject, numberOf, put, stringOf } from "../../lib/json.ts";
import type { Decoded, ReplyChanges } from "../dialect.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { decodeUser, isShared, share } from "../openai-fields.ts";
import { readSchemaFormat } from "../schema/format.ts";
import { cleanText } from "../text.ts";
import { decodeInput } from "./decode-input.ts";
import { decodeToolChoice, decodeTools } from "./decode-tools.ts";
import { REPEATED_FIELDS } from "./response-object.ts";

type Wire = Record<string, unknown>;

/** Fields that are read here or by the gateway itself, or that steer only a stream's padding. */
const CARRIED = new Set(
  [
    "model input instructions max_output_tokens stream stream_options temperature top_p tools tool_choice parallel_tool_calls",
    "text reasoning user safety_identifier",
  ].flatMap((line) => line.split(" ")),
);

/** What `include` may ask for without a loss: reasoning is carried back anyway. */
const INCLUDED = new Set(["reasoning.encrypted_content"]);

/** Values that ask for nothing beyond what is done anyway. */
function asksForNothing(field: string, value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === "" || value === 0) return true;
  if (field === "service_tier") return value === "auto" || value === "default";
  if (field === "truncation") return value === "disabled";
  if (field === "include") return Array.isArray(value) && value.every((entry) => INCLUDED.has(entry));
  return typeof value === "object" && Object.keys(value).length === 0;
}

const FORMAT_FIELDS: ReadonlySet<string> = new Set(["type", "name", "description", "schema", "strict"]);
/** The padding of a stream's records, which only their own vendor writes. */
const STREAM_FIELDS: ReadonlySet<string> = new Set(["include_obfuscation"]);

function decodeFormat(text: unknown, dropped: string[]): OutputFormat | undefined {
  if (!isObject(text)) return undefined;
  for (const [field, value] of Object.entries(text)) {
    if (field !== "format" && field !== "verbosity" && value !== null) dropped.push(`text.${field}`);
  }
  const format = text["format"];
  dropped.push(...unknownPaths(format, FORMAT_FIELDS, "text.format"));
  if (!isObject(format) || format["type"] === "text") return undefined;
  if (format["type"] === "json_object") return { type: "json" };
  const read = format["type"] === "json_schema" ? readSchemaFormat(format) : undefined;
  if (!read) dropped.push("text.format");
  return read;
}

/** What a model does anyway where nothing is said of how it reasons, beside the depth. */
const USUAL_REASONING: readonly [field: string, usual: string][] = [
  ["context", "auto"],
  ["mode", "standard"],
];

/** Fields of `reasoning` that cross as orders, ask for what a reply shows anyway, or are told apart. */
const REASONING_FIELDS: ReadonlySet<string> = new Set(["effort", "summary", "generate_summary", "context", "mode"]);

/** Names what only the vendor's own models can be told of their reasoning. */
function nameLostReasoning(reasoning: unknown, dropped: string[]): void {
  if (!isObject(reasoning)) return;
  dropped.push(...unknownPaths(reasoning, REASONING_FIELDS, "reasoning"));
  for (const [field, usual] of USUAL_REASONING) {
    if (reasoning[field] != null && reasoning[field] !== usual) dropped.push(`reasoning.${field}`);
  }
}

/** What the reply to this body must say of it, and which of its tools are called with free text. */
export function changesFor(body: Wire, tools: readonly Tool[]): ReplyChanges {
  const request: Wire = {};
  for (const field of REPEATED_FIELDS) {
    const value = body[field];
    if (value !== undefined && value !== null) request[field] = value;
  }
  const custom = tools.filter((tool) => tool.custom);
  const formed = tools.flatMap(({ name, form }) => (form === undefined ? [] : [[name, form] as const]));
  return {
    request,
    ...(custom.length > 0 && { customTools: new Set(custom.map((tool) => tool.name)) }),
    ...(formed.length > 0 && { toolForms: new Map(formed) }),
  };
}

/**
 * A checked body of this dialect as its meaning, for an upstream of another one (dialects.md 4.1), with the paths of all that cannot
 * cross. Throws GatewayError (invalid_request, with param) for a stored prompt.
 */
export function decodeRequest(body: Wire): Decoded {
  if (body["prompt"] !== undefined && body["prompt"] !== null) {
    const message = "A stored prompt cannot be seen by this model's vendor. Send instructions and input instead.";
    throw invalidField("prompt", message);
  }
  const dropped: string[] = [];
  const { system, turns } = decodeInput(body["input"], dropped);
  const instructions = cleanText(stringOf(body["instructions"]));
  const choice = decodeToolChoice(body["tool_choice"], decodeTools(body, dropped), dropped);
  const parallel = body["parallel_tool_calls"];
  const prompt: Prompt = {
    system: instructions === "" ? system : [{ type: "text", text: instructions }, ...system],
    turns,
    stop: [],
    tools: choice.tools,
  };
  put(prompt, "toolChoice", choice.toolChoice);
  if (typeof parallel === "boolean" && choice.tools.length > 0) prompt.parallelToolCalls = parallel;
  put(prompt, "maxOutputTokens", numberOf(body["max_output_tokens"]));
  put(prompt, "temperature", numberOf(body["temperature"]));
  put(prompt, "topP", numberOf(body["top_p"]));
  const { text } = body;
  put(prompt, "output", decodeFormat(text, dropped));
  if (isObject(text) && text["verbosity"] != null && text["verbosity"] !== "medium") {
    share(prompt, "verbosity", text["verbosity"]);
  }
  put(prompt, "userId", decodeUser(body, dropped));
  nameLostReasoning(body["reasoning"], dropped);
  dropped.push(...unknownPaths(body["stream_options"], STREAM_FIELDS, "stream_options"));
  for (const field in body) {
    if (CARRIED.has(field) || asksForNothing(field, body[field])) continue;
    if (isShared(field)) share(prompt, field, body[field]);
    else dropped.push(field);
  }
  return { prompt, dropped, changes: changesFor(body, choice.tools) };
}
