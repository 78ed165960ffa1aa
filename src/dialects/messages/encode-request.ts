import type { OutputFormat, Prompt, Tool, ToolChoice } from "../../canon/prompt.ts";
import { put } from "../../lib/json.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { encodedBody } from "../encoded.ts";
import { namePictures, nameShared } from "../openai-fields.ts";
import { JSON_INSTRUCTION } from "../refusals/own-words.ts";
import { describedSchema } from "../schema/format.ts";
import { toInputSchema } from "../schema/input-schema.ts";
import { isVisible } from "../text.ts";
import { lostFormats } from "../tools/custom-tools.ts";
import { fitToolNames, messagesNames } from "../tools/tool-names.ts";
import { placeOf } from "../tools/tool-place.ts";
import { fitUserId } from "../user-id.ts";
import { addText, type Block, encodeTurns, type Message, withMark } from "./encode-turns.ts";
import { traitsOf } from "./model-traits.ts";
import { toStrictSchema, withoutOddProperties } from "./schema.ts";

/** Largest temperature of this dialect's own vendor. */
const MAX_TEMPERATURE = 1;
/** Longest `metadata.user_id` that its own vendor takes, characters. */
const MAX_USER_ID = 256;

/**
 * The system prompt: its parts, then system turns from mid-conversation, lifted up in order where the model takes none in their place (dialects.md 4.1):
 * each changes what stands before all else, so that no cache is found, and the vendor refuses what was thought behind another one.
 */
function encodeSystem(prompt: Prompt, keepsSystem: boolean): string | Block[] | undefined {
  const blocks: Block[] = [];
  for (const part of prompt.system) addText(part, blocks);
  for (const { role, parts } of prompt.turns) {
    if (role === "system" && !keepsSystem) for (const part of parts) if (part.type === "text") addText(part, blocks);
  }
  // This dialect has a JSON mode with a schema alone.
  if (prompt.output?.type === "json") blocks.push({ type: "text", text: JSON_INSTRUCTION });
  const only = blocks.length === 1 ? blocks[0] : undefined;
  if (only && only["cache_control"] === undefined) return only["text"] as string;
  return blocks.length === 0 ? undefined : blocks;
}

function encodeTool(tool: Tool, dropped: string[]): Block {
  const block: Block = { name: tool.name };
  if (tool.description) block["description"] = tool.description;
  const lost = (property: string) => dropped.push(`${placeOf(tool)}.parameters.properties.${property}`);
  const schema = withoutOddProperties(toInputSchema(tool.schema), lost);
  block["input_schema"] = tool.strict ? toStrictSchema(schema) : schema;
  if (tool.strict) block["strict"] = true;
  return withMark(block, tool);
}

const NO_TOOLS: Block[] = [];

/** Tools that the history calls but the request no longer offers: this dialect wants them defined all the same (dialects.md 4.1). */
function toolsOfHistory(messages: readonly Message[]): Block[] {
  let names: Set<string> | undefined;
  for (const message of messages) {
    for (const block of message.content) {
      if (block["type"] !== "tool_use") continue;
      names ??= new Set();
      names.add(String(block["name"]));
    }
  }
  if (!names) return NO_TOOLS;
  return [...names].map((name) => ({ name, input_schema: { type: "object", properties: {} } }));
}

function encodeToolChoice(choice: ToolChoice | undefined, parallel: boolean | undefined): Block | undefined {
  if (choice?.type === "none") return { type: "none" };
  const single = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (choice?.type === "tool") return { type: "tool", name: choice.name, ...single };
  if (choice?.type === "required") return { type: "any", ...single };
  return choice || parallel === false ? { type: "auto", ...single } : undefined;
}

function addTools(prompt: Prompt, messages: readonly Message[], body: Block, dropped: string[]): void {
  if (prompt.tools.length > 0) {
    body["tools"] = prompt.tools.map((tool) => encodeTool(tool, dropped));
    put(body, "tool_choice", encodeToolChoice(prompt.toolChoice, prompt.parallelToolCalls));
    return;
  }
  const tools = toolsOfHistory(messages);
  if (tools.length === 0) return;
  body["tools"] = tools;
  body["tool_choice"] = { type: "none" };
}

function addSampling(prompt: Prompt, quirks: Quirks, body: Block, dropped: string[]): void {
  const { temperature, topP, topK } = prompt;
  // Its own vendor refuses both together (dialects.md 4.1).
  const both = temperature !== undefined && topP !== undefined;
  if (both) dropped.push("top_p");
  const ceiling = quirks.unclampedTemperature ? Number.POSITIVE_INFINITY : MAX_TEMPERATURE;
  if (temperature !== undefined) body["temperature"] = Math.min(temperature, ceiling);
  if (!both) put(body, "top_p", topP);
  put(body, "top_k", topK);
}

/**
 * Stop sequences of white space alone are refused by its own vendor (dialects.md 2.1): they are returned, for the gateway to watch for them
 * itself.
 */
function addStop(stop: readonly string[], body: Block): readonly string[] {
  if (stop.length === 0) return stop;
  const kept = stop.filter(isVisible);
  if (kept.length > 0) body["stop_sequences"] = kept;
  return stop.filter((one) => !isVisible(one));
}

function addOutput(output: OutputFormat | undefined, body: Block): void {
  if (output?.type !== "json-schema") return;
  body["output_config"] = { format: { type: "json_schema", schema: toStrictSchema(describedSchema(output)) } };
}

/**
 * A prompt as a body of this dialect (dialects.md 4.1, 4.3). Model, stream, reasoning and a missing ceiling come with `amend`.
 * Throws GatewayError (invalid_request) for audio, file ids and documents that this dialect cannot carry.
 */
export function encodeRequest(given: Prompt, quirks: Quirks, upstreamModel = ""): Encoded {
  const dropped: string[] = [];
  const { prompt, toolNames } = fitToolNames(given, messagesNames(quirks), dropped);
  if (prompt.seed !== undefined) dropped.push("seed");
  if (prompt.frequencyPenalty) dropped.push("frequency_penalty");
  if (prompt.presencePenalty) dropped.push("presence_penalty");
  if (prompt.tools.length > 0) dropped.push(...lostFormats(prompt.tools));
  nameShared(prompt, dropped);
  namePictures(prompt, dropped);
  // Whether Amazon's door takes such turns is told otherwise (stdapi-ai/stdapi.ai #49).
  const keepsSystem = quirks.versionInBody === undefined && traitsOf(upstreamModel).laterSystem;
  const messages = encodeTurns(prompt.turns, dropped, upstreamModel, keepsSystem);
  const body: Block = {};
  put(body, "max_tokens", prompt.maxOutputTokens);
  put(body, "system", encodeSystem(prompt, keepsSystem));
  addTools(prompt, messages, body, dropped);
  body["messages"] = messages;
  addSampling(prompt, quirks, body, dropped);
  const unseen = addStop(prompt.stop, body);
  addOutput(prompt.output, body);
  if (prompt.userId) body["metadata"] = { user_id: fitUserId(prompt.userId, MAX_USER_ID) };
  return encodedBody(body, dropped, toolNames, unseen);
}
