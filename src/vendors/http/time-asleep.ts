/** By up to this much, ms, the wall clock is set now and then though the machine was not asleep. */
const MOST_SET_MS = 1_000;

/**
 * Makes a clock that tells monotonic ms, the time included that the machine was asleep: meanwhile a laptop's clocks stand still, all but the wall clock, while
 * servers close their connections to it. A wall clock that is set forward counts as sleep too, one that is set back does not.
 */
export function countTimeAsleep(
  monotonic: () => number = () => performance.now(),
  wall: () => number = () => Date.now(),
): () => number {
  let asleepMs = 0;
  let lead = wall() - monotonic();
  return () => {
    const now = monotonic();
    const before = lead;
    lead = wall() - now;
    if (lead - before > MOST_SET_MS) asleepMs += lead - before;
    return now + asleepMs;
  };
}
