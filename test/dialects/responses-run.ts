import OpenAI from "openai";
import type { Event } from "../../src/canon/events.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { encodeIn, runThrough } from "./diagonal.ts";

/** Reads SSE text, cut into the given chunks, as the relay does. */
export const run = (chunks: readonly string[]) => runThrough(responses, chunks);

/** Events as a client's stream of this dialect. */
export const encode = (events: readonly Event[]) => encodeIn(responses, events);

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
