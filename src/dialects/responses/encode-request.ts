import type { OutputFormat, Prompt } from "../../canon/prompt.ts";
import { put } from "../../lib/json.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { encodedBody } from "../encoded.ts";
import { BREAKPOINT, namePictures } from "../openai-fields.ts";
import { EMPTY_TEXT } from "../refusals/own-words.ts";
import { writeSchemaFormat } from "../schema/format.ts";
import { fitToolNames, responsesNames } from "../tools/tool-names.ts";
import { fitUserId } from "../user-id.ts";
import { MIN_OUTPUT_TOKENS, UNORDERED_REASONING } from "./amend.ts";
import { InputWriter, systemContent, systemItem } from "./encode-input.ts";
import { addTools } from "./encode-tools.ts";

type Wire = Record<string, unknown>;

/** Largest temperature of this dialect's own vendor. */
const MAX_TEMPERATURE = 2;
/** Longest name of an end user that its own vendor takes, characters (dialects.md 1.1). */
const MAX_USER = 64;

function encodeFormat(output: OutputFormat, dropped: string[]): Wire {
  if (output.type === "json") return { type: "json_object" };
  return { type: "json_schema", ...writeSchemaFormat(output, dropped) };
}

const EMPTY_INPUT = { type: "message", role: "user", content: [{ type: "input_text", text: EMPTY_TEXT }] };

/**
 * `instructions` and `input`. The system text becomes an item where there is no other, since the input must not be empty, for JSON mode, whose vendor
 * looks for the word JSON in the input alone, and where what is cached ends in it.
 */
function encodeConversation(prompt: Prompt, quirks: Quirks, dropped: string[]): Wire {
  const input = new InputWriter(quirks, dropped).write(prompt.turns);
  const content = systemContent(prompt.system, quirks);
  const [first] = content;
  if (!first) return { input: input.length === 0 ? [EMPTY_INPUT] : input };
  const isCut = content.some((part) => part[BREAKPOINT] !== undefined);
  const asItem = input.length === 0 || prompt.output?.type === "json" || isCut;
  return asItem ? { input: [systemItem(content, quirks), ...input] } : { instructions: first["text"], input };
}

const NOTHING_SHARED: Wire = {};

/** What this dialect has no word for. */
function nameUnknown(prompt: Prompt, dropped: string[]): void {
  // Its vendor answers behind such a turn.
  if (prompt.continues) dropped.push("prefill");
  if (prompt.topK !== undefined) dropped.push("top_k");
  if (prompt.seed !== undefined) dropped.push("seed");
  if (prompt.frequencyPenalty) dropped.push("frequency_penalty");
  if (prompt.presencePenalty) dropped.push("presence_penalty");
  // It is raised to the least that its vendor takes.
  if (prompt.maxOutputTokens !== undefined && prompt.maxOutputTokens < MIN_OUTPUT_TOKENS) dropped.push("max_tokens");
}

/**
 * A prompt as a stateless body of this dialect (dialects.md 4.1). Model, stream, the effort and what goes with it come with `amend`.
 * Throws GatewayError (invalid_request, with the part's place) for audio and for other vendors' file ids. Stop sequences, which this
 * dialect does not know, are watched for by the gateway itself.
 */
export function encodeRequest(given: Prompt, quirks: Quirks): Encoded {
  const dropped: string[] = [];
  nameUnknown(given, dropped);
  namePictures(given, dropped);
  const { prompt, toolNames } = fitToolNames(given, responsesNames(quirks), dropped);
  const body = encodeConversation(prompt, quirks, dropped);
  addTools(prompt, quirks, body, dropped);
  body["store"] = false;
  body["reasoning"] = UNORDERED_REASONING;
  const { maxOutputTokens } = prompt;
  if (maxOutputTokens !== undefined) body["max_output_tokens"] = Math.max(MIN_OUTPUT_TOKENS, maxOutputTokens);
  const { temperature } = prompt;
  if (temperature !== undefined) body["temperature"] = Math.min(temperature, MAX_TEMPERATURE);
  put(body, "top_p", prompt.topP);
  const { verbosity, ...shared } = prompt.shared ?? NOTHING_SHARED;
  if (prompt.output || verbosity !== undefined) {
    const format = prompt.output && encodeFormat(prompt.output, dropped);
    body["text"] = { ...(format && { format }), ...(verbosity !== undefined && { verbosity }) };
  }
  Object.assign(body, shared);
  if (prompt.userId) body["safety_identifier"] = fitUserId(prompt.userId, MAX_USER);
  return encodedBody(body, dropped, toolNames, prompt.stop);
}
