import type { Event } from "../../src/canon/events.ts";
import type { Orders } from "../../src/canon/intent.ts";
import type { Quirks, ReplyChanges, ReplyContext } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { eventWriter, streamWriter, translateReply } from "../../src/dialects/translate.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";
import { translateWhole } from "../support/translate.ts";

export type Wire = Record<string, unknown>;
export type ClientName = keyof typeof dialects;
export type UpstreamName = keyof typeof upstreamDialects;

export const CLIENTS = ["chat", "messages", "responses"] as const;
export const UPSTREAMS = ["chat", "messages", "responses", "gemini"] as const;

const ORDERS: Orders = {
  upstreamModel: "up-1",
  stream: false,
  reasoning: { kind: "nothing" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
};

/** A way from a client's dialect to an upstream's, with what a vendor and the gateway add to it. */
export type Way = { from: ClientName; to: UpstreamName; quirks?: Quirks; orders?: Partial<Orders>; headers?: Headers };

/** What is sent, as a value and as the very text. */
export type Sent = { body: Wire; text: string; dropped: readonly string[]; changes: ReplyChanges | undefined };

/** A client's body as its upstream is asked, after the client's own check. */
export function send(way: Way, body: Wire): Sent {
  const client = dialects[way.from];
  const whole = { model: "a/b", ...(way.from === "messages" && { max_tokens: 64 }), ...body };
  client.check(whole);
  const upstream = upstreamDialects[way.to];
  const orders = { ...ORDERS, stream: body["stream"] === true, ...way.orders };
  const json: ObjectText = new JsonText(JSON.stringify(whole));
  const { text, dropped, changes } = translateWhole(json, client, upstream, {
    orders,
    quirks: way.quirks ?? {},
    headers: way.headers,
  });
  return { body: JSON.parse(text) as Wire, text, dropped, changes };
}

export const contextOf = (changes?: ReplyChanges): ReplyContext => ({
  model: "a/b",
  replyId: "Reply1",
  created: 1_790_000_001,
  wantsUsage: true,
  estimatedInputTokens: 9,
  ...(changes && { changes }),
});

/** An upstream's whole reply as the client gets it, as text. */
export function replyText({ from, to, quirks }: Way, body: Wire, changes?: ReplyChanges): string {
  const json: ObjectText = new JsonText(JSON.stringify(body));
  return translateReply(
    json,
    { upstream: upstreamDialects[to], client: dialects[from], context: contextOf(changes) },
    quirks ?? {},
  ).text;
}

/** {@link replyText} as a value. */
export const reply = (way: Way, body: Wire, changes?: ReplyChanges): Wire =>
  JSON.parse(replyText(way, body, changes)) as Wire;

/** An upstream's stream as the client gets it. */
export function stream({ from, to, quirks }: Way, sse: string, changes?: ReplyChanges): string {
  const decoder = upstreamDialects[to].decoder({ quirks: quirks ?? {} });
  const writer = streamWriter({ upstream: upstreamDialects[to], client: dialects[from], context: contextOf(changes) });
  const splitter = new FrameSplitter();
  let text = "";
  for (const frame of [...splitter.push(sse), ...splitter.end()]) text += writer.push(frame, decoder.push(frame));
  return text + writer.end(decoder.end());
}

/** Events as the client's stream. */
export function write(from: ClientName, events: readonly Event[], changes?: ReplyChanges): string {
  const writer = eventWriter(dialects[from], contextOf(changes));
  return writer.end(events);
}

/** The JSON records of SSE text. */
export function recordsOf(sse: string): Wire[] {
  const splitter = new FrameSplitter();
  return [...splitter.push(sse), ...splitter.end()]
    .filter((frame) => frame.data !== "[DONE]")
    .map((frame) => frame.value as Wire);
}

/** A stream of a client's dialect, read again as events. */
export function readBack(from: ClientName, sse: string): Event[] {
  const decoder = dialects[from].decoder({ quirks: {} });
  const splitter = new FrameSplitter();
  const events = [...splitter.push(sse), ...splitter.end()].flatMap((frame) => decoder.push(frame));
  return [...events, ...decoder.end()];
}

/** SSE text of records without event lines, and the chat dialect's terminator. */
export const chatStream = (...records: Wire[]): string =>
  `${records.map((record) => `data: ${JSON.stringify(record)}\n\n`).join("")}data: [DONE]\n\n`;

/** A chunk of a chat stream. */
export const chunk = (delta: Wire, finish: string | null = null): Wire => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1,
  model: "up-1",
  choices: [{ index: 0, delta, finish_reason: finish }],
});

/** SSE text of records whose type stands on the event line too, as the messages and the responses dialect have it. */
export const typedStream = (...records: (Wire & { type: string })[]): string =>
  records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join("");
