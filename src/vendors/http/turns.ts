/** What has something to do when its turn comes. */
export type Taker = {
  /** Takes the next part of what it has. */
  onTurn(): void;
  /** Fetches more. */
  onMore(): void;
};

/**
 * After so many turns of others it is for those who have waited longest: where others keep coming they would wait for ever, and whoever is not read for
 * long counts as silent. What is fetched for one of them is as many parts, so that no more is fetched meanwhile than is done.
 */
const MAX_PASSED = 8;

/** From so many on that wait for their turn what comes for more of them is packed: 16 MB lie here by then, and a process has thousands of answers. */
const CROWD = 32;

/**
 * Who brings much at a time does a part of it with each turn of the event loop, one after the other: a few answers of many megabytes would
 * otherwise keep everybody else waiting until all of it is worked through. More is fetched when nothing is left to do, or somebody has long waited
 * for it, for one at a time: the system hands over half a megabyte at once, which would lie about for every one of them.
 */
export class Turns {
  readonly #having: Taker[] = [];
  #wanting: Taker[] = [];
  /** Of those who want more, what stands before this has got it. */
  #first = 0;
  /** Turns since those who have waited longest had one, while anybody waited. */
  #passed = 0;
  #scheduled = false;

  /** Has {@link Taker.onTurn} called once; who has just been called comes first, until others were passed over {@link MAX_PASSED} times. */
  add(taker: Taker): void {
    this.#having.push(taker);
    this.#schedule();
  }

  /** So many wait for their turn that what comes for more of them is to take little memory until then. */
  get isCrowded(): boolean {
    return this.#having.length >= CROWD;
  }

  /** Has {@link Taker.onMore} called once, when those who wanted more before have got it. */
  addWanting(taker: Taker): void {
    this.#wanting.push(taker);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    this.#scheduled = false;
    const isForOldest = this.#passed >= MAX_PASSED;
    const having = isForOldest ? this.#having.shift() : this.#having.pop();
    const wanting = having && !isForOldest ? undefined : this.#nextWanting();
    const isAwaited = this.#having.length > 0 || this.#wanting.length > 0;
    this.#passed = isAwaited && !isForOldest ? this.#passed + 1 : 0;
    if (isAwaited) this.#schedule();
    having?.onTurn();
    wanting?.onMore();
  };

  #nextWanting(): Taker | undefined {
    const next = this.#wanting[this.#first++];
    // Also while somebody always waits: those who got theirs are not to be held.
    if (this.#first * 2 >= this.#wanting.length) {
      this.#wanting = this.#wanting.slice(this.#first);
      this.#first = 0;
    }
    return next;
  }
}
