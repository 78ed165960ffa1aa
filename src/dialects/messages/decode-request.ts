import type { OutputFormat, Part, Prompt, TextPart, Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject, listOf, numberOf, put, stringOf } from "../../lib/json.ts";
import { markedMessages } from "../cache-marks.ts";
import type { Decoded } from "../dialect.ts";
import { isNothing, unknownPaths } from "../loss/unknown-fields.ts";
import { readTopK } from "../odd-sampling.ts";
import { cleanText, isVisible } from "../text.ts";
import { withoutBillingLine } from "./billing-line.ts";
import { changeTools, decodeTools } from "./decode-tools.ts";
import { decodeTurns, withMark } from "./decode-turns.ts";
import { endsInPrefill } from "./prefill.ts";

/** Fields whose meaning crosses, or that steer only the vendor's cache; `thinking` and the effort cross as orders. */
const CROSSING = new Set([
  "model",
  "max_tokens",
  "messages",
  "system",
  "stop_sequences",
  "stream",
  "temperature",
  "top_p",
  "top_k",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "metadata",
  "cache_control",
]);

/** Of the fields that cross those that hold others, and which of these do. */
const CROSSING_INSIDE: readonly [field: string, known: ReadonlySet<string>][] = [
  ["output_config", new Set(["effort", "format"])],
  ["output_format", new Set(["type", "schema", "name"])],
  ["metadata", new Set(["user_id"])],
  ["thinking", new Set(["type", "budget_tokens", "display"])],
  ["tool_choice", new Set(["type", "name", "disable_parallel_tool_use"])],
];
const FORMAT_FIELDS: ReadonlySet<string> = new Set(["type", "schema", "name"]);
/** Of a block of `system`. */
const SYSTEM_FIELDS: ReadonlySet<string> = new Set(["type", "text", "cache_control", "citations"]);

/** An edit of the context that takes nothing out: all thinking stays (Claude Code says so with every request). */
const isKeepingAll = (edit: unknown): boolean =>
  isObject(edit) && stringOf(edit["type"]).startsWith("clear_thinking_") && edit["keep"] === "all";

/** The words of fields that ask for what is done anyway (dialects.md 2.1). */
const USUAL: ReadonlyMap<string, unknown> = new Map([
  ["service_tier", "auto"],
  ["speed", "standard"],
]);

/** Whether a field of the body that no other dialect knows asks for something. */
function asksFor(field: string, value: unknown): boolean {
  // Also without an edit it says which are made: none of those that its vendor makes by itself.
  if (field !== "context_management" || !isObject(value)) return !isNothing(value) && USUAL.get(field) !== value;
  const { edits, ...others } = value;
  return Object.keys(others).length > 0 || !Array.isArray(edits) || edits.length === 0 || !edits.every(isKeepingAll);
}

/** Names the fields that no other dialect knows, of the body and of what its own fields hold. */
function nameOthers(body: Record<string, unknown>, dropped: string[]): void {
  for (const field in body) {
    if (!CROSSING.has(field) && asksFor(field, body[field])) dropped.push(field);
  }
  for (const [field, known] of CROSSING_INSIDE) dropped.push(...unknownPaths(body[field], known, field));
  const { output_config: config } = body;
  if (isObject(config)) dropped.push(...unknownPaths(config["format"], FORMAT_FIELDS, "output_config.format"));
  const system = listOf(body["system"]);
  for (let at = 0; at < system.length; at++) dropped.push(...unknownPaths(system[at], SYSTEM_FIELDS, `system[${at}]`));
}

/** `system` as text parts in order, without empty ones and without the per-request billing line. */
function decodeSystem(given: unknown): TextPart[] {
  const system = withoutBillingLine(given);
  if (typeof system === "string") return system === "" ? [] : [{ type: "text", text: cleanText(system) }];
  if (!Array.isArray(system)) return [];
  const parts: TextPart[] = [];
  for (const block of system) {
    if (!isObject(block) || typeof block["text"] !== "string" || block["text"] === "") continue;
    parts.push(withMark<TextPart>({ type: "text", text: cleanText(block["text"]) }, block));
  }
  return parts;
}

/** The tool choice as far as the tools that crossed can still honour it. */
function decodeToolChoice(choice: unknown, tools: readonly Tool[], dropped: string[]): ToolChoice | undefined {
  if (!isObject(choice)) return undefined;
  const type = choice["type"];
  if (type === "none" && tools.length > 0) return { type: "none" };
  if (type === "auto" && tools.length > 0) return { type: "auto" };
  if (type === "any" && tools.length > 0) return { type: "required" };
  if (type === "tool") {
    const name = choice["name"];
    if (typeof name === "string" && tools.some((tool) => tool.name === name)) return { type: "tool", name };
  }
  if (type !== "auto" && type !== "none") dropped.push("tool_choice");
  return undefined;
}

/** The asked shape of the answer: `output_config.format`, else its older spelling `output_format` (dialects.md 2.1). */
function decodeOutput(body: Record<string, unknown>, dropped: string[]): OutputFormat | undefined {
  const config = body["output_config"];
  const current = isObject(config) ? decodeFormat(config["format"], "output_config.format", dropped) : undefined;
  return current ?? decodeFormat(body["output_format"], "output_format", dropped);
}

function decodeFormat(format: unknown, path: string, dropped: string[]): OutputFormat | undefined {
  if (format == null) return undefined;
  if (isObject(format) && format["type"] === "json_schema" && isObject(format["schema"])) {
    const name = format["name"];
    // Its vendor holds its models to every such schema (platform.claude.com, "Structured outputs").
    const schema = { schema: format["schema"], strict: "where-it-fits" as const };
    return { type: "json-schema", ...schema, ...(typeof name === "string" && { name }) };
  }
  dropped.push(path);
  return undefined;
}

/** Tokens to generate at most. A ceiling of 0 only warms a cache (dialects.md 2.1), which elsewhere costs at least one token: it is named. */
function decodeCeiling(value: unknown, dropped: string[]): number | undefined {
  const ceiling = numberOf(value);
  if (ceiling !== undefined && ceiling < 1) dropped.push("max_tokens");
  return ceiling === undefined ? undefined : Math.max(1, ceiling);
}

function decodeUserId(metadata: unknown): string | undefined {
  const id = isObject(metadata) ? metadata["user_id"] : undefined;
  return typeof id === "string" && id !== "" ? id : undefined;
}

/**
 * A checked body of this dialect as its meaning, for an upstream of another one (dialects.md 4.1, 4.2), with the paths of all that
 * cannot cross. Throws GatewayError (invalid_request, with param) for media without a readable source and for client-run toolsets.
 */
export function decodeRequest(body: Record<string, unknown>): Decoded {
  const dropped: string[] = [];
  nameOthers(body, dropped);
  const tools = changeTools(decodeTools(body["tools"], dropped), body["messages"], dropped);
  const choice = body["tool_choice"];
  const stop = body["stop_sequences"];
  const prompt: Prompt = {
    system: decodeSystem(body["system"]),
    turns: decodeTurns(markedMessages(body), dropped),
    tools,
    stop: Array.isArray(stop) ? stop.filter((entry) => typeof entry === "string") : [],
  };
  put(prompt, "toolChoice", decodeToolChoice(choice, tools, dropped));
  if (isObject(choice) && choice["disable_parallel_tool_use"] === true) prompt.parallelToolCalls = false;
  put(prompt, "maxOutputTokens", decodeCeiling(body["max_tokens"], dropped));
  put(prompt, "temperature", numberOf(body["temperature"]));
  put(prompt, "topP", numberOf(body["top_p"]));
  put(prompt, "topK", readTopK(body["top_k"]));
  const isSaid = (part: Part) => part.type === "text" && isVisible(part.text);
  if (endsInPrefill(listOf(body["messages"])) && prompt.turns.at(-1)?.parts.some(isSaid)) prompt.continues = true;
  put(prompt, "output", decodeOutput(body, dropped));
  put(prompt, "userId", decodeUserId(body["metadata"]));
  return { prompt, dropped };
}
