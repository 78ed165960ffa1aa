/** The unit of all times here, the microsecond, as others count. */
export const US_PER_MS = 1_000;
export const US_PER_SECOND = 1_000_000;

/**
 * How fast something may go, as the generic cell rate algorithm has it (reliability 4): one unit each `intervalUs`, and up to `burst` units
 * at once after a rest. All times are whole microseconds of a clock that never steps back.
 */
export type Rate = {
  /** Units a minute, or in whatever period the class is told in: what `x-ratelimit-limit` shows. */
  limit: number;
  intervalUs: number;
  /** Units that may come at once, at least 1. */
  burst: number;
};

/** The rate of `limit` units in `periodMs` milliseconds with `burst` at once. An interval that is not whole is rounded up: never faster than said. */
export function rateOf(limit: number, periodMs: number, burst: number): Rate {
  return {
    limit,
    intervalUs: Math.max(1, Math.ceil((periodMs * US_PER_MS) / limit)),
    burst: Math.max(1, Math.floor(burst)),
  };
}

/**
 * How long `count` units have to wait, µs; 0: they may pass now. `tat` is the bucket's one number, its theoretical arrival time: the
 * moment when it is as good as new. After exactly this wait, with nothing taken in between, they pass.
 */
export function waitFor(tat: number, now: number, rate: Rate, count = 1): number {
  return Math.max(0, spend(tat, now, rate, count) - now - rate.burst * rate.intervalUs);
}

/**
 * The bucket's number after `count` units have passed; more than a burst at once could never pass, so it counts as the whole burst. Only what
 * {@link waitFor} lets pass is spent.
 */
export function spend(tat: number, now: number, rate: Rate, count = 1): number {
  return Math.max(tat, now) + Math.min(count, rate.burst) * rate.intervalUs;
}

/** Units that could pass at once now, from 0 to the burst. */
export function remaining(tat: number, now: number, rate: Rate): number {
  const ahead = Math.max(0, tat - now);
  return Math.max(0, Math.floor((rate.burst * rate.intervalUs - ahead) / rate.intervalUs));
}

/** Until the whole burst is there again, µs. */
export function resetAfter(tat: number, now: number): number {
  return Math.max(0, tat - now);
}
