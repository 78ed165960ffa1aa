import type { Rate } from "./gcra.ts";

/** Buckets at the same time, of all classes together (reliability 4). */
export const MAX_BUCKETS = 100_000;
/** The part of the room that is kept for whole networks, when single addresses would take all of it. */
const KEPT_FOR_COARSER = 0.1;
/** Old buckets looked at for each new one: more than one, so that room is made faster than it is taken. */
const SWEPT_EACH = 4;
/** Old buckets of each class looked at when there is no room: a flood must not be made dearer by it. */
const SWEPT_WHEN_FULL = 16;
/** The bucket that all share for whom there is no room. */
const SHARED = "";

/** Room for buckets, which several classes share. */
export class Room {
  #left: number;
  readonly #kept: number;
  readonly #classes: Buckets[] = [];

  /** `most`: buckets at the same time. */
  constructor(most: number = MAX_BUCKETS) {
    this.#left = most;
    this.#kept = Math.floor(most * KEPT_FOR_COARSER);
  }

  /** Buckets that may still be made. */
  get left(): number {
    return this.#left;
  }

  /** A class that takes its room from here. */
  join(buckets: Buckets): void {
    this.#classes.push(buckets);
  }

  /** Whether a bucket may be made; `divisible` is one that can be counted with others of its network. Looks for room first. */
  has(divisible: boolean, now: number): boolean {
    const needed = divisible ? this.#kept : 0;
    if (this.#left <= needed) for (const buckets of this.#classes) buckets.sweep(SWEPT_WHEN_FULL, now);
    return this.#left > needed;
  }

  take(): void {
    this.#left--;
  }

  giveBack(): void {
    this.#left++;
  }
}

export type BucketOptions = {
  room: Room;
  /**
   * Set when the last server ended without a word: from this moment (µs) whoever is not known yet starts with half a burst, so that
   * crashing over and over gives no fresh bursts (reliability 4).
   */
  halfFrom?: number | undefined;
};

/**
 * The buckets of one class by name: one number each. A bucket whose time has passed equals one that was never there, so it is taken out
 * whenever room is wanted, and nothing is lost by it. When all room is taken by buckets in use, newcomers share one.
 */
export class Buckets {
  readonly #times = new Map<string, number>();
  readonly #room: Room;
  readonly #halfFrom: number | undefined;
  #place: IterableIterator<[string, number]> | undefined;

  constructor({ room, halfFrom }: BucketOptions) {
    this.#room = room;
    this.#halfFrom = halfFrom;
    room.join(this);
  }

  /** How many there are. */
  get size(): number {
    return this.#times.size;
  }

  /** The bucket that counts for `name` now: its own; without room that of `coarser` (its network, say); without any room the shared one. */
  slot(name: string, now: number, coarser?: string): string {
    if (this.#times.has(name) || this.#room.has(coarser !== undefined, now)) return name;
    if (coarser !== undefined && (this.#times.has(coarser) || this.#room.has(false, now))) return coarser;
    return SHARED;
  }

  /** A slot's number, µs: see `waitFor`. */
  read(slot: string, rate: Rate): number {
    const known = this.#times.get(slot);
    if (known !== undefined) return known;
    return this.#halfFrom === undefined ? 0 : this.#halfFrom + Math.ceil(rate.burst / 2) * rate.intervalUs;
  }

  /** Sets a slot's number. A new slot takes room, and has a few old ones looked at. */
  write(slot: string, tat: number, now: number): void {
    const before = this.#times.size;
    this.#times.set(slot, tat);
    if (this.#times.size === before) return;
    if (slot !== SHARED) this.#room.take();
    this.sweep(SWEPT_EACH, now);
  }

  /** Looks at the next `most` buckets, and takes out those whose time has passed. */
  sweep(most: number, now: number): void {
    for (let looked = 0; looked < most; looked++) {
      this.#place ??= this.#times.entries();
      const { done, value } = this.#place.next();
      if (done) {
        this.#place = undefined;
        return;
      }
      const [slot, tat] = value;
      if (tat > now) continue;
      this.#times.delete(slot);
      if (slot !== SHARED) this.#room.giveBack();
    }
  }
}
