import type { Sleeper, Wait } from "../../lib/alarms.ts";
import { type Clock, wakeAfter } from "../../lib/clock.ts";

/** A client that takes nothing for this long is given up, ms: its vendor waits behind it (reliability 6.4). */
const STALLED_MS = 60_000;
/**
 * A client that is late again and again is given up too where it takes fewer characters than this in {@link STALLED_MS}: one that comes back for a little at a
 * time would else hold its vendor for half an hour.
 */
const LEAST_TAKEN = 128 * 1024;
/** A client is late that asks for the next piece after more than this, ms: its connection was full. */
const LATE_MS = 1_000;

/** Why a stream is given up: its upstream is silent, its client takes nothing, or it has gone on for as long as any may. */
export type GivenUp = "silent" | "stalled" | "too-long";

/**
 * Gives a stream up when `touch` has not been called for `limitMs`. One timer per stream, set again only when it fires, so that a
 * chunk costs a clock reading and no timer. From `rest` to the next `touch` the client has what arrived, and nothing is asked of the upstream, whose silence
 * means nothing then: only a client that takes nothing for a minute, or next to nothing, ends the stream, as `stalled`. After `totalMs` it is over anyway.
 */
export class SilenceWatch implements Sleeper {
  #lastAt: number;
  #wait: Wait | undefined;
  #stopped = false;
  #resting = false;
  /** Since when the client has been late again and again, monotonic ms, and what it has taken meanwhile, characters. */
  #lateSince = Number.POSITIVE_INFINITY;
  #given = 0;
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
    const now = this.clock.monotonic();
    if (this.#resting && now - this.#lastAt >= LATE_MS && this.#lateSince > now) {
      this.#lateSince = this.#lastAt;
      this.#given = 0;
    }
    this.#resting = false;
    this.#lastAt = now;
  }

  /** What arrived, so many characters, is with the client: until the next `touch` nobody waits for the upstream. */
  rest(given: number): void {
    this.#resting = true;
    this.#given += given;
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
    // The upstream is waited for, and not the client: that one has caught up.
    if (!this.#resting) this.#lateSince = Number.POSITIVE_INFINITY;
    const lateMs = now - this.#lateSince;
    if (silentMs >= limitMs) this.stream.giveUp(this.#resting ? "stalled" : "silent");
    else if (lateMs >= STALLED_MS && this.#given < LEAST_TAKEN) this.stream.giveUp("stalled");
    else if (now >= this.#endsAt) this.stream.giveUp("too-long");
    else {
      const isJudged = lateMs >= STALLED_MS;
      if (isJudged) this.#lateSince = Number.POSITIVE_INFINITY;
      const lateLeftMs = isJudged ? STALLED_MS : STALLED_MS - lateMs;
      this.#arm(Math.min(this.limitMs, STALLED_MS, limitMs - silentMs, lateLeftMs));
    }
  }

  #arm(waitMs: number): void {
    const leftMs = Math.max(0, this.#endsAt - this.clock.monotonic());
    this.#wait = wakeAfter(this.clock, Math.min(waitMs, leftMs), this);
  }
}
