import type { Event } from "../../src/canon/events.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { gemini } from "../../src/dialects/gemini/index.ts";

/** Reads SSE text, cut into the given chunks, as the relay does. */
export function run(chunks: readonly string[]): Event[] {
  const splitter = new FrameSplitter();
  const decoder = gemini.decoder({ quirks: {} });
  const events: Event[] = [];
  for (const frame of [...chunks.flatMap((chunk) => splitter.push(chunk)), ...splitter.end()]) {
    events.push(...decoder.push(frame));
  }
  events.push(...decoder.end());
  return events;
}

/** Events as plain data: an error as its code, and the ids that were made up here as `call_1`, `call_2`, … */
export function plain(events: readonly Event[]): unknown[] {
  const made: string[] = [];
  const text = JSON.stringify(
    events.map((event) => (event.type === "error" ? { type: "error", code: event.error.code } : event)),
  );
  return JSON.parse(
    text.replace(/call_[0-9A-Za-z]{24}/g, (id) => {
      if (!made.includes(id)) made.push(id);
      return `call_${made.indexOf(id) + 1}`;
    }),
  ) as unknown[];
}
