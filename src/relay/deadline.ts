import type { Sleeper, Wait } from "../lib/alarms.ts";
import { type Clock, wakeAfter } from "../lib/clock.ts";

/** A client that takes nothing for this long is given up, ms: its vendor waits behind it (reliability 6.4). */
const STALLED_MS = 60_000;

/** Why a stream is given up: its upstream is silent, its client takes nothing, or it has gone on for as long as any may. */
export type GivenUp = "silent" | "stalled" | "too-long";

/**
 * Gives a stream up when `touch` has not been called for `limitMs`. One timer per stream, set again only when it fires, so that a
 * chunk costs a clock reading and no timer. While it rests, nothing is asked of the upstream, so its silence means nothing; only a client
 * that does not come back for a minute is told of, as `stalled`. After `totalMs` it is over whatever happens.
 */
export class SilenceWatch implements Sleeper {
  #lastAt: number;
  #wait: Wait | undefined;
  #stopped = false;
  #resting = false;
  readonly #endsAt: number;

  constructor(
    private readonly clock: Clock,
    private limitMs: number,
    totalMs: number,
    private readonly stream: { giveUp(reason: GivenUp): void },
  ) {
    this.#lastAt = clock.monotonic();
    this.#endsAt = this.#lastAt + totalMs;
    this.#arm(Math.min(limitMs, STALLED_MS));
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
    this.#wait?.stop();
    this.#arm(limitMs);
  }

  /** Ends the watch: nothing is given up any more. */
  stop(): void {
    this.#stopped = true;
    this.#wait?.stop();
  }

  wake(): void {
    if (this.#stopped) return;
    const now = this.clock.monotonic();
    const silentMs = now - this.#lastAt;
    const limitMs = this.#resting ? STALLED_MS : this.limitMs;
    if (silentMs >= limitMs) this.stream.giveUp(this.#resting ? "stalled" : "silent");
    else if (now >= this.#endsAt) this.stream.giveUp("too-long");
    else this.#arm(Math.min(this.limitMs, STALLED_MS, limitMs - silentMs));
  }

  #arm(waitMs: number): void {
    const leftMs = Math.max(0, this.#endsAt - this.clock.monotonic());
    this.#wait = wakeAfter(this.clock, Math.min(waitMs, leftMs), this);
  }
}
