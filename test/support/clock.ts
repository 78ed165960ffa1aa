import type { Clock } from "../../src/lib/clock.ts";

/** Rounds of the event loop given to promises and loopback sockets between two timers. */
const SETTLE_ROUNDS = 8;

type Timer = { id: number; dueAt: number; delayMs: number; callback: () => void };

/** A clock that stands still until a test turns it. */
export type ManualClock = Clock & {
  /** Turns the clock on by `ms`: timers that fall due run in order of their time, each followed by a pause in which promises and sockets settle. */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock alone, forwards or back, as an operator or a time server would; timers do not notice. */
  setWall(now: number): void;
  /** Resolves once `count` timers of exactly `delayMs` wait to run, one if nothing is said. */
  armed(delayMs: number, count?: number): Promise<void>;
  /** Timers that wait to run. */
  readonly pending: number;
};

/** Lets promises, microtasks and loopback sockets make progress, without waiting for wall time. */
export async function settle(rounds = SETTLE_ROUNDS): Promise<void> {
  for (let round = 0; round < rounds; round++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** A manual clock whose wall stands at `startAt` (Unix ms) and whose monotonic clock stands at 0. */
export function manualClock(startAt = Date.UTC(2026, 0, 2, 3, 4, 5)): ManualClock {
  let elapsedMs = 0;
  let wallOffset = startAt;
  let nextId = 1;
  const timers = new Map<number, Timer>();
  const waiters: { delayMs: number; count: number; resolve: () => void }[] = [];

  const firstDue = (until: number): Timer | undefined => {
    let first: Timer | undefined;
    for (const timer of timers.values()) {
      if (timer.dueAt > until) continue;
      if (!first || timer.dueAt < first.dueAt || (timer.dueAt === first.dueAt && timer.id < first.id)) first = timer;
    }
    return first;
  };
  const isArmed = (delayMs: number, count: number) =>
    [...timers.values()].filter((timer) => timer.delayMs === delayMs).length >= count;

  return {
    // Whole ms, as the system's wall has them, whatever a timer was set to.
    now: () => Math.floor(wallOffset + elapsedMs),
    monotonic: () => elapsedMs,
    after(ms, callback) {
      const id = nextId++;
      timers.set(id, { id, dueAt: elapsedMs + Math.max(0, ms), delayMs: ms, callback });
      for (const waiter of waiters.splice(0)) {
        if (isArmed(waiter.delayMs, waiter.count)) waiter.resolve();
        else waiters.push(waiter);
      }
      return () => timers.delete(id);
    },
    async advance(ms) {
      const until = elapsedMs + ms;
      await settle();
      for (let due = firstDue(until); due; due = firstDue(until)) {
        timers.delete(due.id);
        elapsedMs = Math.max(elapsedMs, due.dueAt);
        due.callback();
        await settle();
      }
      elapsedMs = until;
      await settle();
    },
    setWall(now) {
      wallOffset = now - elapsedMs;
    },
    armed(delayMs, count = 1) {
      if (isArmed(delayMs, count)) return Promise.resolve();
      return new Promise((resolve) => waiters.push({ delayMs, count, resolve }));
    },
    get pending() {
      return timers.size;
    },
  };
}
