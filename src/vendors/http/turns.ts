/** What has something to do when its turn comes. */
export type Taker = {
  /** Its turn has come to work through the next part of what it has. */
  onTurn(): void;
  /** It may fetch more. */
  onMore(): void;
};

/**
 * After so many turns of others the next one belongs to whoever has waited longest: while others keep coming that one would wait for ever, and an answer that
 * is not read for long counts as silent. What one of them fetches is about as many parts, so that no more is fetched than is worked through meanwhile.
 */
const MAX_PASSED = 8;

/** While at least so many wait for their turn, what comes for further ones is packed: they hold 16 MB by then, and a process has thousands of answers. */
const CROWD = 32;

/**
 * Who brings much at a time does a part of it with each turn of the event loop, one after the other: a few answers of many megabytes would
 * otherwise keep everybody else waiting until all of it is worked through. More is fetched when nothing is left to do, or somebody has long waited
 * for it, for one at a time: the system hands over half a megabyte at once, which would lie about for every one of them.
 */
export class Turns {
  readonly #having: Taker[] = [];
  #wanting: Taker[] = [];
  /** Index in {@link #wanting}: those before it have had their call. */
  #first = 0;
  /** Turns since the last one of whoever had waited longest, counted while anybody waits. */
  #passed = 0;
  #scheduled = false;

  /** Has {@link Taker.onTurn} called once. The last one added comes first, until the others were passed over {@link MAX_PASSED} times. */
  add(taker: Taker): void {
    this.#having.push(taker);
    this.#schedule();
  }

  /** Whether so many wait for their turn that what comes for further ones is to be packed until then. */
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
    // Dropped also while somebody always waits: those who had their call are not to be held.
    if (this.#first * 2 >= this.#wanting.length) {
      this.#wanting = this.#wanting.slice(this.#first);
      this.#first = 0;
    }
    return next;
  }
}
