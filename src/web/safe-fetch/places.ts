import { until } from "../../lib/signals.ts";

/** So many at a time; who comes later waits, and the first who came is the first whose turn it is. */
export class Places {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** What `work` comes to, once there is a place for it. Throws the signal's reason where that is aborted before. */
  async hold<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#take(signal);
    try {
      return await work();
    } finally {
      this.#give();
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    try {
      await until(signal, () => promise);
    } catch (thrown) {
      // One that it was given in that moment is the next one's.
      if (!this.#waiting.delete(resolve)) this.#give();
      throw thrown;
    }
  }

  #give(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free++;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
