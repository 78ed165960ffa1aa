import type { JsonText } from "../lib/json-text.ts";

/** A conversation longer than this is worked on in several turns of the event loop, characters or bytes. */
const LONG = 256 * 1024;

/**
 * Lets others be served before more is done with a long conversation: to parse it, check it and translate it takes some ms each, and several times that
 * while the code for it is new. Undefined for a short one.
 */
export function breathe({ length }: JsonText): Promise<void> | undefined {
  return length > LONG ? new Promise((resolve) => setImmediate(resolve)) : undefined;
}
