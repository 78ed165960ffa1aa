import type { OutputFormat, Prompt, TextPart, Tool, ToolChoice } from "../../canon/prompt.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { TurnWriter } from "./encode-turns.ts";
import { cleanText } from "./text.ts";

type Wire = Record<string, unknown>;

/** Most stop sequences a chat vendor takes where its row says nothing (dialects.md 1.1). */
const MAX_STOPS = 4;
/** Longest `user` that OpenAI takes (dialects.md 4.1). */
const MAX_USER = 64;

/** All system text as one message, in order (interface 4.5); parts only where the vendor takes cache marks and there are some. */
function encodeSystem(system: readonly TextPart[], quirks: Quirks): Wire[] {
  const parts = system.filter((part) => part.text !== "");
  if (parts.length === 0) return [];
  const keepMarks = quirks.acceptsCacheControl === true && parts.some((part) => part.cache != null);
  if (!keepMarks) return [{ role: "system", content: parts.map((part) => cleanText(part.text)).join("\n") }];
  const content = parts.map((part) => ({
    type: "text",
    text: cleanText(part.text),
    ...(part.cache != null && { cache_control: part.cache }),
  }));
  return [{ role: "system", content }];
}

/** Only the four keys that every server knows: strict ones refuse others (dialects.md 4.8 #32 and #33). */
function encodeTool(tool: Tool): Wire {
  const { $schema: _schema, ...schema } = tool.schema;
  return {
    type: "function",
    function: {
      name: tool.name,
      ...(tool.description !== undefined && { description: cleanText(tool.description) }),
      parameters: "type" in schema ? schema : { type: "object", ...schema },
      ...(tool.strict !== undefined && { strict: tool.strict }),
    },
  };
}

function encodeToolChoice(choice: ToolChoice): unknown {
  return choice.type === "tool" ? { type: "function", function: { name: choice.name } } : choice.type;
}

function encodeFormat(output: OutputFormat): Wire {
  if (output.type === "json") return { type: "json_object" };
  const { name, description, schema, strict } = output;
  return {
    type: "json_schema",
    json_schema: {
      // The name is required here and unknown to other dialects.
      name: (name ?? "output").replaceAll(/[^\w-]/g, "_").slice(0, 64),
      ...(description !== undefined && { description }),
      schema,
      ...(strict !== undefined && { strict }),
    },
  };
}

/** An end user's name; one that is too long becomes its hash, which still tells users apart (dialects.md 4.1). */
function encodeUser(userId: string): string {
  if (userId.length <= MAX_USER) return userId;
  return new Bun.CryptoHasher("sha256").update(userId).digest("hex").slice(0, MAX_USER);
}

function encodeStops(prompt: Prompt, quirks: Quirks, body: Wire, dropped: string[]): void {
  const most = quirks.maxStopSequences ?? MAX_STOPS;
  const kept = prompt.stop.slice(0, most);
  if (kept.length > 0) body["stop"] = kept;
  for (let index = most; index < prompt.stop.length; index++) dropped.push(`stop_sequences[${index}]`);
}

function encodeTools(prompt: Prompt, body: Wire): void {
  if (prompt.tools.length === 0) return;
  body["tools"] = prompt.tools.map(encodeTool);
  if (prompt.toolChoice) body["tool_choice"] = encodeToolChoice(prompt.toolChoice);
  if (prompt.parallelToolCalls !== undefined) body["parallel_tool_calls"] = prompt.parallelToolCalls;
}

/**
 * A prompt as a chat vendor's body (dialects.md 4.1 and 4.2). Model, stream and reasoning come with `amend`. What this dialect or this
 * vendor has no place for is named in `dropped`. Throws GatewayError (invalid_request) for media that cannot be sent at all.
 */
export function encodeRequest(prompt: Prompt, quirks: Quirks): Encoded {
  const dropped: string[] = [];
  const writer = new TurnWriter(quirks, dropped);
  const body: Wire = { messages: [...encodeSystem(prompt.system, quirks), ...writer.write(prompt.turns)] };
  encodeTools(prompt, body);
  encodeStops(prompt, quirks, body, dropped);
  const set = (field: string, value: unknown) => {
    if (value !== undefined) body[field] = value;
  };
  set(quirks.maxTokensField ?? "max_completion_tokens", prompt.maxOutputTokens);
  set("temperature", prompt.temperature);
  set("top_p", prompt.topP);
  if (quirks.acceptsTopK) set("top_k", prompt.topK);
  else if (prompt.topK !== undefined) dropped.push("top_k");
  set(quirks.seedField ?? "seed", prompt.seed);
  set("frequency_penalty", prompt.frequencyPenalty);
  set("presence_penalty", prompt.presencePenalty);
  set("response_format", prompt.output && encodeFormat(prompt.output));
  set("user", prompt.userId && encodeUser(prompt.userId));
  return { body, dropped };
}
