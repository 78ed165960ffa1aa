import type { OutputFormat, Prompt, TextPart, Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import type { Decoded } from "../dialect.ts";
import { withoutBillingLine } from "./billing-line.ts";
import { decodeTools } from "./decode-tools.ts";
import { decodeTurns, markOf } from "./decode-turns.ts";
import { cleanText } from "./text.ts";

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

const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

/** Names the fields of `object` that are present and not in `known`, each below `prefix`. */
function nameOthers(object: unknown, known: ReadonlySet<string>, prefix: string, dropped: string[]): void {
  if (!isObject(object)) return;
  for (const [field, value] of Object.entries(object)) {
    if (isPresent(value) && !known.has(field)) dropped.push(prefix + field);
  }
}

/** `system` as text parts in order, without empty ones and without the per-request billing line. */
function decodeSystem(given: unknown): TextPart[] {
  const system = withoutBillingLine(given);
  if (typeof system === "string") return system === "" ? [] : [{ type: "text", text: cleanText(system) }];
  if (!Array.isArray(system)) return [];
  const parts: TextPart[] = [];
  for (const block of system) {
    if (!isObject(block) || typeof block["text"] !== "string" || block["text"] === "") continue;
    parts.push({ type: "text", text: cleanText(block["text"]), ...markOf(block) });
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

const FORMAT_FIELDS: readonly [string, (body: Record<string, unknown>) => unknown][] = [
  ["output_config.format", (body) => (isObject(body["output_config"]) ? body["output_config"]["format"] : undefined)],
  ["output_format", (body) => body["output_format"]],
];

/** The asked shape of the answer: `output_config.format`, else its older spelling `output_format` (dialects.md 2.1). */
function decodeOutput(body: Record<string, unknown>, dropped: string[]): OutputFormat | undefined {
  for (const [path, read] of FORMAT_FIELDS) {
    const format = read(body);
    if (!isPresent(format)) continue;
    if (isObject(format) && format["type"] === "json_schema" && isObject(format["schema"])) {
      const name = format["name"];
      return { type: "json-schema", schema: format["schema"], ...(typeof name === "string" && { name }) };
    }
    dropped.push(path);
  }
  return undefined;
}

const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** Tokens to generate at most. A ceiling of 0 only warms a cache (dialects.md 2.1), which elsewhere costs at least one token. */
function decodeCeiling(value: unknown): number | undefined {
  const ceiling = numberOf(value);
  return ceiling === undefined ? undefined : Math.max(1, ceiling);
}

function decodeUserId(metadata: unknown): string | undefined {
  const id = isObject(metadata) ? metadata["user_id"] : undefined;
  return typeof id === "string" && id !== "" ? id : undefined;
}

/** `fields` without those that are undefined. */
function present<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/**
 * A checked body of this dialect as its meaning, for an upstream of another one (dialects.md 4.1, 4.2), with the paths of all that
 * cannot cross. Throws GatewayError (invalid_request, with param) for media without a readable source and for client-run toolsets.
 */
export function decodeRequest(body: Record<string, unknown>): Decoded {
  const dropped: string[] = [];
  nameOthers(body, CROSSING, "", dropped);
  nameOthers(body["output_config"], new Set(["effort", "format"]), "output_config.", dropped);
  nameOthers(body["metadata"], new Set(["user_id"]), "metadata.", dropped);
  const tools = decodeTools(body["tools"], dropped);
  const choice = body["tool_choice"];
  const stop = body["stop_sequences"];
  const prompt: Prompt = {
    system: decodeSystem(body["system"]),
    turns: decodeTurns(body["messages"], dropped),
    tools,
    stop: Array.isArray(stop) ? stop.filter((entry) => typeof entry === "string") : [],
    stream: body["stream"] === true,
    ...present({
      toolChoice: decodeToolChoice(choice, tools, dropped),
      parallelToolCalls: isObject(choice) && choice["disable_parallel_tool_use"] === true ? false : undefined,
      maxOutputTokens: decodeCeiling(body["max_tokens"]),
      temperature: numberOf(body["temperature"]),
      topP: numberOf(body["top_p"]),
      topK: numberOf(body["top_k"]),
      output: decodeOutput(body, dropped),
      userId: decodeUserId(body["metadata"]),
    }),
  };
  return { prompt, dropped };
}
