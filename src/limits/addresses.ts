import { type Clock, systemClock } from "../lib/clock.ts";
import { Buckets, Room } from "./buckets.ts";
import { ADDRESS_RATES, type AddressClass } from "./classes.ts";
import { spend, US_PER_MS, US_PER_SECOND, waitFor } from "./gcra.ts";
import { describeBucket, RateLimited } from "./limiter.ts";

const TEXTS: Readonly<Record<AddressClass, string>> = {
  models: "Too many requests for the list of models from this address. It may be kept for a few minutes.",
  images: "Too many requests for images from this address.",
  open: "Too many requests from this address.",
  "refused-key": "Too many requests from this address came with a key that is none. Check the key, and wait.",
  "refused-admin": "Too many requests from this address came with a key that is no admin key. Check the key, and wait.",
};

/**
 * A client's address as it is counted: the address itself, and the network that counts for it when there are too many. `isLocal`: it is this machine
 * itself, with nobody in between.
 */
export type Address = { name: string; network: string; isLocal?: true };

export type AddressOptions = { clock?: Clock; room?: Room; startHalf?: boolean };

/** What each address may do that has shown no key, or a wrong one (reliability 4). */
export class AddressLimiter {
  readonly #clock: Clock;
  readonly #buckets: Readonly<Record<AddressClass, Buckets>>;

  constructor({ clock = systemClock, room = new Room(), startHalf = false }: AddressOptions = {}) {
    this.#clock = clock;
    const halfFrom = startHalf ? this.#now() : undefined;
    const make = () => new Buckets({ room, halfFrom });
    this.#buckets = { models: make(), images: make(), open: make(), "refused-key": make(), "refused-admin": make() };
  }

  /** Takes one unit of an address. Throws RateLimited, and takes nothing, when there is none left. */
  take({ name, network }: Address, of: AddressClass): void {
    const now = this.#now();
    const rate = ADDRESS_RATES[of];
    const buckets = this.#buckets[of];
    const place = buckets.claim(name, rate, now, network);
    const tat = this.#pass(buckets.tat(place, rate), of, now);
    buckets.setTat(place, spend(tat, now, rate));
  }

  /** Gives a bucket's number back when it lets one pass. Throws RateLimited when it does not. */
  #pass(tat: number, of: AddressClass, now: number): number {
    const rate = ADDRESS_RATES[of];
    const wait = waitFor(tat, now, rate);
    if (wait === 0) return tat;
    const state = describeBucket(tat, now, rate, this.#clock.now());
    throw new RateLimited("rate_limit_exceeded", TEXTS[of], wait / US_PER_SECOND, state);
  }

  #now(): number {
    return Math.floor(this.#clock.monotonic() * US_PER_MS);
  }
}
