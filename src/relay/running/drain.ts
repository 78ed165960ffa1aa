import type { Clock } from "../../lib/clock.ts";
import { shuttingDown } from "./ended.ts";
import type { Running } from "./running.ts";

/** How long streams may go on when the gateway is told to stop (reliability 6.5). */
export const DRAIN_MS = 30_000;
/** How long it takes to tell a client that its answer was cut off at its own bound, ms. */
const TELL_MS = 1_000;

/** The longest that {@link drain} waits, ms. `blockingMs`: how long an answer that comes whole may take. */
export const longestDrainMs = (blockingMs: number): number => Math.max(DRAIN_MS, blockingMs + TELL_MS);

/** How often streams that came in after {@link DRAIN_MS} are ended, ms. */
const LATE_MS = 1_000;

/**
 * Lets running requests end: streams within half a minute, answers that come whole within the bound that they have anyway. Ended sooner, their vendor would
 * be paid for nothing, and their clients would ask for the same again. Nothing new may come in by now, but for what `others` still bring until they resolve.
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
