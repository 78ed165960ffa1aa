import type { Clock } from "../lib/clock.ts";
import { shuttingDown } from "./ended.ts";
import type { Running } from "./running.ts";

/** How long streams may go on when the gateway is told to stop (reliability 6.5). */
export const DRAIN_MS = 30_000;
/** What an answer that was cut off by its own bound takes to be told, ms. */
const TELL_MS = 1_000;

/** How long it takes at the most until nothing is under way any more. `blockingMs`: how long an answer that comes whole may take. */
export const longestDrainMs = (blockingMs: number): number => Math.max(DRAIN_MS, blockingMs + TELL_MS);

/** How often those are looked for that came late, ms. */
const LATE_MS = 1_000;

/**
 * Lets running requests end: streams for half a minute, answers that come whole within the bound that they have anyway. Whoever ended those sooner would
 * have their vendor paid for nothing, and their clients ask for the same again. Nothing new may come in by then but what `others` still bring.
 */
export async function drain(
  running: Running,
  clock: Clock,
  blockingMs: number,
  others: Promise<unknown> = Promise.resolve(),
): Promise<void> {
  const endStreams = () => {
    running.endUnbounded(shuttingDown());
    cancelStreams = clock.after(LATE_MS, endStreams);
  };
  let cancelStreams = clock.after(DRAIN_MS, endStreams);
  const cancelAll = clock.after(longestDrainMs(blockingMs), () => running.endAll(shuttingDown()));
  try {
    await Promise.all([running.idle(), others]);
    // What the others still had may have come in here since.
    await running.idle();
  } finally {
    cancelStreams();
    cancelAll();
  }
}
