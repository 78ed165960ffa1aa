import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { isObject } from "../../src/lib/json.ts";

export type Mode = "stream" | "blocking";
export const MODES = ["stream", "blocking"] as const;

export type OpenAIRequest = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "model" | "stream">;
/** The SDK's types have dropped sampling fields that the wire still has (interface 4.5). */
export type AnthropicRequest = Omit<Anthropic.MessageCreateParamsNonStreaming, "model" | "stream"> & {
  temperature?: number;
};

/** What an official SDK made of an answer, in words that both share. */
export type Outcome = {
  model: string;
  text: string;
  reasoning: string;
  signature: string | undefined;
  tools: { id: string; name: string; input: unknown }[];
  /** The dialect's own word. */
  finish: string;
  stopSequence: string | null;
  usage: { fresh: number; cached: number; output: number };
};

/** Asks through the official openai SDK: whole, or through its stream accumulator, which refuses malformed streams. */
export async function askOpenAI(client: OpenAI, model: string, request: OpenAIRequest, mode: Mode): Promise<Outcome> {
  if (mode === "blocking") return readCompletion(await client.chat.completions.create({ ...request, model }), "");
  const stream = client.chat.completions.stream({ ...request, model, stream_options: { include_usage: true } });
  let reasoning = "";
  for await (const chunk of stream) {
    const delta: unknown = chunk.choices[0]?.delta;
    if (isObject(delta) && typeof delta["reasoning_content"] === "string") reasoning += delta["reasoning_content"];
  }
  return readCompletion(await stream.finalChatCompletion(), reasoning);
}

function readCompletion(completion: OpenAI.ChatCompletion, streamed: string): Outcome {
  const [choice] = completion.choices;
  if (!choice || completion.choices.length !== 1) throw new Error("not one choice");
  const whole: unknown = "reasoning_content" in choice.message ? choice.message.reasoning_content : "";
  const { usage } = completion;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return {
    model: completion.model,
    text: choice.message.content ?? "",
    // The accumulator overwrites fields it does not know, so the pieces were joined on the way.
    reasoning: streamed === "" && typeof whole === "string" ? whole : streamed,
    signature: undefined,
    tools: (choice.message.tool_calls ?? []).map((call) => {
      if (call.type !== "function") throw new Error(`a call of type ${call.type}`);
      return { id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) as unknown };
    }),
    finish: choice.finish_reason,
    stopSequence: null,
    usage: {
      fresh: (usage?.prompt_tokens ?? Number.NaN) - cached,
      cached,
      output: usage?.completion_tokens ?? Number.NaN,
    },
  };
}

/** Asks through the official @anthropic-ai/sdk: whole, or through its stream accumulator, which refuses malformed streams. */
export async function askAnthropic(
  client: Anthropic,
  model: string,
  request: AnthropicRequest,
  mode: Mode,
): Promise<Outcome> {
  const params = { ...request, model };
  if (mode === "blocking") return readMessage(await client.messages.create(params));
  return readMessage(await client.messages.stream(params).finalMessage());
}

function readMessage(message: Anthropic.Message): Outcome {
  let text = "";
  let reasoning = "";
  let signature: string | undefined;
  const tools: Outcome["tools"] = [];
  for (const block of message.content) {
    if (block.type === "text") text += block.text;
    else if (block.type === "tool_use") tools.push({ id: block.id, name: block.name, input: block.input });
    else if (block.type === "thinking") {
      reasoning += block.thinking;
      signature = block.signature;
    } else throw new Error(`a block of type ${block.type}`);
  }
  return {
    model: message.model,
    text,
    reasoning,
    signature,
    tools,
    finish: message.stop_reason ?? "none",
    stopSequence: message.stop_sequence,
    usage: {
      fresh: message.usage.input_tokens,
      cached: message.usage.cache_read_input_tokens ?? 0,
      output: message.usage.output_tokens,
    },
  };
}
