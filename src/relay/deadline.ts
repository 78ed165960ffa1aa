import type { Clock } from "../lib/clock.ts";

/**
 * Calls `onSilence` when `touch` has not been called for `limitMs`. One timer per stream, set again only when it fires, so that a
 * chunk costs a clock reading and no timer.
 */
export class SilenceWatch {
  #lastAt: number;
  #stop: () => void = () => {};
  #stopped = false;

  constructor(
    private readonly clock: Clock,
    private limitMs: number,
    private readonly onSilence: () => void,
  ) {
    this.#lastAt = clock.monotonic();
    this.#arm(limitMs);
  }

  /** Something arrived. */
  touch(): void {
    this.#lastAt = this.clock.monotonic();
  }

  /** Counts the silence from now on against another limit. */
  limit(limitMs: number): void {
    if (this.#stopped || limitMs === this.limitMs) return;
    this.limitMs = limitMs;
    this.touch();
    this.#stop();
    this.#arm(limitMs);
  }

  /** Ends the watch; `onSilence` is not called any more. */
  stop(): void {
    this.#stopped = true;
    this.#stop();
  }

  #arm(waitMs: number): void {
    this.#stop = this.clock.after(waitMs, () => {
      if (this.#stopped) return;
      const silentMs = this.clock.monotonic() - this.#lastAt;
      if (silentMs >= this.limitMs) this.onSilence();
      else this.#arm(this.limitMs - silentMs);
    });
  }
}
