/** Alarms that were taken back are swept out when there are so many of them, and more than half of all. */
const SWEEP_FROM = 1_024;
/** The longest wait that a timer of the runtime takes, ms. */
const LONGEST_MS = 0x7fff_ffff;

type Alarm = { at: number; order: number; callback: (() => void) | undefined };

const isBefore = (one: Alarm, other: Alarm): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

/**
 * Any number of waits on one timer of the runtime, which takes 200 bytes and two native calls for each of its own: streams have three, for
 * minutes, and nearly all are taken back. A binary heap, earliest first; those of one moment come in the order in which they were set.
 */
export class Alarms {
  #heap: Alarm[] = [];
  #order = 0;
  #dead = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wakesAt = Number.POSITIVE_INFINITY;

  /** `now`: monotonic ms. */
  constructor(private readonly now: () => number) {}

  /** Runs `callback` once after `ms`; the returned function takes it back. What it throws goes the way of whatever a timer throws. */
  after(ms: number, callback: () => void): () => void {
    const alarm: Alarm = { at: this.now() + Math.max(0, ms), order: this.#order++, callback };
    this.#push(alarm);
    this.#wake();
    return () => {
      if (!alarm.callback) return;
      alarm.callback = undefined;
      this.#dead++;
      if (this.#dead >= SWEEP_FROM && this.#dead * 2 > this.#heap.length) this.#sweep();
      // Without anything to wait for, nothing keeps the process.
      if (this.#dead === this.#heap.length) this.#rest();
    };
  }

  /** Sees to it that the timer runs for the first alarm. */
  #wake(): void {
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
    this.#timer = undefined;
    this.#wakesAt = Number.POSITIVE_INFINITY;
    const now = this.now();
    try {
      for (let first = this.#heap[0]; first && first.at <= now; first = this.#heap[0]) {
        this.#pop();
        const { callback } = first;
        if (!callback) this.#dead--;
        first.callback = undefined;
        callback?.();
      }
    } finally {
      this.#wake();
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
    const alive = this.#heap.filter(({ callback }) => callback !== undefined);
    // A sorted list is a heap.
    this.#heap = alive.sort((one, other) => (isBefore(one, other) ? -1 : 1));
    this.#dead = 0;
  }
}
