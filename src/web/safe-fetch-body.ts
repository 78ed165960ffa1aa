import { FetchFault } from "./safe-fetch-fault.ts";
import { until } from "./safe-fetch-time.ts";

export type BodyLimits = {
  /** Most bytes of a body, after decompression. */
  maxBytes: number;
  /** A longer body is cut (and said to be), or refused. */
  whenLonger: "cut" | "refuse";
};

/** Hangs up on whoever still sends a body. What goes wrong with that concerns nobody any more. */
export function letGo(body: { cancel(): Promise<void> }): void {
  body.cancel().catch(() => {});
}

/** Reads a body up to `maxBytes`, which are counted after decompression, and stops its sender there. */
export async function readBody(
  response: Response,
  { maxBytes, whenLonger }: BodyLimits,
  signal: AbortSignal,
): Promise<{ body: Uint8Array; cut: boolean }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let cut = false;
  const reader = response.body?.getReader();
  try {
    while (reader) {
      const { done, value } = await until(reader.read(), signal);
      if (done) break;
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
    // A sender that is still talking is hung up on.
    if (reader) letGo(reader);
  }
  const body = Buffer.concat(chunks).subarray(0, maxBytes);
  return { body, cut };
}
