import type { Clock } from "./clock.ts";

/** How often something is done, ms. `firstMs`: the wait before the first time; default: `everyMs`. */
export type Rhythm = { everyMs: number; firstMs?: number };

/**
 * Does `work` again and again, after a first wait, until the returned function is called. A wait begins when `work` begins, not when it ends, so that it may
 * still be under way at the next time. What it throws or rejects with goes to `onFault`.
 */
export function repeat(
  clock: Clock,
  { everyMs, firstMs = everyMs }: Rhythm,
  work: () => unknown,
  onFault: (thrown: unknown) => void,
): () => void {
  let cancel = clock.after(firstMs, tick);
  function tick(): void {
    cancel = clock.after(everyMs, tick);
    Promise.try(work).catch(onFault);
  }
  return () => cancel();
}
