import { type Answer, json, type Part, sse } from "../support/upstream.ts";

/** What a vendor answers, written by hand in both wire protocols: as the deltas of a stream and as a whole. */
export type Reply = { chat: ChatReply; messages: MessagesReply };

export type ChatReply = {
  /** `choices[0].delta` of each chunk after the role. */
  deltas: readonly Record<string, unknown>[];
  /** `choices[0].message` of the whole reply. */
  message: Record<string, unknown>;
  finish: string;
};

export type MessagesReply = {
  blocks: readonly { start: Record<string, unknown>; deltas: readonly Record<string, unknown>[] }[];
  content: readonly Record<string, unknown>[];
  stopReason: string;
  stopSequence?: string;
};

/** Every reply counts the same: 20 fresh and 5 cached tokens in, 12 out, 4 of them spent on reasoning. */
const CHAT_USAGE = {
  prompt_tokens: 25,
  completion_tokens: 12,
  total_tokens: 37,
  prompt_tokens_details: { cached_tokens: 5, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 4, audio_tokens: 0 },
};
const MESSAGES_USAGE = {
  input_tokens: 20,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 5,
  output_tokens: 12,
  service_tier: "standard",
};

const CHAT_HEAD = { id: "chatcmpl-Lab7QkZ1", created: 1_754_432_626, system_fingerprint: "fp_ff25b2783a" };

const chatChunk = (model: string, delta: Record<string, unknown>, finish: string | null) =>
  `data: ${JSON.stringify({
    ...CHAT_HEAD,
    object: "chat.completion.chunk",
    model,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    usage: null,
  })}\n\n`;

/** The records of a chat stream: role, deltas, finish, usage, terminator. */
export function chatRecords(reply: ChatReply, model: string): string[] {
  const usage = { ...CHAT_HEAD, object: "chat.completion.chunk", model, choices: [], usage: CHAT_USAGE };
  return [
    chatChunk(model, { role: "assistant", content: "", refusal: null }, null),
    ...reply.deltas.map((delta) => chatChunk(model, delta, null)),
    chatChunk(model, {}, reply.finish),
    `data: ${JSON.stringify(usage)}\n\n`,
    "data: [DONE]\n\n",
  ];
}

const messagesEvent = (type: string, fields: Record<string, unknown>) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const messagesHead = (model: string) => ({
  id: "msg_01LabQC4g3HwBThD4BaNtBck",
  type: "message",
  role: "assistant",
  model,
});

/** The records of a messages stream, with a ping in the middle as the vendor sends it. */
export function messagesRecords(reply: MessagesReply, model: string): string[] {
  const head = { ...messagesHead(model), content: [], stop_reason: null, stop_sequence: null };
  const blocks = reply.blocks.flatMap((block, index) => [
    messagesEvent("content_block_start", { index, content_block: block.start }),
    ...(index === 0 ? [messagesEvent("ping", {})] : []),
    ...block.deltas.map((delta) => messagesEvent("content_block_delta", { index, delta })),
    messagesEvent("content_block_stop", { index }),
  ]);
  const delta = { stop_reason: reply.stopReason, stop_sequence: reply.stopSequence ?? null };
  return [
    messagesEvent("message_start", { message: { ...head, usage: { ...MESSAGES_USAGE, output_tokens: 1 } } }),
    ...blocks,
    messagesEvent("message_delta", { delta, usage: MESSAGES_USAGE }),
    messagesEvent("message_stop", {}),
  ];
}

export const RECORDS = {
  chat: (reply: Reply, model: string) => chatRecords(reply.chat, model),
  messages: (reply: Reply, model: string) => messagesRecords(reply.messages, model),
};

/** A vendor's whole answer to one call: a stream when the body asks for one. */
export const ANSWERS = {
  chat: (reply: Reply, model: string, stream: boolean): Answer => {
    // Seven bytes at a time: chunk borders fall inside records and characters.
    if (stream) return sse(chatRecords(reply.chat, model).join(""), { chunk: 7 });
    const { message, finish } = reply.chat;
    const choice = {
      index: 0,
      message: { role: "assistant", refusal: null, annotations: [], ...message },
      logprobs: null,
    };
    return json({
      ...CHAT_HEAD,
      object: "chat.completion",
      model,
      choices: [{ ...choice, finish_reason: finish }],
      usage: CHAT_USAGE,
    });
  },
  messages: (reply: Reply, model: string, stream: boolean): Answer => {
    if (stream) return sse(messagesRecords(reply.messages, model).join(""), { chunk: 7 });
    const { content, stopReason, stopSequence } = reply.messages;
    return json({
      ...messagesHead(model),
      content,
      stop_reason: stopReason,
      stop_sequence: stopSequence ?? null,
      usage: MESSAGES_USAGE,
    });
  },
};

/** The first records of a stream up to and with its first text, and the rest: for answers that stop in the middle. */
export function splitAfterText(records: readonly string[], text: string): { begun: Part[]; rest: Part[] } {
  const at = records.findIndex((record) => record.includes(JSON.stringify(text).slice(1, -1)));
  if (at < 0) throw new Error(`no record holds ${text}`);
  return { begun: records.slice(0, at + 1), rest: records.slice(at + 1) };
}

/** Vendor errors as they are worded on the wire. */
export const ERROR_BODIES = {
  chat: (type: string, message: string, code: string | null = null) => ({
    error: { message, type, param: null, code },
  }),
  messages: (type: string, message: string) => ({ type: "error", error: { type, message }, request_id: "req_011Lab" }),
};

const textReply = (text: string, pieces: readonly string[], finish: string, stopReason: string): Reply => ({
  chat: { deltas: pieces.map((content) => ({ content })), message: { content: text }, finish },
  messages: {
    blocks: [
      { start: { type: "text", text: "" }, deltas: pieces.map((piece) => ({ type: "text_delta", text: piece })) },
    ],
    content: [{ type: "text", text }],
    stopReason,
  },
});

export const GREETING = textReply(
  "Grüße aus dem Labor 🙂!",
  ["Grüße", " aus dem", " Labor 🙂", "!"],
  "stop",
  "end_turn",
);
export const CUT = textReply("One, two, thr", ["One,", " two,", " thr"], "length", "max_tokens");
export const REPORT = textReply("Paris has 18 °C, Oslo 3 °C.", ["Paris has 18 °C,", " Oslo 3 °C."], "stop", "end_turn");

const untilStop = textReply("The list is ", ["The list", " is "], "stop", "stop_sequence");
export const STOPPED: Reply = { ...untilStop, messages: { ...untilStop.messages, stopSequence: "END" } };

type LabCall = { chatId: string; messagesId: string; name: string; pieces: readonly string[] };

const callsReply = (calls: readonly LabCall[]): Reply => ({
  chat: {
    deltas: calls.flatMap(({ chatId, name, pieces }, index) => [
      { tool_calls: [{ index, id: chatId, type: "function", function: { name, arguments: "" } }] },
      ...pieces.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
    message: {
      content: null,
      tool_calls: calls.map(({ chatId, name, pieces }) => ({
        id: chatId,
        type: "function",
        function: { name, arguments: pieces.join("") },
      })),
    },
    finish: "tool_calls",
  },
  messages: {
    blocks: calls.map(({ messagesId, name, pieces }) => ({
      start: { type: "tool_use", id: messagesId, name, input: {} },
      deltas: ["", ...pieces].map((piece) => ({ type: "input_json_delta", partial_json: piece })),
    })),
    content: calls.map(({ messagesId, name, pieces }) => ({
      type: "tool_use",
      id: messagesId,
      name,
      input: JSON.parse(pieces.join("")) as unknown,
    })),
    stopReason: "tool_use",
  },
});

const PARIS = {
  chatId: "call_4kc6691zCzjPnOuEtbEGUvz2",
  messagesId: "toolu_01QzvKfzUQ4Lab7Paris",
  name: "get_weather",
  pieces: ['{"ci', 'ty":"Par', 'is","unit":"°C"}'],
};
const OSLO = {
  chatId: "call_9mXqk2LabOslo00000000000",
  messagesId: "toolu_01QzvKfzUQ4Lab8Oslo0",
  name: "get_weather",
  pieces: ['{"city":', '"Oslo"}'],
};
export const ONE_CALL = callsReply([PARIS]);
export const TWO_CALLS = callsReply([PARIS, OSLO]);

const THOUGHT = ["Two and two", " make four."];
export const SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk";
export const REASONED: Reply = {
  chat: {
    deltas: [...THOUGHT.map((text) => ({ reasoning_content: text })), { content: "Fo" }, { content: "ur." }],
    message: { content: "Four.", reasoning_content: THOUGHT.join("") },
    finish: "stop",
  },
  messages: {
    blocks: [
      {
        start: { type: "thinking", thinking: "", signature: "" },
        deltas: [
          ...THOUGHT.map((text) => ({ type: "thinking_delta", thinking: text })),
          { type: "signature_delta", signature: SIGNATURE },
        ],
      },
      {
        start: { type: "text", text: "" },
        deltas: [
          { type: "text_delta", text: "Fo" },
          { type: "text_delta", text: "ur." },
        ],
      },
    ],
    content: [
      { type: "thinking", thinking: THOUGHT.join(""), signature: SIGNATURE },
      { type: "text", text: "Four." },
    ],
    stopReason: "end_turn",
  },
};
