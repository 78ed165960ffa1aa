import type { GatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import { NO_FRAME } from "../../dialects/frames.ts";
import { errorOf, insertUsage, type StreamWriter } from "../../dialects/translate.ts";
import type { Exchange } from "../exchange.ts";
import type { Step } from "./stream-reader.ts";

/** What a step came to: text for the client, and whether the reply ended, well or badly, or because its money did (`spent`). */
export type Written = {
  text: string;
  error?: GatewayError;
  ended: boolean;
  spent?: true;
  tail: readonly Event[];
  /** What is left to be written once another process has said whether there is money for it. */
  rest?: Step;
};

/** The events, with the counts that will be billed before the finish, where the vendor has sent none. */
export function withUsage(events: readonly Event[], exchange: Exchange): readonly Event[] {
  if (!events.some((event) => event.type === "finish")) return events;
  const { usage, estimated } = exchange.counted;
  return estimated ? insertUsage(events, usage) : events;
}

/**
 * Of the events with which a decoder ends a reply that broke off: those that it had held back, with the error. They are paid for, so the client gets them, but
 * only up to the end of the open block, which the vendor itself never ended; and no call, which may be incomplete.
 */
export function saidBefore(events: readonly Event[]): readonly Event[] {
  const at = events.findIndex(
    (event) => event.type === "block-end" || (event.type === "block-start" && event.block.kind === "tool-call"),
  );
  const said = at < 0 ? [] : events.slice(0, at);
  return [...said, ...events.filter((event) => event.type === "error")];
}

/** Writes a step for the client; what it brought is metered, remembered and paid on the way. */
export function writeStep(step: Step, writer: StreamWriter, exchange: Exchange): Written {
  const { meter, spending } = exchange;
  let text = "";
  let taken = 0;
  for (const { frame, events, untold } of step.frames) {
    taken++;
    if (events.length > 0) {
      meter.take(events);
      exchange.collector?.take(events);
    }
    if (events.length > 0 || untold) spending?.take(events, untold);
    const error = errorOf(events);
    if (error) return { text: text + writer.push(frame, saidBefore(events)), error, ended: true, tail: [] };
    text += writer.push(frame, withUsage(events, exchange));
    // What was read beyond is neither shown nor paid: a fast vendor brings thousands of tokens at a time.
    if (spending?.exhausted) return { text, ended: true, spent: true, tail: [] };
    if (spending?.asked) return { text, ended: false, tail: [], rest: { ...step, frames: step.frames.slice(taken) } };
  }
  meter.take(step.tail);
  exchange.collector?.take(step.tail);
  const error = errorOf(step.tail);
  if (error) text += writer.push(NO_FRAME, saidBefore(step.tail));
  return { text, ...(error && { error }), ended: step.ended, tail: withUsage(step.tail, exchange) };
}

/** Goes on with a step that waits for money, until all of it is written or there is none. */
export async function writeRest(held: Written, writer: StreamWriter, exchange: Exchange): Promise<Written> {
  let written = held;
  let text = held.text;
  while (written.rest) {
    await exchange.spending?.asked;
    if (exchange.spending?.exhausted) return { text, ended: true, spent: true, tail: [] };
    written = writeStep(written.rest, writer, exchange);
    text += written.text;
  }
  return { ...written, text };
}
