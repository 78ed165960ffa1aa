import type { Clock } from "../lib/clock.ts";
import { FetchFault } from "./safe-fetch-fault.ts";

/** Rejects with the signal's reason once that is aborted; the work itself may go on unseen. */
export async function until<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** A signal of its own that follows `outer`, and ends by itself after `ms` with the sentence given. */
export function limit(clock: Clock, ms: number, sentence: string, outer: AbortSignal | undefined) {
  const controller = new AbortController();
  const onAbort = () => controller.abort(outer?.reason);
  outer?.addEventListener("abort", onAbort);
  if (outer?.aborted) onAbort();
  const cancel = clock.after(ms, () => controller.abort(new FetchFault("timeout", sentence)));
  return {
    signal: controller.signal,
    end() {
      cancel();
      outer?.removeEventListener("abort", onAbort);
    },
  };
}
