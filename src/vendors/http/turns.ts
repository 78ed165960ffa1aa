/** What has something to do when its turn comes. */
export type Taker = {
  /** Takes the next part of what it has. */
  onTurn(): void;
  /** Fetches more. */
  onMore(): void;
};

/**
 * Who brings much at a time does a part of it with each turn of the event loop, one after the other: a few answers of many megabytes would
 * otherwise keep everybody else waiting until all of it is worked through. More is fetched when nothing is left to do, for one at a time: the system
 * hands over half a megabyte at once, which would lie about for every one of them.
 */
export class Turns {
  readonly #having: Taker[] = [];
  #wanting: Taker[] = [];
  /** Of those who want more, what stands before this has got it. */
  #first = 0;
  #scheduled = false;

  /** Has {@link Taker.onTurn} called once; who has just been called comes first. */
  add(taker: Taker): void {
    this.#having.push(taker);
    this.#schedule();
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
    const having = this.#having.pop();
    const wanting = having ? undefined : this.#nextWanting();
    if (this.#having.length > 0 || this.#wanting.length > 0) this.#schedule();
    having?.onTurn();
    wanting?.onMore();
  };

  #nextWanting(): Taker | undefined {
    const next = this.#wanting[this.#first++];
    if (this.#first >= this.#wanting.length) {
      this.#wanting = [];
      this.#first = 0;
    }
    return next;
  }
}
