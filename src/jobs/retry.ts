/** Attempts that a vendor may really have had of one job (reliability 5.4). */
const MAX_TRIES = 3;
/** The pause before another attempt, ms: spread out over these. */
const LEAST_PAUSE_MS = 1_000;
const MOST_PAUSE_MS = 15_000;

export type RetryFacts = {
  /** Times that the vendor was asked so far, this one included. */
  tries: number;
  /** The vendor said itself that it took nothing on: that is no attempt. */
  busy: boolean;
  /** What is wanted waited along the route that is asked next, ms. */
  waitMs?: number;
  /** That is another route of the model, which was not asked since this one's turn came. */
  elsewhere?: boolean;
  /** Until the job has to have ended, ms. */
  leftMs: number;
  /** From 0 to below 1. */
  random: number;
};

/**
 * The pause before a job is tried again of which surely nothing ran, ms; undefined when it has failed for good: too many attempts, or no time
 * left. Only for such jobs: whatever may have run is never sent twice (reliability 5.4). Pure.
 */
export function retryPause(facts: RetryFacts): number | undefined {
  const { tries, busy, waitMs = 0, elsewhere = false, leftMs, random } = facts;
  if (!busy && tries >= MAX_TRIES) return undefined;
  if (elsewhere) return 0;
  const spread = LEAST_PAUSE_MS + random * (MOST_PAUSE_MS - LEAST_PAUSE_MS);
  const pause = Math.max(spread, waitMs);
  return pause < leftMs ? Math.ceil(pause) : undefined;
}
