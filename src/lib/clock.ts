import { Alarms } from "./alarms.ts";

/** Time, injected, so that tests turn it by hand. */
export type Clock = {
  /** Wall clock, Unix milliseconds: for display, records and windows only. */
  now(): number;
  /** Milliseconds that never step back: for deadlines, leases and limits. */
  monotonic(): number;
  /** Runs `callback` once after `ms`; the returned function takes it back. */
  after(ms: number, callback: () => void): () => void;
};

const alarms = new Alarms(() => performance.now());

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, callback) => alarms.after(ms, callback),
};
