import { setImmediate } from "node:timers/promises";
import { until } from "../../lib/signals.ts";
import { FetchFault } from "./fault.ts";
import { unpack } from "./unpack.ts";

export type BodyLimits = {
  /** Most bytes of a body, after decompression; it may depend on the response's headers. */
  maxBytes: number | ((headers: Headers) => number);
  /** What happens to a longer body: it is cut, and the result says so, or it is refused. */
  whenLonger: "cut" | "refuse";
};

/** Closes a body that is still being sent. Errors of that are ignored: the body is not needed any more. */
export function letGo(body: { cancel(): Promise<void> }): void {
  body.cancel().catch(() => {});
}

/** Bytes that are copied at once, about; then the event loop gets its turn: fresh memory for 20 MB takes it 15 ms. */
const COPIED_AT_ONCE = 1024 * 1024;

/** The first `size` bytes of `chunks`, in memory of their own, so that they can be handed to another thread. */
async function join(chunks: readonly Uint8Array[], size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  let at = 0;
  let copied = 0;
  for (const chunk of chunks) {
    if (copied >= COPIED_AT_ONCE) {
      await setImmediate();
      copied = 0;
    }
    bytes.set(chunk.subarray(0, size - at), at);
    at += chunk.length;
    copied += chunk.length;
  }
  return bytes;
}

/** The chunks of a body as they come. Throws the signal's reason once that is aborted. */
async function* chunksOf(reader: Pick<ReadableStreamDefaultReader<Uint8Array>, "read">, signal: AbortSignal) {
  for (;;) {
    const { done, value } = await until(signal, () => reader.read());
    if (done) return;
    yield value;
  }
}

/**
 * Reads a body up to `maxBytes`, which are counted after decompression, and stops its sender there. The response's own bytes must be
 * packed still.
 */
export async function readBody(
  response: Response,
  limits: BodyLimits,
  signal: AbortSignal,
): Promise<{ body: Uint8Array; cut: boolean }> {
  const { whenLonger } = limits;
  const maxBytes = typeof limits.maxBytes === "number" ? limits.maxBytes : limits.maxBytes(response.headers);
  const chunks: Uint8Array[] = [];
  let size = 0;
  let cut = false;
  const reader = response.body?.getReader();
  try {
    const packed = reader ? chunksOf(reader, signal) : undefined;
    for await (const value of packed ? unpack(packed, response.headers.get("content-encoding") ?? "") : []) {
      chunks.push(value);
      size += value.length;
      if (size <= maxBytes) continue;
      if (whenLonger === "refuse") {
        throw new FetchFault("too_large", `It is larger than ${Math.floor(maxBytes / 1_048_576)} MiB.`);
      }
      cut = true;
      break;
    }
  } finally {
    // A sender that has not finished is cut off.
    if (reader) letGo(reader);
  }
  return { body: await join(chunks, Math.min(size, maxBytes)), cut };
}
