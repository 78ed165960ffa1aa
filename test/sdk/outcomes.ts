import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { isObject } from "../../src/lib/json.ts";
import type { ClientName, Lab } from "./lab.ts";

export type Mode = "stream" | "blocking";
export const MODES = ["stream", "blocking"] as const;

export type ChatRequest = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "model" | "stream">;
/** The SDK's types have dropped sampling fields that the wire still has (interface 4.5). */
export type MessagesRequest = Omit<Anthropic.MessageCreateParamsNonStreaming, "model" | "stream"> & {
  temperature?: number;
};
export type ResponsesRequest = Omit<OpenAI.Responses.ResponseCreateParamsNonStreaming, "model" | "stream">;
export type Requests = { chat: ChatRequest; messages: MessagesRequest; responses: ResponsesRequest };

/** What an official SDK made of an answer, in words that all share. */
export type Outcome = {
  model: string;
  text: string;
  reasoning: string;
  /** The proof of the last reasoning, where the client's dialect has a place for it. */
  proof: string | undefined;
  tools: { id: string; name: string; input: unknown }[];
  /** The dialect's own word. */
  finish: string;
  stopSequence: string | null;
  usage: { fresh: number; cached: number; output: number };
};

/** Asks through an official SDK: whole, or through its stream accumulator, which refuses malformed streams. */
export function ask(lab: Lab, client: ClientName, model: string, requests: Requests, mode: Mode): Promise<Outcome> {
  if (client === "chat") return askChat(lab.openai(), model, requests.chat, mode);
  if (client === "responses") return askResponses(lab.openai(), model, requests.responses, mode);
  return askMessages(lab.anthropic(), model, requests.messages, mode);
}

export async function askChat(client: OpenAI, model: string, request: ChatRequest, mode: Mode): Promise<Outcome> {
  if (mode === "blocking") return readCompletion(await client.chat.completions.create({ ...request, model }), "");
  const stream = client.chat.completions.stream({ ...request, model, stream_options: { include_usage: true } });
  let reasoning = "";
  const heads = new Set<string>();
  for await (const chunk of stream) {
    // The accumulator looks at the first chunk alone; programs that read chunk by chunk see all (dialects.md 1.4).
    heads.add(`${chunk.id} ${chunk.created} ${chunk.model}`);
    const delta: unknown = chunk.choices[0]?.delta;
    if (isObject(delta) && typeof delta["reasoning_content"] === "string") reasoning += delta["reasoning_content"];
  }
  if (heads.size !== 1) throw new Error(`the chunks are not of one reply: ${[...heads].join(", ")}`);
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
    proof: undefined,
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

export async function askMessages(
  client: Anthropic,
  model: string,
  request: MessagesRequest,
  mode: Mode,
): Promise<Outcome> {
  const params = { ...request, model };
  if (mode === "blocking") return readMessage(await client.messages.create(params));
  return readMessage(await client.messages.stream(params).finalMessage());
}

function readMessage(message: Anthropic.Message): Outcome {
  let text = "";
  let reasoning = "";
  let proof: string | undefined;
  const tools: Outcome["tools"] = [];
  for (const block of message.content) {
    if (block.type === "text") text += block.text;
    else if (block.type === "tool_use") tools.push({ id: block.id, name: block.name, input: block.input });
    else if (block.type === "thinking") {
      reasoning += block.thinking;
      proof = block.signature;
    } else throw new Error(`a block of type ${block.type}`);
  }
  return {
    model: message.model,
    text,
    reasoning,
    proof,
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

export async function askResponses(
  client: OpenAI,
  model: string,
  request: ResponsesRequest,
  mode: Mode,
): Promise<Outcome> {
  if (mode === "blocking") return readResponse(await client.responses.create({ ...request, model }));
  const stream = client.responses.stream({ ...request, model } as Parameters<typeof client.responses.stream>[0]);
  let streamed = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") streamed += event.delta;
  const outcome = readResponse(await stream.finalResponse());
  if (streamed !== outcome.text) throw new Error(`the deltas say ${streamed}, the response ${outcome.text}`);
  return outcome;
}

function readResponse(response: OpenAI.Responses.Response): Outcome {
  let reasoning = "";
  let proof: string | undefined;
  const tools: Outcome["tools"] = [];
  for (const item of response.output) {
    if (item.type === "function_call") {
      tools.push({ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) as unknown });
    } else if (item.type === "reasoning") {
      reasoning += item.summary.map((part) => part.text).join("");
      proof = item.encrypted_content ?? undefined;
    } else if (item.type !== "message") throw new Error(`an item of type ${item.type}`);
  }
  const { usage } = response;
  const cached = usage?.input_tokens_details.cached_tokens ?? 0;
  const reason = response.incomplete_details?.reason;
  return {
    model: response.model,
    text: response.output_text,
    reasoning,
    proof,
    tools,
    finish: reason === undefined ? (response.status ?? "none") : `${response.status} ${reason}`,
    stopSequence: null,
    usage: { fresh: (usage?.input_tokens ?? Number.NaN) - cached, cached, output: usage?.output_tokens ?? Number.NaN },
  };
}
