import { describe, expect, test } from "bun:test";
import type { Event } from "../../src/canon/events.ts";
import type { Usage } from "../../src/canon/usage.ts";
import {
  DIALECTS,
  type DialectName,
  type ReplyContext,
  UPSTREAM_DIALECTS,
  type UpstreamDialectName,
} from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { streamWriter, translateReply } from "../../src/dialects/translate.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";

type Wire = Record<string, unknown>;

const CONTEXT: ReplyContext = { model: "lab/m", replyId: "r", created: 1, wantsUsage: true, estimatedInputTokens: 1 };
const USAGE: Usage = { input: 100, cacheRead: 4000, cacheWrite: 300, output: 50, reasoning: 20 };

type Ending = "stop" | "calls" | "length" | "filter";
type Said = { call: boolean; word: Ending };

const CHAT_WORD: Record<Ending, string> = {
  stop: "stop",
  calls: "tool_calls",
  length: "length",
  filter: "content_filter",
};
const MESSAGES_WORD: Record<Ending, string> = {
  stop: "end_turn",
  calls: "tool_use",
  length: "max_tokens",
  filter: "refusal",
};
const GEMINI_WORD: Record<Ending, string> = { stop: "STOP", calls: "STOP", length: "MAX_TOKENS", filter: "SAFETY" };

const CHAT_USAGE = {
  prompt_tokens: 4400,
  completion_tokens: 50,
  total_tokens: 4450,
  prompt_tokens_details: { cached_tokens: 4000, cache_write_tokens: 300 },
  completion_tokens_details: { reasoning_tokens: 20 },
};
const MESSAGES_USAGE = {
  input_tokens: 100,
  cache_read_input_tokens: 4000,
  cache_creation_input_tokens: 300,
  output_tokens: 50,
  output_tokens_details: { thinking_tokens: 20 },
};
const RESPONSES_USAGE = {
  input_tokens: 4400,
  input_tokens_details: { cached_tokens: 4000, cache_write_tokens: 300 },
  output_tokens: 50,
  output_tokens_details: { reasoning_tokens: 20 },
  total_tokens: 4450,
};
/** This dialect knows no count of what was written to a cache. */
const GEMINI_USAGE = {
  promptTokenCount: 4400,
  cachedContentTokenCount: 4000,
  candidatesTokenCount: 30,
  thoughtsTokenCount: 20,
  totalTokenCount: 4450,
};

const toolCall = { id: "call_1", type: "function", function: { name: "run", arguments: "{}" } };

function responseObject({ call, word }: Said): Wire {
  const cut = word === "length" ? "max_output_tokens" : word === "filter" ? "content_filter" : undefined;
  const output: Wire[] = [
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi", annotations: [] }],
    },
  ];
  if (call)
    output.push({
      type: "function_call",
      id: "fc_1",
      call_id: "call_1",
      name: "run",
      arguments: "{}",
      status: "completed",
    });
  return {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "m",
    status: cut ? "incomplete" : "completed",
    incomplete_details: cut ? { reason: cut } : null,
    error: null,
    output,
    usage: RESPONSES_USAGE,
  };
}

/** A whole reply as the vendors of a dialect write it: a text, perhaps a call, and a word for its end that may not fit them. */
const WHOLE: Record<UpstreamDialectName, (said: Said) => Wire> = {
  chat: ({ call, word }) => ({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "Hi", ...(call && { tool_calls: [toolCall] }) },
        logprobs: null,
        finish_reason: CHAT_WORD[word],
      },
    ],
    usage: CHAT_USAGE,
  }),
  messages: ({ call, word }) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      { type: "text", text: "Hi" },
      ...(call ? [{ type: "tool_use", id: "toolu_1", name: "run", input: {} }] : []),
    ],
    stop_reason: MESSAGES_WORD[word],
    stop_sequence: null,
    usage: MESSAGES_USAGE,
  }),
  responses: responseObject,
  gemini: ({ call, word }) => ({
    candidates: [
      {
        content: {
          role: "model",
          parts: [{ text: "Hi" }, ...(call ? [{ functionCall: { name: "run", args: {} } }] : [])],
        },
        finishReason: GEMINI_WORD[word],
        index: 0,
      },
    ],
    usageMetadata: GEMINI_USAGE,
    modelVersion: "m",
  }),
};

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const typed = (value: Wire) => `event: ${value["type"]}\n${data(value)}`;

function chatStream({ call, word }: Said): string {
  const chunk = (choices: Wire[], usage: unknown = null) =>
    data({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", choices, usage });
  const delta = (delta: Wire, finish: string | null = null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }]);
  return [
    delta({ role: "assistant", content: "" }),
    delta({ content: "Hi" }),
    call ? delta({ tool_calls: [{ index: 0, ...toolCall }] }) : "",
    delta({}, CHAT_WORD[word]),
    chunk([], CHAT_USAGE),
    "data: [DONE]\n\n",
  ].join("");
}

function messagesStream({ call, word }: Said): string {
  const block = (index: number, content_block: Wire, delta: Wire) => [
    typed({ type: "content_block_start", index, content_block }),
    typed({ type: "content_block_delta", index, delta }),
    typed({ type: "content_block_stop", index }),
  ];
  const start = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
  return [
    typed({ type: "message_start", message: { ...start, usage: { ...MESSAGES_USAGE, output_tokens: 1 } } }),
    ...block(0, { type: "text", text: "" }, { type: "text_delta", text: "Hi" }),
    ...(call
      ? block(
          1,
          { type: "tool_use", id: "toolu_1", name: "run", input: {} },
          { type: "input_json_delta", partial_json: "{}" },
        )
      : []),
    typed({
      type: "message_delta",
      delta: { stop_reason: MESSAGES_WORD[word], stop_sequence: null },
      usage: MESSAGES_USAGE,
    }),
    typed({ type: "message_stop" }),
  ].join("");
}

function responsesStream(said: Said): string {
  const response = responseObject(said);
  const items = response["output"] as Wire[];
  const records: Wire[] = [
    { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
  ];
  for (const [output_index, item] of items.entries()) {
    records.push({
      type: "response.output_item.added",
      output_index,
      item: { ...item, ...(item["content"] ? { content: [] } : {}) },
    });
    if (item["type"] === "message") {
      const place = { item_id: "msg_1", output_index, content_index: 0 };
      records.push({
        type: "response.content_part.added",
        ...place,
        part: { type: "output_text", text: "", annotations: [] },
      });
      records.push({ type: "response.output_text.delta", ...place, delta: "Hi" });
      records.push({ type: "response.output_text.done", ...place, text: "Hi" });
      records.push({
        type: "response.content_part.done",
        ...place,
        part: { type: "output_text", text: "Hi", annotations: [] },
      });
    } else {
      records.push({ type: "response.function_call_arguments.delta", item_id: "fc_1", output_index, delta: "{}" });
      records.push({ type: "response.function_call_arguments.done", item_id: "fc_1", output_index, arguments: "{}" });
    }
    records.push({ type: "response.output_item.done", output_index, item });
  }
  records.push({ type: response["status"] === "completed" ? "response.completed" : "response.incomplete", response });
  return records.map((record, sequence_number) => typed({ ...record, sequence_number })).join("");
}

const STREAM: Record<UpstreamDialectName, (said: Said) => string> = {
  chat: chatStream,
  messages: messagesStream,
  responses: responsesStream,
  gemini: (said) => data(WHOLE.gemini(said)),
};

/** What a client was told of a reply's end and cost. */
type Told = { call: boolean; ending: string; usage: Wire };

function readTold(client: DialectName, reply: Wire): Told {
  const usage = reply["usage"] as Wire;
  if (client === "chat") {
    const [choice] = reply["choices"] as { message: { tool_calls?: unknown[] }; finish_reason: string }[];
    return { call: (choice?.message.tool_calls ?? []).length > 0, ending: String(choice?.finish_reason), usage };
  }
  if (client === "messages") {
    const blocks = reply["content"] as Wire[];
    return { call: blocks.some(({ type }) => type === "tool_use"), ending: String(reply["stop_reason"]), usage };
  }
  const items = reply["output"] as Wire[];
  const details = reply["incomplete_details"] as Wire | null;
  return {
    call: items.some(({ type }) => type === "function_call"),
    ending: details ? String(details["reason"]) : String(reply["status"]),
    usage,
  };
}

function readWhole(client: DialectName, from: UpstreamDialectName, said: Said): Told & { events: Event[] } {
  const body: ObjectText = new JsonText(JSON.stringify(WHOLE[from](said)));
  const { text, events } = translateReply(
    body,
    { upstream: upstreamDialects[from], client: dialects[client], context: CONTEXT },
    {},
  );
  return { ...readTold(client, JSON.parse(text) as Wire), events };
}

function relayStream(client: DialectName, from: UpstreamDialectName, said: Said): { text: string; events: Event[] } {
  const decoder = upstreamDialects[from].decoder({ quirks: {} });
  const writer = streamWriter({ upstream: upstreamDialects[from], client: dialects[client], context: CONTEXT });
  const events: Event[] = [];
  let text = "";
  for (const frame of new FrameSplitter().push(STREAM[from](said))) {
    if (decoder.done) break;
    const some = decoder.push(frame);
    events.push(...some);
    text += writer.push(frame, some);
  }
  const tail = decoder.end();
  events.push(...tail);
  return { text: text + writer.end(tail), events };
}

/** The records of a client's stream put together to what a whole reply says. */
function readStream(client: DialectName, from: UpstreamDialectName, said: Said): Told & { events: Event[] } {
  const { text, events } = relayStream(client, from, said);
  const records = new FrameSplitter().push(text).filter(({ data: json }) => json !== "[DONE]");
  const values = records.map(({ value }) => value as Wire);
  if (client === "responses") return { ...readTold(client, values.at(-1)?.["response"] as Wire), events };
  if (client === "messages") {
    const content = values.filter(({ type }) => type === "content_block_start").map((value) => value["content_block"]);
    const start = (values[0] as { message: { usage: Wire } }).message.usage;
    const end = values.find(({ type }) => type === "message_delta") as { delta: Wire; usage: Wire };
    return { ...readTold(client, { content, ...end.delta, usage: { ...start, ...end.usage } }), events };
  }
  const choices = values.flatMap((value) => value["choices"] as { delta: Wire; finish_reason: string | null }[]);
  const tool_calls = choices.flatMap(({ delta }) => (delta["tool_calls"] as unknown[]) ?? []);
  const finishes = choices.filter(({ finish_reason }) => finish_reason !== null);
  expect(finishes).toHaveLength(1);
  const usage = values.at(-1)?.["usage"];
  const choice = { message: { tool_calls }, finish_reason: finishes[0]?.finish_reason };
  return { ...readTold(client, { choices: [choice], usage }), events };
}

/** What each client is told: a call that was sent, and only one that was, ends a reply for its answer; being cut is said all the same. */
const ENDINGS: Record<DialectName, Record<Ending, string>> = {
  chat: CHAT_WORD,
  messages: MESSAGES_WORD,
  responses: { stop: "completed", calls: "completed", length: "max_output_tokens", filter: "content_filter" },
};

function endingOf({ call, word }: Said): Ending {
  if (word === "length" || word === "filter") return word;
  return call ? "calls" : "stop";
}

const WORDS: readonly Ending[] = ["stop", "calls", "length", "filter"];

for (const client of DIALECTS) {
  for (const from of UPSTREAM_DIALECTS) {
    describe(`${client} client, ${from} vendor`, () => {
      for (const [way, read] of [
        ["whole", readWhole],
        ["stream", readStream],
      ] as const) {
        for (const word of WORDS) {
          for (const call of [false, true]) {
            test(`${way}: the vendor says ${word} ${call ? "with" : "without"} a call`, () => {
              const told = read(client, from, { call, word });
              expect(told.call).toBe(call);
              expect(told.ending).toBe(ENDINGS[client][endingOf({ call, word })]);
            });
          }
        }

        test(`${way}: usage is told in the dialect's own buckets, and booked in disjoint ones`, () => {
          const { usage, events } = read(client, from, { call: true, word: "calls" });
          const booked = events.filter((event) => event.type === "usage").at(-1)?.usage;
          const written = from === "gemini" ? 0 : USAGE.cacheWrite;
          const fresh = 4400 - 4000 - written;
          expect(booked).toEqual({ ...USAGE, cacheWrite: written, input: fresh });
          if (client === "messages") {
            expect(usage).toMatchObject({
              ...MESSAGES_USAGE,
              input_tokens: fresh,
              cache_creation_input_tokens: written,
            });
          } else {
            const table = client === "chat" ? CHAT_USAGE : RESPONSES_USAGE;
            const name = client === "chat" ? "prompt_tokens_details" : "input_tokens_details";
            expect(usage).toMatchObject({ ...table, [name]: { cached_tokens: 4000, cache_write_tokens: written } });
          }
        });
      }
    });
  }
}

describe("why a model declined", () => {
  const details = { type: "refusal", category: "cyber", explanation: "Not this." };
  const end = { stop_reason: "refusal", stop_sequence: null, stop_details: details };
  const usage = { input_tokens: 3, output_tokens: 2 };
  const message = { id: "m", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "a" }] };
  const records = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: end, usage },
    { type: "message_stop" },
  ];
  const sse = records.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join("");
  const whole = (to: DialectName, context = CONTEXT) => {
    const body: ObjectText = new JsonText(JSON.stringify({ ...message, ...end, usage }));
    return JSON.parse(
      translateReply(body, { upstream: upstreamDialects.messages, client: dialects[to], context }, {}).text,
    ) as Wire;
  };
  const streamed = (to: DialectName, context = CONTEXT) => {
    const decoder = upstreamDialects.messages.decoder({ quirks: {} });
    const writer = streamWriter({ upstream: upstreamDialects.messages, client: dialects[to], context });
    const frames = [...new FrameSplitter().push(sse)];
    return frames.map((frame) => writer.push(frame, decoder.push(frame))).join("") + writer.end(decoder.end());
  };

  test("is text by which it declines in OpenAI's dialects", () => {
    const said = { content: "a", refusal: "Not this." };
    expect(whole("chat")).toMatchObject({ choices: [{ message: said, finish_reason: "content_filter" }] });
    expect(streamed("chat")).toContain('{"refusal":"Not this."}');
    const declined = { type: "refusal", refusal: "Not this." };
    expect(JSON.stringify(whole("responses"))).toContain(JSON.stringify(declined));
    const completed = streamed("responses").match(/^data: (.*"response\.(?:completed|incomplete)".*)$/m)?.[1] ?? "";
    expect(completed).toContain(JSON.stringify(declined));
  });

  test("stays where it stands for its own clients, also in a reply that is written anew", () => {
    expect(whole("messages")).toMatchObject(end);
    const anew = { ...CONTEXT, changes: { stops: ["zzz"] } };
    const written = { ...details, category: null };
    expect(whole("messages", anew)).toMatchObject({ content: [{ text: "a" }], stop_details: written });
    expect(streamed("messages", anew)).toContain(JSON.stringify(written));
  });
});
