import { until } from "../../lib/signals.ts";

/** Lets so many run at a time; later ones wait, and are let in in the order in which they came. */
export class Places {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs `work` once there is a place for it, and returns its result. Throws what it throws, and the signal's reason where that is aborted while it waits. */
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
      // If a place was given to it in the same moment, that goes to the next one.
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
