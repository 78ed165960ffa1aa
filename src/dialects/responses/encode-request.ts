import type { OutputFormat, Prompt, Tool } from "../../canon/prompt.ts";
import { cleanText } from "../chat/text.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { MIN_OUTPUT_TOKENS, UNORDERED_REASONING } from "./amend.ts";
import { InputWriter, joinTexts, systemItem } from "./encode-input.ts";

type Wire = Record<string, unknown>;

/** Longest name of an end user that its own vendor takes, characters (dialects.md 1.1). */
const MAX_USER = 64;

/** `strict` is written always: left out, this dialect's vendor makes the schema strict by itself, which no other one does. */
function encodeTool(tool: Tool): Wire {
  const { $schema: _schema, ...schema } = tool.schema;
  return {
    type: "function",
    name: tool.name,
    ...(tool.description !== undefined && { description: cleanText(tool.description) }),
    parameters: "type" in schema ? schema : { type: "object", ...schema },
    strict: tool.strict ?? false,
  };
}

function encodeTools(prompt: Prompt): Wire {
  const { tools, toolChoice, parallelToolCalls } = prompt;
  if (tools.length === 0) return {};
  const choice = toolChoice?.type === "tool" ? { type: "function", name: toolChoice.name } : toolChoice?.type;
  return {
    tools: tools.map(encodeTool),
    ...(choice !== undefined && { tool_choice: choice }),
    ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
  };
}

function encodeFormat(output: OutputFormat): Wire {
  if (output.type === "json") return { type: "json_object" };
  const { name, description, schema, strict } = output;
  return {
    type: "json_schema",
    // The name is required here and unknown to other dialects.
    name: (name ?? "output").replaceAll(/[^\w-]/g, "_").slice(0, 64),
    ...(description !== undefined && { description }),
    schema,
    ...(strict !== undefined && { strict }),
  };
}

/** An end user's name; one that is too long becomes its hash, which still tells users apart (dialects.md 4.1). */
function encodeUser(userId: string): string {
  if (userId.length <= MAX_USER) return userId;
  return new Bun.CryptoHasher("sha256").update(userId).digest("hex");
}

/**
 * `instructions` and `input`. The system text becomes an item where there is no other, since the input must not be empty, and for JSON
 * mode, whose vendor looks for the word JSON in the input alone.
 */
function encodeConversation(prompt: Prompt, quirks: Quirks, dropped: string[]): Wire {
  const input = new InputWriter(quirks, dropped).write(prompt.turns);
  const instructions = joinTexts(prompt.system);
  if (instructions === "") return { input };
  const asItem = input.length === 0 || prompt.output?.type === "json";
  return asItem ? { input: [systemItem(instructions, quirks), ...input] } : { instructions, input };
}

const UNKNOWN_HERE: readonly [keyof Prompt, string][] = [
  ["topK", "top_k"],
  ["seed", "seed"],
  ["frequencyPenalty", "frequency_penalty"],
  ["presencePenalty", "presence_penalty"],
];

/**
 * A prompt as a stateless body of this dialect (dialects.md 4.1). Model, stream, the effort and what goes with it come with `amend`.
 * Throws GatewayError (invalid_request) for audio and file ids.
 */
export function encodeRequest(prompt: Prompt, quirks: Quirks): Encoded {
  const dropped = UNKNOWN_HERE.filter(([field]) => prompt[field] !== undefined).map(([, name]) => name);
  if (prompt.stop.length > 0) dropped.push("stop");
  const body: Wire = {
    ...encodeConversation(prompt, quirks, dropped),
    ...encodeTools(prompt),
    store: false,
    reasoning: UNORDERED_REASONING,
    ...(prompt.maxOutputTokens !== undefined && {
      max_output_tokens: Math.max(MIN_OUTPUT_TOKENS, prompt.maxOutputTokens),
    }),
    ...(prompt.temperature !== undefined && { temperature: prompt.temperature }),
    ...(prompt.topP !== undefined && { top_p: prompt.topP }),
    ...(prompt.output && { text: { format: encodeFormat(prompt.output) } }),
    ...(prompt.userId && { safety_identifier: encodeUser(prompt.userId) }),
  };
  return { body, dropped };
}
