import type { Event } from "../../src/canon/events.ts";
import type { ClientDialect, Dialect, ReplyContext } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";

export const context: ReplyContext = {
  model: "some/model-id",
  replyId: "REPLY",
  created: 1_700_000_000,
  wantsUsage: true,
  estimatedInputTokens: 0,
};

/** What came of one upstream stream: its events, and what the relabeler sent on the diagonal (the error record left out). */
export type Run = { events: Event[]; relabeled: string };

/** Reads SSE text of a dialect, cut into the given chunks, as the relay does. */
export function runThrough(dialect: Dialect, chunks: readonly string[]): Run {
  const splitter = new FrameSplitter();
  const decoder = dialect.decoder({ quirks: {} });
  const relabeler = dialect.relabeler(context);
  const events: Event[] = [];
  let relabeled = "";
  const frames = [...chunks.flatMap((chunk) => splitter.push(chunk)), ...splitter.end()];
  for (const frame of frames) {
    if (decoder.done) break;
    const read = decoder.push(frame);
    events.push(...read);
    relabeled += relabeler.push(frame, read);
  }
  const tail = decoder.end();
  events.push(...tail);
  if (isFinished(events)) relabeled += relabeler.end(tail);
  return { events, relabeled };
}

/** Events as a client's stream of a dialect, an error at their end as the relay writes it. */
export function encodeIn(dialect: ClientDialect, events: readonly Event[]): string {
  const encoder = dialect.encoder(context);
  const records = events.map((event) => encoder.push(event)).join("");
  const last = events.at(-1);
  if (last?.type !== "error") return records + encoder.end();
  return records + (encoder.fail?.(last.error) ?? dialect.encodeErrorFrame(last.error, "req_1"));
}

export const isFinished = (events: readonly Event[]) => events.at(-1)?.type === "finish";

/** Events without what may differ between two spellings of one reply: neighbouring deltas joined, only the last usage and signature. */
export function normalise(events: readonly Event[]): Event[] {
  const out: Event[] = [];
  for (const event of events) {
    const last = out.at(-1);
    if (event.type === "start") out.push({ type: "start" });
    else if (event.type === "block-delta" && last?.type === "block-delta") {
      out[out.length - 1] = { type: "block-delta", text: last.text + event.text };
    } else if (event.type === "block-signature" && last?.type === "block-signature") out[out.length - 1] = event;
    else if (event.type === "usage") continue;
    else if (event.type === "finish") {
      const { raw: _raw, ...finish } = event.finish;
      out.push({ type: "finish", finish });
    } else out.push(event);
  }
  const usage = events.findLast((event) => event.type === "usage");
  if (!usage) return out;
  // What goes on to a client is the last word on it.
  const { begun: _begun, ...told } = usage;
  out.splice(-1, 0, told);
  return out;
}

/** Events as plain data, an error as its code. */
export function plain(events: readonly Event[]): unknown[] {
  return JSON.parse(
    JSON.stringify(events.map((event) => (event.type === "error" ? { type: "error", code: event.error.code } : event))),
  );
}

/** Events that stand between a block's start and its end, the end itself too. */
const INSIDE_BLOCKS: ReadonlySet<Event["type"]> = new Set([
  "block-delta",
  "block-signature",
  "block-citation",
  "block-end",
]);

/** The grammar of events: what is wrong with a list of them, or undefined. */
export function grammarFault(events: readonly Event[]): string | undefined {
  let open = false;
  for (const [index, event] of events.entries()) {
    const isLast = index === events.length - 1;
    if ((event.type === "finish" || event.type === "error") !== isLast) return `${event.type} at ${index}`;
    if (event.type === "start" && index !== 0) return "start is not first";
    if (event.type === "block-delta" && event.text === "") return "an empty delta";
    const inside = INSIDE_BLOCKS.has(event.type);
    if (inside !== open && event.type !== "error") return `${event.type} at ${index} while open is ${open}`;
    if (event.type === "block-start") open = true;
    if (event.type === "block-end") open = false;
  }
  return undefined;
}
