import type { Clock } from "./clock.ts";

/** How often something is done, ms; `firstMs`: before the first time, where that is another wait. */
export type Rhythm = { everyMs: number; firstMs?: number };

/**
 * Does `work` again and again, beginning after a first wait, until the returned function is called. The next wait begins with the work, and not with its
 * end. What it throws or rejects with goes to `onFault`.
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
