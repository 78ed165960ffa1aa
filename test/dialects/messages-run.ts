import type { Event } from "../../src/canon/events.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { encodeIn, runThrough } from "./diagonal.ts";

/** Reads SSE text, cut into the given chunks, as the relay does. */
export const run = (chunks: readonly string[]) => runThrough(messages, chunks);

/** Events as a client's stream of this dialect. */
export const encode = (events: readonly Event[]) => encodeIn(messages, events);
