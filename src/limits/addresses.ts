import { type Clock, systemClock } from "../lib/clock.ts";
import { Buckets, Room } from "./buckets.ts";
import { ADDRESS_RATES, type AddressClass } from "./classes.ts";
import { spend, waitFor } from "./gcra.ts";
import { describeBucket, RateLimited } from "./limiter.ts";

/** Old buckets looked at whenever somebody asks whether there are any. */
const SWEPT_EACH = 2;
const US_PER_MS = 1_000;
const US_PER_SECOND = 1_000_000;

const TEXTS: Readonly<Record<AddressClass, string>> = {
  models: "Too many requests for the list of models from this address. It may be kept for a few minutes.",
  images: "Too many requests for images from this address.",
  open: "Too many requests from this address.",
  "refused-key": "Too many requests from this address came with a key that is none. Check the key, and wait.",
  "refused-admin": "Too many requests from this address came with a key that is no admin key. Check the key, and wait.",
};

/** A client's address as it is counted: the address itself, and the network that counts for it when there are too many. */
export type Address = { name: string; network: string };

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

  /** As {@link take}, but looks only. */
  check({ name, network }: Address, of: AddressClass): void {
    const buckets = this.#buckets[of];
    this.#pass(buckets.tat(buckets.find(name, network), ADDRESS_RATES[of]), of, this.#now());
  }

  /** Takes one unit without asking: something happened that counts. Nothing is taken beyond the burst, so that a flood is forgiven in time. */
  note(address: Address, of: AddressClass): void {
    const now = this.#now();
    const rate = ADDRESS_RATES[of];
    const buckets = this.#buckets[of];
    const place = buckets.claim(address.name, rate, now, address.network);
    const tat = buckets.tat(place, rate);
    if (waitFor(tat, now, rate) === 0) buckets.setTat(place, spend(tat, now, rate));
  }

  /** Whether no address has anything against it in a class: then nobody needs to ask for an address at all. */
  isIdle(of: AddressClass): boolean {
    const buckets = this.#buckets[of];
    if (buckets.size > 0) buckets.sweep(SWEPT_EACH, this.#now());
    return buckets.size === 0;
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
