import type { Clock } from "../../lib/clock.ts";

/** Failures in a row after which an engine is left alone. */
export const FAILURES = 3;
/** For how long at first, and at the most, milliseconds; doubled each time it fails again. */
export const FIRST_PAUSE_MS = 30_000;
export const LONGEST_PAUSE_MS = 10 * 60_000;
/** While one search tries an engine again, the others leave it alone for so long, milliseconds. */
const TRIAL_MS = 15_000;

/** `rests`: after the time is over it may be asked by anybody; no trial is needed. `trial`: one search is at it, and `until` is how long the others wait for that. */
type State = { failures: number; pauses: number; until: number; rests?: boolean; trial?: boolean };

/** Leaves engines alone that fail, and tries them again after a while, with one search at a time. */
export class Breaker {
  readonly #states = new Map<string, State>();

  constructor(private readonly clock: Clock) {}

  /** Whether an engine may be asked now. A yes after a pause is a trial: the next one waits for what comes of it. */
  admits(id: string): boolean {
    const state = this.#states.get(id);
    if (!state || state.until === 0) return true;
    const now = this.clock.monotonic();
    if (now < state.until) return false;
    if (state.rests) {
      this.#states.delete(id);
      return true;
    }
    state.until = now + TRIAL_MS;
    state.trial = true;
    return true;
  }

  /** How long until an engine may be asked again, milliseconds; 0: now. */
  waitOf(id: string): number {
    return Math.max(0, (this.#states.get(id)?.until ?? 0) - this.clock.monotonic());
  }

  /** Whether an engine asked for a rest, and was not asked since: that may be over while others were. */
  isResting(id: string): boolean {
    return this.#states.get(id)?.rests === true;
  }

  /** How much is left of a rest that an engine asked for, milliseconds; 0: none, or it is over. */
  restOf(id: string): number {
    return this.isResting(id) ? this.waitOf(id) : 0;
  }

  succeeded(id: string): void {
    this.#states.delete(id);
  }

  /** It failed. `pauseMs`: it asked to be left alone for so long, and is, at once. */
  failed(id: string, pauseMs?: number): void {
    const state = this.#states.get(id) ?? { failures: 0, pauses: 0, until: 0 };
    this.#states.set(id, state);
    state.failures++;
    if (pauseMs === undefined && state.failures < FAILURES) return;
    const own = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(10, state.pauses));
    state.pauses++;
    // Of a short rest that was under way: this is none, and nobody waits for it.
    state.rests = false;
    state.trial = false;
    state.until = this.clock.monotonic() + (pauseMs ?? own);
  }

  /** It takes only so many calls at a time, and is to be had again after `ms`: nothing is wrong with it. */
  rests(id: string, ms: number): void {
    this.#states.set(id, { failures: 0, pauses: 0, until: this.clock.monotonic() + ms, rests: true });
  }

  /** What was begun came to nothing that says anything about the engine: a trial is free again. A pause that another search brought about meanwhile is none. */
  undecided(id: string): void {
    const state = this.#states.get(id);
    if (!state?.trial) return;
    state.trial = false;
    state.until = this.clock.monotonic();
  }
}
