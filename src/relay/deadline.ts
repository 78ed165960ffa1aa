import type { Clock } from "../lib/clock.ts";

/** A client that takes nothing for this long is given up, ms: its vendor waits behind it. */
const STALLED_MS = 300_000;

/**
 * Calls `onSilence` when `touch` has not been called for `limitMs`. One timer per stream, set again only when it fires, so that a
 * chunk costs a clock reading and no timer. While it rests, nothing is asked of the upstream, so its silence means nothing; only a client
 * that does not come back for five minutes is told of, with `stalled`.
 */
export class SilenceWatch {
  #lastAt: number;
  #stop: () => void = () => {};
  #stopped = false;
  #resting = false;

  constructor(
    private readonly clock: Clock,
    private limitMs: number,
    private readonly onSilence: (stalled: boolean) => void,
  ) {
    this.#lastAt = clock.monotonic();
    this.#arm(limitMs);
  }

  /** Something arrived, or is waited for from now on. */
  touch(): void {
    this.#resting = false;
    this.#lastAt = this.clock.monotonic();
  }

  /** What arrived is with the client: until the next `touch` nobody waits for the upstream. */
  rest(): void {
    this.#resting = true;
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
      const limitMs = this.#resting ? STALLED_MS : this.limitMs;
      if (silentMs >= limitMs) this.onSilence(this.#resting);
      else this.#arm(Math.min(this.limitMs, limitMs - silentMs));
    });
  }
}
