import type { Sleeper, Wait } from "./alarms.ts";
import type { Clock } from "./clock.ts";

/** A wait of a {@link Timeouts} list, which can be cancelled. */
export class Timeout implements Wait {
  previous: Timeout | undefined;
  next: Timeout | undefined;

  constructor(
    private readonly list: Timeouts,
    /** Monotonic ms. */
    readonly endsAt: number,
    readonly sleeper: Sleeper,
  ) {}

  /** Cancels the wait. Without effect once it is over. */
  stop(): void {
    this.list.remove(this);
  }
}

const lists = new WeakMap<Clock, Map<number, Timeouts>>();

/** The list that all waits of `ms` on one clock share. It needs one timer only, since they end in the order in which they began. */
export function timeoutsOf(clock: Clock, ms: number): Timeouts {
  let ofClock = lists.get(clock);
  if (!ofClock) {
    ofClock = new Map();
    lists.set(clock, ofClock);
  }
  let list = ofClock.get(ms);
  if (!list) {
    list = new Timeouts(clock, ms);
    ofClock.set(ms, list);
  }
  return list;
}

/**
 * Waits of one length, nearly all of which are cancelled: every request has some, and a timer for each would cost more than what it guards
 * (performance.md).
 */
class Timeouts {
  #first: Timeout | undefined;
  #last: Timeout | undefined;
  #armed = false;

  constructor(
    private readonly clock: Clock,
    private readonly ms: number,
  ) {}

  /** Calls back once after the list's length of time. */
  start(callback: () => void): Timeout {
    return this.wake({ wake: callback });
  }

  /** {@link start} with an object in the place of a function: for waits that last as long as a connection is open. */
  wake(sleeper: Sleeper): Timeout {
    const timeout = new Timeout(this, this.clock.monotonic() + this.ms, sleeper);
    const last = this.#last;
    if (last) {
      last.next = timeout;
      timeout.previous = last;
    } else this.#first = timeout;
    this.#last = timeout;
    if (!this.#armed) this.#arm(this.ms);
    return timeout;
  }

  remove(timeout: Timeout): void {
    const { previous, next } = timeout;
    if (!previous && this.#first !== timeout) return;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    timeout.previous = undefined;
    timeout.next = undefined;
  }

  /** Sets the timer. It runs on when the list becomes empty, since the next wait mostly begins soon. */
  #arm(ms: number): void {
    this.#armed = true;
    this.clock.after(ms, () => {
      this.#armed = false;
      this.#end();
    });
  }

  #end(): void {
    const now = this.clock.monotonic();
    try {
      for (let first = this.#first; first && first.endsAt <= now; first = this.#first) {
        this.remove(first);
        first.sleeper.wake();
      }
    } finally {
      if (this.#first && !this.#armed) this.#arm(Math.max(1, this.#first.endsAt - now));
    }
  }
}
