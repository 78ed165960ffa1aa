import type { Abort } from "../../lib/abort.ts";
import type { Clock } from "../../lib/clock.ts";

/** Resolves after `ms` of the clock; rejects with the abort's reason as soon as that comes, and takes its timer back. */
export function pause(clock: Clock, ms: number, abort: Abort): Promise<void> {
  if (abort.aborted) return Promise.reject(abort.reason);
  if (ms <= 0) return Promise.resolve();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const ended = {
    onAbort(reason: unknown) {
      takeBack();
      reject(reason);
    },
  };
  const takeBack = clock.after(ms, () => {
    abort.delete(ended);
    resolve();
  });
  abort.add(ended);
  return promise;
}
