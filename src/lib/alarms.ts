/** Alarms that were taken back are swept out when there are so many of them, and more than half of all. */
const SWEEP_FROM = 1_024;
/** The longest wait that a timer of the runtime takes, ms. */
const LONGEST_MS = 0x7fff_ffff;

/** A timer that rings this much too late tells that the process stood still: a container that was paused, a machine that slept. */
const STOOD_STILL_MS = 2_000;
/** What came meanwhile lies in the sockets, unread. It gets this long, ms, before anybody is told that nothing came. */
const GRACE_MS = 500;

/** Who is told when a wait is over. */
export type Sleeper = { wake(): void };
/** A wait that can be taken back. */
export type Wait = { stop(): void };

class Alarm implements Wait {
  constructor(
    private readonly alarms: Alarms,
    readonly at: number,
    readonly order: number,
    /** None any more: it has rung, or was taken back. */
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
 * Any number of waits on one timer of the runtime, which takes 200 bytes and two native calls for each of its own: streams have three, for
 * minutes, and nearly all are taken back. A binary heap, earliest first; those of one moment come in the order in which they were set. After the process
 * has stood still nobody is woken before what came meanwhile could be read: it takes most waits back.
 */
export class Alarms {
  #heap: Alarm[] = [];
  #order = 0;
  #dead = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Until when the timer needs no setting anew: the moment that it rings at, or always while it grants the grace. */
  #wakesAt = Number.POSITIVE_INFINITY;

  /** `now`: monotonic ms. */
  constructor(private readonly now: () => number) {}

  /** Runs `callback` once after `ms`; the returned function takes it back. What it throws goes the way of whatever a timer throws. */
  after(ms: number, callback: () => void): () => void {
    const alarm = this.wake(ms, { wake: callback });
    return () => alarm.stop();
  }

  /** {@link after} without a function for the one and for the other. */
  wake(ms: number, sleeper: Sleeper): Wait {
    const alarm = new Alarm(this, this.now() + Math.max(0, ms), this.#order++, sleeper);
    this.#push(alarm);
    this.#set();
    return alarm;
  }

  /** An alarm was taken back. */
  noteDead(): void {
    this.#dead++;
    if (this.#dead >= SWEEP_FROM && this.#dead * 2 > this.#heap.length) this.#sweep();
    // Without anything to wait for, nothing keeps the process.
    if (this.#dead === this.#heap.length) this.#rest();
  }

  /** Sees to it that the timer runs for the first alarm. */
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
    if (last && this.#heap.length > 0) this.#sink(last, 0);
  }

  #sink(alarm: Alarm, from: number): void {
    const heap = this.#heap;
    let at = from;
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

  /** Forgets those that were taken back. */
  #sweep(): void {
    const alive = this.#heap.filter(({ sleeper }) => sleeper !== undefined);
    // A sorted list is a heap.
    this.#heap = alive.sort((one, other) => (isBefore(one, other) ? -1 : 1));
    this.#dead = 0;
  }
}
