import type { Answer } from "../support/upstream.ts";
import { json, sse } from "../support/upstream.ts";

/** The two dialects that these tables are about, on either side. */
export const SIDES = ["chat", "messages"] as const;
export type Side = (typeof SIDES)[number];

export const MODES = ["blocking", "stream"] as const;
export type Mode = (typeof MODES)[number];

/** What the vendor calls its model: no client may ever see it. */
export const HIDDEN_MODEL = "hidden-weights-7b";
/** What the vendor says, in two pieces: 19 characters, five tokens by the gateway's own count. */
export const PIECES = ["Hello there, ", "world."] as const;
export const SAID = PIECES.join("");
/** The vendor's own counts of a sound reply. */
export const INPUT = 11;
export const OUTPUT = 7;

/** Counts as a vendor writes them: any value, so that wrong ones can be played. `undefined` leaves the usage out. */
export type RawUsage = { input: unknown; output: unknown } | undefined;
export const SOUND: RawUsage = { input: INPUT, output: OUTPUT };

/** What a vendor of a dialect puts on the wire, piece by piece, so that a table can break it anywhere. */
export type Wire = {
  reply(usage?: RawUsage): Record<string, unknown>;
  /** Records up to where text may come. */
  head(usage?: RawUsage): string;
  text(text: string): string;
  /** The finish reason, with the usage in messages. */
  finish(usage?: RawUsage): string;
  /** A usage record of its own; "" in messages. */
  usage(usage?: RawUsage): string;
  terminator: string;
  error(type: string, message: string, code?: string): Record<string, unknown>;
  errorRecord(type: string, message: string): string;
};

const chatUsage = (usage: RawUsage) =>
  usage && { prompt_tokens: usage.input, completion_tokens: usage.output, total_tokens: undefined };

function chatRecord(fields: Record<string, unknown>): string {
  const chunk = { id: "chatcmpl-v1", object: "chat.completion.chunk", created: 1_700_000_000, model: HIDDEN_MODEL };
  return `data: ${JSON.stringify({ ...chunk, ...fields })}\n\n`;
}

const chatDelta = (delta: Record<string, unknown>, finish: string | null = null) =>
  chatRecord({ choices: [{ index: 0, delta, finish_reason: finish }] });

const chatError = (type: string, message: string, code: string | null = null) => ({
  error: { message, type, param: null, code },
});

const chat: Wire = {
  reply: (usage = SOUND) => ({
    id: "chatcmpl-v1",
    object: "chat.completion",
    created: 1_700_000_000,
    model: HIDDEN_MODEL,
    choices: [{ index: 0, message: { role: "assistant", content: SAID }, finish_reason: "stop" }],
    ...(usage && { usage: chatUsage(usage) }),
  }),
  head: () => chatDelta({ role: "assistant", content: "" }),
  text: (text) => chatDelta({ content: text }),
  finish: () => chatDelta({}, "stop"),
  usage: (usage = SOUND) => (usage ? chatRecord({ choices: [], usage: chatUsage(usage) }) : ""),
  terminator: "data: [DONE]\n\n",
  error: chatError,
  errorRecord: (type, message) => `data: ${JSON.stringify(chatError(type, message))}\n\n`,
};

const messagesUsage = (usage: RawUsage) => usage && { input_tokens: usage.input, output_tokens: usage.output };

const messagesRecord = (type: string, fields: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const messagesHead = {
  id: "msg_v1",
  type: "message",
  role: "assistant",
  model: HIDDEN_MODEL,
};

const messagesError = (type: string, message: string) => ({ type: "error", error: { type, message } });

const messages: Wire = {
  reply: (usage = SOUND) => ({
    ...messagesHead,
    content: [{ type: "text", text: SAID }],
    stop_reason: "end_turn",
    stop_sequence: null,
    ...(usage && { usage: messagesUsage(usage) }),
  }),
  head: (usage = SOUND) => {
    const message = { ...messagesHead, content: [], stop_reason: null, stop_sequence: null };
    const counted = usage && {
      usage: { input_tokens: usage.input, output_tokens: usage === SOUND ? 1 : usage.output },
    };
    return (
      messagesRecord("message_start", { message: { ...message, ...counted } }) +
      messagesRecord("content_block_start", { index: 0, content_block: { type: "text", text: "" } })
    );
  },
  text: (text) => messagesRecord("content_block_delta", { index: 0, delta: { type: "text_delta", text } }),
  finish: (usage = SOUND) =>
    messagesRecord("content_block_stop", { index: 0 }) +
    messagesRecord("message_delta", {
      delta: { stop_reason: "end_turn", stop_sequence: null },
      ...(usage && { usage: messagesUsage(usage) }),
    }),
  usage: () => "",
  terminator: messagesRecord("message_stop"),
  error: messagesError,
  errorRecord: (type, message) => messagesRecord("error", messagesError(type, message)),
};

export const WIRES: Record<Side, Wire> = { chat, messages };

/** A whole sound stream. */
export function soundStream(wire: Wire, usage: RawUsage = SOUND): string {
  return wire.head(usage) + PIECES.map(wire.text).join("") + wire.finish(usage) + wire.usage(usage) + wire.terminator;
}

/** A sound answer, whichever way it was asked for. */
export function soundAnswer(wire: Wire, mode: Mode): Answer {
  return mode === "stream" ? sse(soundStream(wire)) : json(wire.reply());
}

/** One record of a stream that a client was sent; `ping` for a record without data. */
export type SseRecord = { event: string | undefined; data: string; value: Record<string, unknown> | undefined };

/** A client's stream as its records, comments left out. Throws when a record is cut off or its data is no JSON. */
export function readRecords(text: string): SseRecord[] {
  if (text !== "" && !text.endsWith("\n\n")) throw new Error(`the stream ends inside a record: ${text.slice(-200)}`);
  const records: SseRecord[] = [];
  for (const raw of text.split("\n\n")) {
    const lines = raw.split(/\r\n|\n|\r/).filter((line) => line !== "" && !line.startsWith(":"));
    if (lines.length === 0) continue;
    const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = field("data") ?? "";
    records.push({
      event: field("event"),
      data,
      value: data === "[DONE]" ? undefined : (JSON.parse(data) as Record<string, unknown>),
    });
  }
  return records;
}

/** The whole text that a client's records carry. */
export function saidIn(side: Side, records: readonly SseRecord[]): string {
  return records
    .map(({ value }) => {
      if (side === "chat") {
        const choices = (value?.["choices"] ?? []) as { delta?: { content?: string | null } }[];
        return choices[0]?.delta?.content ?? "";
      }
      return (value?.["delta"] as { text?: string } | undefined)?.text ?? "";
    })
    .join("");
}
