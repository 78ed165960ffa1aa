import { Alarms, type Sleeper, type Wait } from "./alarms.ts";

/** Time, injected, so that tests turn it by hand. */
export type Clock = {
  /** Wall clock, Unix milliseconds: for display, records and windows only. */
  now(): number;
  /** Milliseconds that never step back: for deadlines, leases and limits. */
  monotonic(): number;
  /** Runs `callback` once after `ms`; the returned function cancels that. */
  after(ms: number, callback: () => void): () => void;
  /** {@link after} with less memory, where a clock can do that; see {@link wakeAfter}. */
  wake?(ms: number, sleeper: Sleeper): Wait;
};

/** Wakes `sleeper` once after `ms`. For waits of which there are thousands at a time: two functions for each would take most of their memory. */
export function wakeAfter(clock: Clock, ms: number, sleeper: Sleeper): Wait {
  return clock.wake ? clock.wake(ms, sleeper) : { stop: clock.after(ms, () => sleeper.wake()) };
}

const alarms = new Alarms(() => performance.now());

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, callback) => alarms.after(ms, callback),
  wake: (ms, sleeper) => alarms.wake(ms, sleeper),
};
