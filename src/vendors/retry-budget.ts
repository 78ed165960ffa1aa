/** Part of a vendor's lately active requests that may be repeats (reliability 6.2). */
const SHARE = 0.2;
/** The same for repeats of what may have run already. */
const DOUBTFUL_SHARE = 0.02;
/** So many at the same time are always allowed: a quiet gateway has no share to speak of. */
const FLOOR = 3;
/** What counts as lately: two windows of this length, ms. */
const WINDOW_MS = 5_000;

/**
 * How many repeats of requests a vendor is burdened with at the same time: at most a fifth of the requests of the last ten seconds, and
 * three in any case. An outage is then not answered with a storm.
 */
export class RetryBudget {
  #windowAt = 0;
  #recent = 0;
  #before = 0;
  #active = 0;
  #doubtful = 0;

  /** A call ended. `now`: ms of any clock, always the same one. */
  note(now: number): void {
    this.#roll(now);
    this.#recent++;
  }

  /** Takes a place for one repeat; give it back with {@link give}. False: the budget is used up. */
  take(now: number, doubtful: boolean): boolean {
    this.#roll(now);
    const active = this.#recent + this.#before;
    if (this.#active >= Math.max(FLOOR, active * SHARE)) return false;
    if (doubtful && this.#doubtful >= Math.max(FLOOR, active * DOUBTFUL_SHARE)) return false;
    this.#active++;
    if (doubtful) this.#doubtful++;
    return true;
  }

  /** A repeat has ended, however it did. */
  give(doubtful: boolean): void {
    this.#active--;
    if (doubtful) this.#doubtful--;
  }

  #roll(now: number): void {
    const passed = now - this.#windowAt;
    // A clock that was set back begins anew, as one that stood still for long does.
    if (passed >= 0 && passed < WINDOW_MS) return;
    this.#before = passed >= 0 && passed < 2 * WINDOW_MS ? this.#recent : 0;
    this.#recent = 0;
    this.#windowAt = now;
  }
}
