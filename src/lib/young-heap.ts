import { edenGC } from "bun:jsc";

/** Requests under way from which on a collection is worth its time, and how many more there must be for each further one. */
const LEAST = 512;
const STEP = 256;

/**
 * Collects young garbage while the number of requests under way grows. The start of a request leaves six times as much garbage as memory that it keeps, and
 * the runtime lets its heap double before it collects. By then there are gaps between what is kept, which last as long as the streams do. Collected early,
 * they are filled by the next streams: 10,000 silent ones took 10 KB each, and take 7. A collection takes 2 ms, once for {@link STEP} further streams.
 */
export class YoungHeap {
  #next = LEAST;

  /** `collect` is replaced in tests. */
  constructor(private readonly collect: () => void = edenGC) {}

  /** To be called when a request begins. `count`: how many are under way, that one included. */
  note(count: number): void {
    if (count >= this.#next) {
      this.collect();
      this.#next = count + STEP;
    } else if (count + STEP < this.#next) this.#next = Math.max(LEAST, count + STEP);
  }
}
