/** The wall clock is set by this much without anybody having slept, ms. */
const MOST_SET_MS = 1_000;

/**
 * Reads monotonic ms in which the time counts that the machine was asleep: a laptop's own clocks stand still meanwhile, but for the wall clock, and those
 * whom it is connected to do not wait. A wall clock that is set forward counts too, one that is set back does not.
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
