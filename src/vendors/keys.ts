import type { Clock } from "../lib/clock.ts";
import type { Vendor } from "./vendor.ts";

/** A key that its vendor refused, or whose account there is empty, is left alone for so long, ms (reliability 6.2). */
export const REFUSED_KEY_MS = 10 * 60_000;
/** Rests that are remembered at the same time. The oldest makes room. */
const MAX_RESTS = 10_000;

const keyed = new WeakMap<Vendor, readonly Vendor[]>();

/**
 * A vendor once for each of its keys, in their order; the vendor itself where it has one or none. The same objects as long as the vendor is
 * the same.
 */
export function keysOf(vendor: Vendor): readonly Vendor[] {
  let each = keyed.get(vendor);
  if (!each) {
    const { apiKeys: keys = [], ...row } = vendor;
    each = keys.length < 2 ? [vendor] : keys.map((apiKey): Vendor => ({ ...row, apiKey }));
    keyed.set(vendor, each);
  }
  return each;
}

/** Keys, and keys for single models, that are left alone for a while, by name. */
export class Rests {
  readonly #until = new Map<string, number>();

  constructor(private readonly clock: Clock) {}

  /** Nothing rests: nothing needs to be asked. */
  get idle(): boolean {
    return this.#until.size === 0;
  }

  /** Leaves it alone for `ms`. A longer rest is never shortened. */
  rest(name: string, ms: number): void {
    const until = this.clock.monotonic() + ms;
    if (until <= this.until(name)) return;
    if (this.#until.size >= MAX_RESTS) {
      const [oldest] = this.#until.keys();
      if (oldest !== undefined) this.#until.delete(oldest);
    }
    this.#until.set(name, until);
  }

  /** When its rest ends, monotonic ms; 0 where it does not rest. */
  until(name: string): number {
    const until = this.#until.get(name);
    if (until === undefined) return 0;
    if (this.clock.monotonic() < until) return until;
    this.#until.delete(name);
    return 0;
  }

  /** It was used and did well. */
  wake(name: string): void {
    this.#until.delete(name);
  }

  /** What rests now, for the operator. */
  names(): string[] {
    return [...this.#until.keys()].filter((name) => this.until(name) > 0);
  }

  /** Everything may be used again. */
  clear(): void {
    this.#until.clear();
  }
}
