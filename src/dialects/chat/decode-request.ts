import type { OutputFormat, Prompt, Tool } from "../../canon/prompt.ts";
import { isObject, listOf, numberOf, put } from "../../lib/json.ts";
import { markedMessages } from "../cache-marks.ts";
import type { Decoded, ReplyChanges } from "../dialect.ts";
import { SILENT_AT_ZERO } from "../going-fields.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { readTopK } from "../odd-sampling.ts";
import { decodeUser, isShared, share } from "../openai-fields.ts";
import { readSchemaFormat } from "../schema/format.ts";
import { decodeMessages } from "./decode-messages.ts";
import { decodeToolChoice, decodeTools } from "./decode-tools.ts";
import { isUsageWish, REASONING_FIELDS, readMaxTokens, refuseChoices, saidBesideReasoning } from "./intent.ts";
import { schemaHolder } from "./output-format.ts";
import { stopsOf } from "./stops.ts";

type Wire = Record<string, unknown>;

/** Fields that are read here or by the gateway itself; every other one that says something is named as dropped. */
const CARRIED = new Set([
  ...REASONING_FIELDS,
  ...[
    "model messages stream stream_options max_tokens max_completion_tokens n tools tool_choice parallel_tool_calls functions",
    "function_call stop temperature top_p top_k seed frequency_penalty presence_penalty response_format user safety_identifier",
    "cache_control",
  ].flatMap((line) => line.split(" ")),
]);

/** Of the fields that are carried those that hold others, and which of these are. */
const CARRIED_INSIDE: readonly [field: string, known: ReadonlySet<string>][] = [
  ["stream_options", new Set(["include_usage", "include_obfuscation"])],
  ["response_format", new Set(["type", "json_schema", "schema", "name", "description", "strict"])],
];
const SCHEMA_FIELDS: ReadonlySet<string> = new Set(["name", "description", "schema", "strict"]);

/** Names what nobody else knows inside the fields that are carried. */
function nameLostInside(body: Wire, dropped: string[]): void {
  for (const [field, known] of CARRIED_INSIDE) dropped.push(...unknownPaths(body[field], known, field));
  dropped.push(...saidBesideReasoning(body, () => true));
  const { response_format: format } = body;
  if (isObject(format)) {
    dropped.push(...unknownPaths(format["json_schema"], SCHEMA_FIELDS, "response_format.json_schema"));
  }
}

/** Fields by which resellers' clients ask for images (OpenRouter). */
const PICTURE_FIELDS = ["modalities", "image_config"];

/** What is said of the images that a reply may be; undefined where none are asked for. */
function decodePictures({ modalities, image_config: config }: Wire): Prompt["pictures"] {
  if (!listOf(modalities).includes("image")) return undefined;
  const { aspect_ratio: ratio, image_size: size } = isObject(config) ? config : {};
  return { ...(typeof ratio === "string" && { ratio }), ...(typeof size === "string" && { size }) };
}

/** Values that ask for nothing beyond what is done anyway. */
export function asksForNothing(field: string, value: unknown): boolean {
  // By which Groq and OpenRouter are told to leave it out, which nobody else can be.
  if (field === "include_reasoning") return value !== false;
  if (value == null || value === false || value === "") return true;
  if (field === "modalities") return Array.isArray(value) && value.every((one) => one === "text");
  if (field === "service_tier") return value === "auto" || value === "default";
  if (field === "top_k") return readTopK(value) === undefined;
  if (field === "top_logprobs" || SILENT_AT_ZERO.has(field)) return value === 0;
  if (field === "usage" && isUsageWish(value)) return true;
  // Empty options ask for a search all the same.
  if (field === "web_search_options") return false;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function decodeFormat(value: unknown): OutputFormat | undefined {
  if (!isObject(value)) return undefined;
  if (value["type"] !== "json_schema" && value["type"] !== "json_object") return undefined;
  const wrapped = schemaHolder(value);
  return (wrapped && readSchemaFormat(wrapped)) ?? { type: "json" };
}

const isFilled = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** Whether a body offers its tools in the older form alone, and wants its answer in it (dialects.md 1.1). */
const isLegacy = (body: Wire): boolean => isFilled(body["functions"]) && !isFilled(body["tools"]);

/** What the client's own forms of tools mean for its reply; undefined for functions in today's form. */
function changesFor(body: Wire, tools: readonly Tool[]): ReplyChanges | undefined {
  if (tools.length === 0 && !isLegacy(body)) return undefined;
  const custom = tools.filter((tool) => tool.custom).map((tool) => tool.name);
  const legacy = isLegacy(body);
  if (custom.length === 0 && !legacy) return undefined;
  return { ...(custom.length > 0 && { customTools: new Set(custom) }), ...(legacy && { legacyFunctions: true }) };
}

/** The older form of a call has place for one a turn. */
function decodeParallel(body: Wire): boolean | undefined {
  if (isLegacy(body)) return false;
  const parallel = body["parallel_tool_calls"];
  return typeof parallel === "boolean" ? parallel : undefined;
}

/**
 * A checked chat body as its meaning (dialects.md 4.1 and 4.3), and by path what has no counterpart. Throws GatewayError
 * (invalid_request) for `n` above 1.
 */
export function decodeRequest(body: Wire): Decoded {
  refuseChoices(body, "for this model: its vendor gives one answer a request.");
  const dropped: string[] = [];
  const { system, turns } = decodeMessages(markedMessages(body), dropped);
  const allTools = decodeTools(body, dropped);
  const { tools, toolChoice } = decodeToolChoice(body, allTools, dropped);
  const changes = changesFor(body, tools);
  const prompt: Prompt = {
    system,
    turns,
    tools,
    stop: stopsOf(body),
  };
  const last = listOf(body["messages"]).at(-1);
  if (isObject(last) && last["role"] === "assistant" && last["prefix"] === true) prompt.continues = true;
  put(prompt, "toolChoice", toolChoice);
  if (tools.length > 0) put(prompt, "parallelToolCalls", decodeParallel(body));
  put(prompt, "maxOutputTokens", readMaxTokens(body));
  put(prompt, "temperature", numberOf(body["temperature"]));
  put(prompt, "topP", numberOf(body["top_p"]));
  put(prompt, "topK", readTopK(body["top_k"]));
  put(prompt, "seed", numberOf(body["seed"]));
  put(prompt, "frequencyPenalty", numberOf(body["frequency_penalty"]));
  put(prompt, "presencePenalty", numberOf(body["presence_penalty"]));
  const format = body["response_format"];
  const output = decodeFormat(format);
  put(prompt, "output", output);
  // A form that only some server of this dialect knows, such as a grammar.
  if (isObject(format) && format["type"] !== "text" && !output) dropped.push("response_format");
  put(prompt, "userId", decodeUser(body, dropped));
  put(prompt, "pictures", decodePictures(body));
  for (const field in body) {
    if (prompt.pictures && PICTURE_FIELDS.includes(field)) continue;
    if (CARRIED.has(field) || asksForNothing(field, body[field])) continue;
    if (isShared(field)) share(prompt, field, body[field]);
    else dropped.push(field);
  }
  nameLostInside(body, dropped);
  const decoded: Decoded = { prompt, dropped };
  if (changes) decoded.changes = changes;
  return decoded;
}
