import type { Clock } from "../../lib/clock.ts";

/** Failures in a row after which an engine is not called for a while. */
export const FAILURES = 3;
/** How long that is at first, and at the most, milliseconds; it doubles each time the engine fails again. */
export const FIRST_PAUSE_MS = 30_000;
export const LONGEST_PAUSE_MS = 10 * 60_000;
/** While one search tries an engine again, the others do not call it for this long, milliseconds. */
const TRIAL_MS = 15_000;

/** `rests`: the engine asked for the pause, and every search may call it when that is over. `trial`: one search is trying it; the others wait until `until`. */
type State = { failures: number; pauses: number; until: number; rests?: boolean; trial?: boolean };

/** A circuit breaker for each engine: one that fails is not called for a while, then tried again by one search at a time. */
export class Breaker {
  readonly #states = new Map<string, State>();

  constructor(private readonly clock: Clock) {}

  /** Whether an engine may be called now. True after a pause begins a trial: other searches wait for its outcome. */
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

  /** How long until an engine may be called again, milliseconds; 0: now. */
  waitOf(id: string): number {
    return Math.max(0, (this.#states.get(id)?.until ?? 0) - this.clock.monotonic());
  }

  /** Whether an engine asked for a rest and was not called since. The rest may be over: others may have been called meanwhile. */
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

  /** An engine failed. `pauseMs`: it is not to be called for this long, milliseconds, from its first failure on; absent: after {@link FAILURES} in a row. */
  failed(id: string, pauseMs?: number): void {
    const state = this.#states.get(id) ?? { failures: 0, pauses: 0, until: 0 };
    this.#states.set(id, state);
    state.failures++;
    if (pauseMs === undefined && state.failures < FAILURES) return;
    const own = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(10, state.pauses));
    state.pauses++;
    // It may have been in a short rest, which searches wait for: they do not wait for this pause.
    state.rests = false;
    state.trial = false;
    state.until = this.clock.monotonic() + (pauseMs ?? own);
  }

  /** An engine takes only so many calls in a time, and may be called again after `ms`: that is no failure. */
  rests(id: string, ms: number): void {
    this.#states.set(id, { failures: 0, pauses: 0, until: this.clock.monotonic() + ms, rests: true });
  }

  /** A call ended without showing whether the engine works: its trial is over, and the next search may begin one. A pause that another search caused stays. */
  undecided(id: string): void {
    const state = this.#states.get(id);
    if (!state?.trial) return;
    state.trial = false;
    state.until = this.clock.monotonic();
  }
}
