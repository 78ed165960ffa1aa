import { type Answer, readText } from "./answer.ts";
import { isBrokenConnection, toBrokenBody } from "./connection-faults.ts";

/** The largest whole reply that is read, bytes. The 16 MiB of reliability 6.3 are meant for text: a 4K image as a PNG in base64 takes some 30 MiB. */
export const MAX_REPLY_BYTES = 48 * 1024 * 1024;
/** The most that is read of an error answer, bytes (reliability 6.3). */
export const MAX_ERROR_BYTES = 64 * 1024;
/** How long the body of an error answer is waited for, ms: its status, which tells the most, is known already. */
const REFUSAL_MS = 2_000;

/**
 * A body as text, at most about `maxBytes` of it. What was cut is no longer valid JSON and is refused where it is parsed.
 * Throws what aborted the call, or GatewayError (upstream_error) when the connection broke under way.
 */
export function readCapped(answer: Answer, maxBytes: number): string | Promise<string> {
  const text = answer.text(maxBytes);
  return typeof text === "string" ? text : text.catch(tellBroken);
}

/**
 * What an error answer says. Its status is known, and stands: words that break off, cannot be unpacked or do not come are none (""). Throws what aborted the
 * call.
 */
export async function readRefusal(answer: Answer): Promise<string> {
  const timer = setTimeout(() => answer.cancel(), REFUSAL_MS);
  try {
    // Piece by piece: with Bun's client, reading all at once could not be given up.
    return await readText(answer, MAX_ERROR_BYTES);
  } catch (thrown) {
    if (isBrokenConnection(thrown)) return "";
    throw thrown;
  } finally {
    clearTimeout(timer);
  }
}

function tellBroken(thrown: unknown): never {
  throw toBrokenBody(thrown);
}
