import type { OutputFormat, Prompt, TextPart, Tool, ToolChoice } from "../../canon/prompt.ts";
import { isObject, put } from "../../lib/json.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { encodedBody } from "../encoded.ts";
import { knowsAll } from "../knows-all.ts";
import { writeSchemaFormat } from "../schema/format.ts";
import { toFunctionSchema } from "../schema/function-schema.ts";
import { fitStrict } from "../schema/strict-schema.ts";
import { cleanText, joinTexts } from "../text.ts";
import { lostFormats } from "../tools/custom-tools.ts";
import { chatNames, fitToolNames } from "../tools/tool-names.ts";
import { placeOf } from "../tools/tool-place.ts";
import { fitUserId } from "../user-id.ts";
import { ceilingField } from "./amend.ts";
import { encodePart } from "./encode-parts.ts";
import { TurnWriter } from "./encode-turns.ts";
import { evenStrict } from "./even-strict.ts";

type Wire = Record<string, unknown>;

/** Most stop sequences a chat vendor takes where its row says nothing (dialects.md 1.1). */
const MAX_STOPS = 4;
/** Longest `user` that OpenAI takes (dialects.md 4.1). */
const MAX_USER = 64;

/** All system text as one message, in order (interface 4.5); parts only where the vendor takes cache marks and there are some. */
function encodeSystem(system: readonly TextPart[], quirks: Quirks): Wire | undefined {
  if (system.some((part) => isMarked(part, quirks))) {
    return { role: "system", content: system.map((part) => encodePart(part, quirks)).filter(isObject) };
  }
  const content = joinTexts(system);
  return content === undefined ? undefined : { role: "system", content };
}

/** Whether what is cached ends with this part, in the form that the vendor knows. */
function isMarked({ text, cache, breakpoint }: TextPart, quirks: Quirks): boolean {
  if (text === "") return false;
  return quirks.acceptsCacheControl === true ? cache != null : knowsAll(quirks) && breakpoint !== undefined;
}

/** Only the four keys that every server knows: strict ones refuse others (dialects.md 4.8 #32 and #33). */
function encodeTool(tool: Tool, dropped: string[]): Wire {
  const asked = toFunctionSchema(tool.schema);
  const { schema, strict } = fitStrict(asked, tool.strict, `${placeOf(tool)}.strict`, dropped);
  return {
    type: "function",
    function: {
      name: tool.name,
      ...(tool.description !== undefined && { description: cleanText(tool.description) }),
      parameters: schema,
      ...(strict !== undefined && { strict }),
    },
  };
}

/** A custom tool for a vendor that knows them. */
function encodeCustom({ name, description, custom }: Tool): Wire {
  const format = custom?.format && formatOf(custom.format);
  return { type: "custom", custom: { name, ...(description && { description }), ...(format && { format }) } };
}

/** A grammar as it stands here: one level deeper than in the responses dialect. */
function formatOf(format: Wire): Wire {
  const { type, syntax, definition } = format;
  return typeof definition === "string" ? { type, grammar: { syntax, definition } } : format;
}

function encodeToolChoice(choice: ToolChoice, isCustom: (name: string) => boolean): unknown {
  if (choice.type !== "tool") return choice.type;
  const { name } = choice;
  return isCustom(name) ? { type: "custom", custom: { name } } : { type: "function", function: { name } };
}

function encodeFormat(output: OutputFormat, quirks: Quirks, dropped: string[]): Wire {
  if (output.type === "json") return { type: "json_object" };
  const { strict, ...format } = output;
  // Others than the dialect's own vendor refuse for some of their models what is said to be strict.
  const isRefused = strict === "where-it-fits" && !knowsAll(quirks);
  return { type: "json_schema", json_schema: writeSchemaFormat(isRefused ? format : output, dropped) };
}

/** The stop sequences that this vendor takes; the gateway watches for the others itself (dialects.md 4.1). */
function encodeStops(prompt: Prompt, quirks: Quirks, body: Wire): readonly string[] {
  if (prompt.stop.length === 0) return prompt.stop;
  const most = quirks.maxStopSequences ?? MAX_STOPS;
  const kept = prompt.stop.slice(0, most);
  if (kept.length > 0) body["stop"] = kept;
  return prompt.stop.slice(most);
}

/** By which a vendor finds its cache again; several others have taken it over. */
const CACHE_KEY = "prompt_cache_key";
const knowsCacheKey = ({ unknownFields = [] }: Quirks): boolean =>
  unknownFields.length > 0 && !unknownFields.includes(CACHE_KEY);

/**
 * The fields of both of OpenAI's dialects, to who knows all of this one: another vendor may refuse a request for each. Metadata is refused unless the
 * answer is stored, which it never is (dialects.md 1.1; contract 3).
 */
function addShared(prompt: Prompt, quirks: Quirks, body: Wire, dropped: string[]): void {
  for (const [field, value] of Object.entries(prompt.shared ?? {})) {
    const isKnown = knowsAll(quirks) ? field !== "metadata" : field === CACHE_KEY && knowsCacheKey(quirks);
    if (isKnown) body[field] = value;
    else dropped.push(field);
  }
}

function encodeTools(prompt: Prompt, quirks: Quirks, body: Wire, dropped: string[]): void {
  const { tools, toolChoice } = prompt;
  if (tools.length === 0) return;
  const isCustom = (tool: Tool) => quirks.customTools === true && tool.custom !== undefined;
  if (quirks.customTools !== true) dropped.push(...lostFormats(tools));
  const wires = tools.map((tool) => (isCustom(tool) ? encodeCustom(tool) : encodeTool(tool, dropped)));
  const even = evenStrict(wires, quirks);
  body["tools"] = even.tools;
  for (const at of even.loosened) dropped.push(`${placeOf(tools[at] as Tool)}.strict`);
  const isCustomName = (name: string) => tools.some((tool) => tool.name === name && isCustom(tool));
  if (toolChoice) body["tool_choice"] = encodeToolChoice(toolChoice, isCustomName);
  if (prompt.parallelToolCalls !== undefined) body["parallel_tool_calls"] = prompt.parallelToolCalls;
}

/**
 * A prompt as a chat vendor's body (dialects.md 4.1 and 4.2). Model, stream and reasoning come with `amend`. What this dialect or this
 * vendor has no place for is named in `dropped`. Throws GatewayError (invalid_request, with the part's place) for media that cannot be
 * sent at all.
 */
export function encodeRequest(given: Prompt, quirks: Quirks, upstreamModel?: string): Encoded {
  const dropped: string[] = [];
  // The dialect's own vendor answers behind such a turn (dialects.md 4.2); many others go on with it.
  if (given.continues && (knowsAll(quirks) || quirks.prefill === "none")) dropped.push("prefill");
  const { prompt, toolNames } = fitToolNames(given, chatNames(quirks), dropped);
  const writer = new TurnWriter(quirks, dropped, upstreamModel);
  const messages = writer.write(prompt.turns);
  const system = encodeSystem(prompt.system, quirks);
  const body: Wire = { messages: system ? [system, ...messages] : messages };
  encodeTools(prompt, quirks, body, dropped);
  const stops = encodeStops(prompt, quirks, body);
  put(body, ceilingField(body, quirks), prompt.maxOutputTokens);
  put(body, "temperature", prompt.temperature);
  put(body, "top_p", prompt.topP);
  if (quirks.acceptsTopK) put(body, "top_k", prompt.topK);
  else if (prompt.topK !== undefined) dropped.push("top_k");
  put(body, quirks.seedField ?? "seed", prompt.seed);
  put(body, "frequency_penalty", prompt.frequencyPenalty);
  put(body, "presence_penalty", prompt.presencePenalty);
  put(body, "response_format", prompt.output && encodeFormat(prompt.output, quirks, dropped));
  put(body, "user", prompt.userId && fitUserId(prompt.userId, MAX_USER));
  if (prompt.shared) addShared(prompt, quirks, body, dropped);
  return encodedBody(body, dropped, toolNames, stops);
}
