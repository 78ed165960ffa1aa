import type { Clock } from "../lib/clock.ts";

/** What is kept at most; `size` in the unit of the shelf's owner. */
type Bounds = { count: number; size?: number };

/** A cache bounded in number, size and age: the oldest entry goes first. */
export class Shelf<T> {
  readonly #kept = new Map<string, { value: T; until: number }>();
  #size = 0;

  constructor(
    private readonly clock: Clock,
    private readonly bounds: Bounds,
    private readonly sizeOf: (value: T) => number = () => 0,
  ) {}

  get(key: string): T | undefined {
    const known = this.#kept.get(key);
    if (!known) return undefined;
    if (known.until > this.clock.monotonic()) return known.value;
    this.#drop(key);
    return undefined;
  }

  /** Keeps a value for `ms`, in the place of what was there. */
  put(key: string, value: T, ms: number): void {
    const { count, size = Number.POSITIVE_INFINITY } = this.bounds;
    this.#drop(key);
    this.#kept.set(key, { value, until: this.clock.monotonic() + ms });
    this.#size += this.sizeOf(value);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= count && this.#size <= size) break;
      this.#drop(oldest);
    }
  }

  /** It goes after all others that are there by now. How long it is kept stays the same. */
  moveBack(key: string): void {
    const known = this.#kept.get(key);
    if (!known) return;
    this.#kept.delete(key);
    this.#kept.set(key, known);
  }

  #drop(key: string): void {
    const known = this.#kept.get(key);
    if (!known) return;
    this.#size -= this.sizeOf(known.value);
    this.#kept.delete(key);
  }
}
