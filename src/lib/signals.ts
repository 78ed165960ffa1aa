import type { Clock } from "./clock.ts";

/**
 * Resolves or rejects as `work` does, and rejects with the signal's reason as soon as that is aborted, while the work goes on unheeded. Under a signal that is
 * aborted already it is not begun.
 */
export async function until<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Resolves after `ms`, or as soon as the signal is aborted. Never rejects. */
export async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(ms, resolve);
  const onAbort = () => resolve();
  signal.addEventListener("abort", onAbort, { once: true });
  await promise;
  cancel();
  signal.removeEventListener("abort", onAbort);
}

/** A new controller that is also aborted with `outer`, with the same reason. `leave`: stops listening to `outer`, which may live much longer. */
export function follow(outer: AbortSignal | undefined): { controller: AbortController; leave(): void } {
  const controller = new AbortController();
  const onAbort = () => controller.abort(outer?.reason);
  if (outer?.aborted) onAbort();
  else outer?.addEventListener("abort", onAbort, { once: true });
  return { controller, leave: () => outer?.removeEventListener("abort", onAbort) };
}

/** A signal that is aborted with `outer`, or after `ms` with the reason that `over` returns. `end`: stops waiting for both. */
export function deadline(clock: Clock, ms: number, over: () => unknown, outer?: AbortSignal) {
  const { controller, leave } = follow(outer);
  const cancel = clock.after(ms, () => controller.abort(over()));
  return {
    signal: controller.signal,
    end() {
      cancel();
      leave();
    },
  };
}
