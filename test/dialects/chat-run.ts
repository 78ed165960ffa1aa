import type { Event } from "../../src/canon/events.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import type { Quirks, ReplyContext } from "../../src/dialects/dialect.ts";
import { type Frame, FrameSplitter } from "../../src/dialects/frames.ts";

export const CONTEXT: ReplyContext = {
  model: "lab/tiny",
  replyId: "Reply1",
  created: 1_790_000_001,
  wantsUsage: true,
  estimatedInputTokens: 9,
};

/** SSE text cut into pieces at the given places, as frames. */
export function framesOf(text: string, cuts: readonly number[] = []): Frame[] {
  const splitter = new FrameSplitter();
  const frames: Frame[] = [];
  let from = 0;
  for (const cut of [...new Set(cuts)].sort((one, other) => one - other)) {
    frames.push(...splitter.push(text.slice(from, cut)));
    from = cut;
  }
  frames.push(...splitter.push(text.slice(from)), ...splitter.end());
  return frames;
}

/** What the decoder reads from SSE text, its end included. */
export function decodeText(text: string, quirks: Quirks = {}, cuts: readonly number[] = []): Event[] {
  const decoder = chat.decoder({ quirks });
  const events = framesOf(text, cuts).flatMap((frame) => decoder.push(frame));
  return [...events, ...decoder.end()];
}

/** What a chat client gets of a chat upstream's SSE text; the closing records only after a finish. */
export function relabelText(text: string, quirks: Quirks = {}, context = CONTEXT): string {
  const decoder = chat.decoder({ quirks });
  const relabeler = chat.relabeler(context);
  let out = "";
  let last: Event | undefined;
  for (const frame of framesOf(text)) {
    if (decoder.done) break;
    const events = decoder.push(frame);
    last = events.at(-1) ?? last;
    out += relabeler.push(frame, events);
  }
  const closing = decoder.end();
  last = closing.at(-1) ?? last;
  return last?.type === "finish" ? out + relabeler.end(closing) : out;
}

/** What the encoder writes for events. */
export function encodeText(events: readonly Event[], context = CONTEXT): string {
  const encoder = chat.encoder(context);
  return events.map((event) => encoder.push(event)).join("") + encoder.end();
}

/** The JSON records of SSE text, in order, the terminator left out. */
export function recordsOf(text: string): Record<string, unknown>[] {
  return framesOf(text)
    .filter((frame) => frame.data !== "[DONE]")
    .map((frame) => frame.value as Record<string, unknown>);
}

/** Events as one line each, the deltas of a block joined: what must not depend on how the text was cut. */
export function summarize(events: readonly Event[]): string[] {
  const lines: string[] = [];
  let text = "";
  let signature = "";
  for (const event of events) {
    if (event.type === "block-delta") text += event.text;
    else if (event.type === "block-signature") signature = ` signed ${event.signature}`;
    else if (event.type === "block-end") {
      lines.push(`${lines.pop()} ${JSON.stringify(text)}${signature}`);
      text = signature = "";
    } else lines.push(summarizeOne(event));
  }
  return lines;
}

/** {@link summarize} with only the last word on usage, which is the one that counts. */
export function outcomeOf(events: readonly Event[]): string[] {
  const lines = summarize(events);
  const last = lines.findLastIndex((line) => line.startsWith("usage "));
  return lines.filter((line, index) => !line.startsWith("usage ") || index === last);
}

function summarizeOne(event: Event): string {
  switch (event.type) {
    case "block-start": {
      const { block } = event;
      return block.kind === "tool-call" ? `tool-call ${block.id} ${block.name}` : block.kind;
    }
    case "usage":
      return `usage ${Object.values(event.usage).join(" ")}`;
    case "finish":
      return ["finish", event.finish.reason, event.finish.stopSequence ?? ""].join(" ").trim();
    case "error":
      return `error ${event.error.code}`;
    default:
      return event.type;
  }
}
