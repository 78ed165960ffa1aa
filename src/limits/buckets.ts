import type { Rate } from "./gcra.ts";

/** Buckets at the same time, of all classes together (reliability 4). */
export const MAX_BUCKETS = 100_000;
/** The part of the room that is kept for whole networks, when single addresses would take all of it. */
const KEPT_FOR_COARSER = 0.1;
/** Old buckets looked at for each new one: more than one, so that room is made faster than it is taken. */
const SWEPT_EACH = 4;
/** Old buckets of each class that are looked at when there is no room: few, since in a flood this is done for every request. */
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

/** Places that a class begins with; they double when they are used up. */
const FIRST_PLACES = 256;
/** The place of a bucket that is not there: as good as new. */
export const NOWHERE = -1;

/**
 * The buckets of one class by name: how far each is ahead of its rate (µs, see `waitFor`), and how much it has under way. The figures stand
 * side by side in one array, at the bucket's place: an object for each bucket takes three times the memory. A bucket whose
 * time has passed and that has nothing under way equals one that was never there, so it is taken out whenever room is wanted, and
 * nothing is lost by it. When all room is taken by buckets in use, newcomers share one.
 */
export class Buckets {
  readonly #places = new Map<string, number>();
  readonly #free: number[] = [];
  /** Two for each place: the number, then how much is under way. */
  #figures = new Float64Array(2 * FIRST_PLACES);
  #used = 0;
  readonly #room: Room;
  readonly #halfFrom: number | undefined;
  #sweeping: IterableIterator<[string, number]> | undefined;

  constructor({ room, halfFrom }: BucketOptions) {
    this.#room = room;
    this.#halfFrom = halfFrom;
    room.join(this);
  }

  /** How many there are. */
  get size(): number {
    return this.#places.size;
  }

  /**
   * The place of the bucket that counts for `name` now: its own; without room that of `coarser` (its network, say); without any room the
   * shared one. One that is not there yet is made, and has a few old ones looked at.
   */
  claim(name: string, rate: Rate, now: number, coarser?: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    const slot = this.#slot(name, now, coarser);
    const other = slot === name ? undefined : this.#places.get(slot);
    return other ?? this.#make(slot, rate, now);
  }

  /** As {@link claim}, but makes nothing: {@link NOWHERE} for a bucket that is not there. */
  find(name: string): number {
    const places = this.#places;
    return places.get(name) ?? (this.#room.left > 0 ? undefined : places.get(SHARED)) ?? NOWHERE;
  }

  /** The number of the bucket at a place, µs. */
  tat(place: number, rate: Rate): number {
    return place === NOWHERE ? this.#start(rate) : (this.#figures[2 * place] as number);
  }

  setTat(place: number, tat: number): void {
    this.#figures[2 * place] = tat;
  }

  /** How much the bucket at a place has under way. */
  running(place: number): number {
    return this.#figures[2 * place + 1] as number;
  }

  /** One more under way. It is left by {@link leave}, once. */
  enter(place: number): void {
    (this.#figures[2 * place + 1] as number)++;
  }

  leave(place: number): void {
    (this.#figures[2 * place + 1] as number)--;
  }

  #start({ burst, intervalUs }: Rate): number {
    return this.#halfFrom === undefined ? 0 : this.#halfFrom + Math.ceil(burst / 2) * intervalUs;
  }

  #slot(name: string, now: number, coarser: string | undefined): string {
    if (this.#room.has(coarser !== undefined, now)) return name;
    if (coarser !== undefined && (this.#places.has(coarser) || this.#room.has(false, now))) return coarser;
    return SHARED;
  }

  #make(slot: string, rate: Rate, now: number): number {
    // Before it is there itself: a new bucket looks like an old one until it is used.
    this.sweep(SWEPT_EACH, now);
    const place = this.#free.pop() ?? this.#used++;
    if (2 * place === this.#figures.length) this.#grow();
    this.#figures[2 * place] = this.#start(rate);
    this.#figures[2 * place + 1] = 0;
    this.#places.set(slot, place);
    if (slot !== SHARED) this.#room.take();
    return place;
  }

  #grow(): void {
    const before = this.#figures;
    this.#figures = new Float64Array(before.length * 2);
    this.#figures.set(before);
  }

  /** Looks at the next `most` buckets, and takes out those whose time has passed. */
  sweep(most: number, now: number): void {
    for (let looked = 0; looked < most; looked++) {
      this.#sweeping ??= this.#places.entries();
      const { done, value } = this.#sweeping.next();
      if (done) {
        this.#sweeping = undefined;
        return;
      }
      const [slot, place] = value;
      if ((this.#figures[2 * place] as number) > now || this.running(place) > 0) continue;
      this.#places.delete(slot);
      this.#free.push(place);
      if (slot !== SHARED) this.#room.giveBack();
    }
  }
}
