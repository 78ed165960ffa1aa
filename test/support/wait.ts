/** How long a test waits for a thing before it says that it did not come, milliseconds. */
const PATIENCE_MS = 15_000;

/** Waits until `condition` holds. Throws with `what` in its words when it does not within `patienceMs`. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  const startedAt = performance.now();
  while (!(await condition())) {
    if (performance.now() - startedAt > patienceMs) throw new Error(`waited ${patienceMs} ms in vain: ${what}`);
    await new Promise<void>((resolve) => setTimeout(resolve, 1));
  }
}

/** `promise`, or an error naming `what` when it does not resolve within `patienceMs`. */
export async function within<T>(promise: Promise<T>, what: string, patienceMs = PATIENCE_MS): Promise<T> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`waited ${patienceMs} ms in vain: ${what}`)), patienceMs);
  try {
    return await Promise.race([promise, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

/** Begins to count the CPU time of this process: what is returned tells it, ms. Unlike a clock it does not go on while others have the processor. */
export function countWork(): () => number {
  const before = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
}

/** The least CPU time that `work` takes of `runs`, ms: the first may compile, any may collect. */
export function leastWork(work: () => unknown, runs: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run++) {
    const took = countWork();
    work();
    least = Math.min(least, took());
  }
  return least;
}

/**
 * The CPU time that `work` takes, ms: of up to three runs the first that takes less than `bound`, or else the least. In the midst of one the heap of a whole
 * suite may be collected, which takes longer than what is looked at.
 */
export async function workBelow(bound: number, work: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3 && least >= bound; run++) {
    const took = countWork();
    await work();
    least = Math.min(least, took());
  }
  return least;
}

/** Resolves with the next turn of the event loop: what this turn has put off until its end is done by then. */
export const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A promise a test resolves by hand: the gate that a scripted answer waits at. */
export type Gate = { readonly opened: Promise<void>; open(): void };

/** A closed gate. */
export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
