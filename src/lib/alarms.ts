/** Alarms that were cancelled are removed from the heap once there are so many of them, and they are more than half of all. */
const SWEEP_FROM = 1_024;
/** The longest wait that a timer of the runtime can have, ms. */
const LONGEST_MS = 0x7fff_ffff;

/** A timer that runs this much too late, ms, shows that the process stood still: its container was paused, or its machine slept. */
const STOOD_STILL_MS = 2_000;
/** How long, ms, what arrived meanwhile gets to be read from the sockets, before anybody is told that it waited in vain. */
const GRACE_MS = 500;

/** Whoever is told when a wait is over. */
export type Sleeper = { wake(): void };
/** A wait that can be cancelled. */
export type Wait = { stop(): void };

class Alarm implements Wait {
  constructor(
    private readonly alarms: Alarms,
    readonly at: number,
    readonly order: number,
    /** Undefined once it has rung or was cancelled. */
    public sleeper: Sleeper | undefined,
  ) {}

  stop(): void {
    if (!this.sleeper) return;
    this.sleeper = undefined;
    this.alarms.noteDead();
  }
}

const isBefore = (one: Alarm, other: Alarm): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

/**
 * Any number of waits on a single timer of the runtime. Each timer of the runtime takes 200 bytes and two native calls, while a stream has three waits, for
 * minutes, nearly all of which are cancelled. A binary heap, earliest first; waits that end at the same moment end in the order in which they were set.
 * After the process stood still nobody is woken before what arrived meanwhile could be read, since that cancels most waits.
 */
export class Alarms {
  #heap: Alarm[] = [];
  #order = 0;
  #dead = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer will ring, monotonic ms. Infinity: it is not set. Negative infinity: it runs for the grace, and must not be set anew meanwhile. */
  #wakesAt = Number.POSITIVE_INFINITY;

  /** `now`: monotonic ms. */
  constructor(private readonly now: () => number) {}

  /** Runs `callback` once after `ms`; the returned function cancels that. What `callback` throws is an uncaught error, as with any timer. */
  after(ms: number, callback: () => void): () => void {
    const alarm = this.wake(ms, { wake: callback });
    return () => alarm.stop();
  }

  /** {@link after} with objects in the place of both functions, which takes less memory. */
  wake(ms: number, sleeper: Sleeper): Wait {
    const alarm = new Alarm(this, this.now() + Math.max(0, ms), this.#order++, sleeper);
    this.#push(alarm);
    this.#set();
    return alarm;
  }

  /** To be called by an alarm that is cancelled. */
  noteDead(): void {
    this.#dead++;
    if (this.#dead >= SWEEP_FROM && this.#dead * 2 > this.#heap.length) this.#sweep();
    // When nothing is left to wait for, the timer must not keep the process running.
    if (this.#dead === this.#heap.length) this.#rest();
  }

  /** Makes the timer ring at the first alarm, if it is set for later or not at all. */
  #set(): void {
    const first = this.#heap[0];
    if (!first || first.at >= this.#wakesAt) return;
    clearTimeout(this.#timer);
    this.#wakesAt = first.at;
    this.#timer = setTimeout(this.#ring, Math.min(LONGEST_MS, Math.max(1, Math.ceil(first.at - this.now()))));
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#wakesAt = Number.POSITIVE_INFINITY;
    this.#heap = [];
    this.#dead = 0;
  }

  readonly #ring = (): void => {
    const now = this.now();
    const late = now - this.#wakesAt;
    if (late > STOOD_STILL_MS && late < Number.POSITIVE_INFINITY) {
      this.#wakesAt = Number.NEGATIVE_INFINITY;
      this.#timer = setTimeout(this.#ring, GRACE_MS);
      return;
    }
    this.#timer = undefined;
    this.#wakesAt = Number.POSITIVE_INFINITY;
    try {
      for (let first = this.#heap[0]; first && first.at <= now; first = this.#heap[0]) {
        this.#pop();
        const { sleeper } = first;
        if (!sleeper) this.#dead--;
        first.sleeper = undefined;
        sleeper?.wake();
      }
    } finally {
      this.#set();
    }
  };

  #push(alarm: Alarm): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(alarm);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Alarm;
      if (!isBefore(alarm, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = alarm;
  }

  #pop(): void {
    const last = this.#heap.pop();
    if (last && this.#heap.length > 0) this.#sink(last);
  }

  /** Puts it in at the top, and each that is earlier above it. */
  #sink(alarm: Alarm): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1] as Alarm, heap[below] as Alarm)) below++;
      const child = heap[below] as Alarm;
      if (!isBefore(child, alarm)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = alarm;
  }

  /** Removes the cancelled ones from the heap. */
  #sweep(): void {
    const alive = this.#heap.filter(({ sleeper }) => sleeper !== undefined);
    // A sorted list is a heap.
    this.#heap = alive.sort((one, other) => (isBefore(one, other) ? -1 : 1));
    this.#dead = 0;
  }
}
