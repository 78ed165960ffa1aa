/** Repeats may be at most this fraction of a vendor's recent requests (reliability 6.2). */
const SHARE = 0.2;
/** The same for doubtful repeats: those of a request of which nobody can know whether it ran. */
const DOUBTFUL_SHARE = 0.02;
/** So many repeats at the same time are always allowed: of few requests a fraction would be none. */
const FLOOR = 3;
/** Recent is what came in this window of time or the one before it, ms each. */
const WINDOW_MS = 5_000;

/** What was counted within one window of time. */
type Window = {
  /** Calls that ended, and how many of them were repeats. */
  calls: number;
  repeatsEnded: number;
  /** Repeats that were begun, and how many of them are doubtful. */
  repeatsBegun: number;
  doubtfulBegun: number;
};
/** One repeat: whether nobody can know if the request ran already, and whether another vendor does it. */
export type Repeat = { doubtful: boolean; elsewhere: boolean };
/** A repeat at the same vendor, of a request that did not run or was answered. */
export const PLAIN: Repeat = { doubtful: false, elsewhere: false };

const empty = (): Window => ({ calls: 0, repeatsEnded: 0, repeatsBegun: 0, doubtfulBegun: 0 });

/**
 * How many of a vendor's requests are repeated, there or elsewhere: at most a fifth of those of the last ten seconds, whether they go on or are over, and
 * three at the same time in any case. An outage is then not answered with a storm: a vendor that fails at once would else be asked again by everybody,
 * since hardly any of its repeats are under way at the same time.
 */
export class RetryBudget {
  #windowAt = 0;
  #recent = empty();
  #before = empty();
  #active = 0;
  #doubtful = 0;

  /** A call ended. `now`: ms of any clock, always the same one. */
  note(now: number): void {
    this.#roll(now);
    this.#recent.calls++;
  }

  /** Takes a place for one repeat; give it back with {@link give}. False: the budget is used up. */
  take(now: number, { doubtful }: Repeat): boolean {
    this.#roll(now);
    const lately = (what: keyof Window) => this.#recent[what] + this.#before[what];
    const requests = lately("calls") - lately("repeatsEnded");
    const allows = (active: number, begun: number, share: number) =>
      active < FLOOR || Math.max(active, begun) < requests * share;
    if (!allows(this.#active, lately("repeatsBegun"), SHARE)) return false;
    if (doubtful && !allows(this.#doubtful, lately("doubtfulBegun"), DOUBTFUL_SHARE)) return false;
    this.#active++;
    this.#recent.repeatsBegun++;
    if (!doubtful) return true;
    this.#doubtful++;
    this.#recent.doubtfulBegun++;
    return true;
  }

  /** Gives back the place of a repeat that has ended, in whatever way. One that another vendor did is not among the calls that {@link note} counts here. */
  give({ doubtful, elsewhere }: Repeat): void {
    this.#active--;
    if (doubtful) this.#doubtful--;
    if (!elsewhere) this.#recent.repeatsEnded++;
  }

  #roll(now: number): void {
    const passed = now - this.#windowAt;
    // A clock that was set back begins anew, as one that stood still for long does.
    if (passed >= 0 && passed < WINDOW_MS) return;
    this.#before = passed >= 0 && passed < 2 * WINDOW_MS ? this.#recent : empty();
    this.#recent = empty();
    this.#windowAt = now;
  }
}
