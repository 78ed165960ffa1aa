import OpenAI from "openai";
import type { Event } from "../../src/canon/events.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { context, type Run } from "./messages-run.ts";

export { context, normalise, plain } from "./messages-run.ts";

/** Reads SSE text, cut into the given chunks, as the relay does. */
export function run(chunks: readonly string[]): Run {
  const splitter = new FrameSplitter();
  const decoder = responses.decoder({ quirks: {} });
  const relabeler = responses.relabeler(context);
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
  if (events.at(-1)?.type === "finish") relabeled += relabeler.end(tail);
  return { events, relabeled };
}

/** Events as a client's stream of this dialect. */
export function encode(events: readonly Event[]): string {
  const encoder = responses.encoder(context);
  return events.map((event) => encoder.push(event)).join("") + encoder.end();
}

/** An official client whose every answer is this one. */
export function clientOf(body: string, type: string, status = 200): OpenAI {
  return new OpenAI({
    apiKey: "none",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: async () => new Response(body, { status, headers: { "content-type": type } }),
  });
}

/** What the official SDK's own accumulator makes of a stream. */
export function accumulate(sse: string) {
  return clientOf(sse, "text/event-stream").responses.stream({ model: "any", input: "x" }).finalResponse();
}
