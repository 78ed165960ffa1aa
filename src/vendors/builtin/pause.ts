import type { Clock } from "../../lib/clock.ts";

/** Resolves after `ms` of the clock; rejects with the signal's reason as soon as that is aborted, and takes its timer back. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  if (ms <= 0) return Promise.resolve();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => {
    takeBack();
    reject(signal.reason);
  };
  const takeBack = clock.after(ms, () => {
    signal.removeEventListener("abort", onAbort);
    resolve();
  });
  signal.addEventListener("abort", onAbort, { once: true });
  return promise;
}
