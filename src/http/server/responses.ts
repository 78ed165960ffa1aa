import { setImmediate as nextTurn } from "node:timers/promises";
import { bodyOf } from "../answered.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Sender } from "./sender.ts";

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;
type Read = Awaited<ReturnType<Reader["read"]>>;

/** A body that cannot be cancelled has broken already. What is told is the reason for which it was to be cancelled. */
function ignoreCancelled(): void {}

/** What a read gives, or undefined where it gives nothing before the next turn of the event loop. */
function soon(read: Promise<Read>): Promise<Read | undefined> {
  return Promise.race([read, new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))]);
}

/**
 * Sends a Response of the other endpoints: as a whole where all of its body is there at once, else piece by piece. Rejects with what reading the body
 * throws.
 */
export async function sendResponse(
  response: Response,
  head: Omit<AnswerHead, "status" | "headers">,
  isHead: boolean,
  sender: Sender,
): Promise<void> {
  const headers: Record<string, string> = {};
  for (const [name, value] of response.headers) headers[name] = value;
  const told: AnswerHead = { ...head, status: response.status, headers };
  const whole = bodyOf(response);
  if (isHead) {
    if (whole === undefined) response.body?.cancel().catch(ignoreCancelled);
    // The routes tell the length of the empty body, but here it would mean the length of what the client has already (RFC 9110, 8.6).
    if (response.status === 304) delete headers["content-length"];
    return sender.sendHead(told);
  }
  if (typeof whole === "string") return sender.sendWhole(told, whole);
  if (whole) return sender.sendBytes(told, whole);
  if (response.body === null) return sender.sendWhole(told, null);
  const reader: Reader = response.body.getReader();
  sender.follow(reader);
  try {
    await sendBody(told, reader, sender);
  } catch (thrown) {
    await reader.cancel(thrown).catch(ignoreCancelled);
    throw thrown;
  }
}

async function sendBody(told: AnswerHead, reader: Reader, sender: Sender): Promise<void> {
  const first = await reader.read();
  // The body is empty. An answer that another process gave has its length among its headers already.
  if (first.done) return sender.sendWhole(told, null);
  const following = reader.read();
  const second = await soon(following);
  if (second?.done && !("content-length" in told.headers)) return sender.sendBytes(told, first.value);
  sender.begin(told);
  await sender.sendPiece(first.value);
  for (let read = second ?? (await following); !read.done; read = await reader.read()) {
    await sender.sendPiece(read.value);
    // Where each piece is there at once, as the pages of an export, all that the client takes would be made and sent in one turn of the event loop.
    await nextTurn();
  }
  sender.end();
}
