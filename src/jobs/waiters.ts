import type { Clock } from "../lib/clock.ts";

/** Requests that may wait for the end of a job; more are answered at once. */
const MAX_WAITERS = 10_000;

/** Requests that wait for jobs to end (`Prefer: wait`). */
export class Waiters {
  readonly #ofJob = new Map<string, Set<() => void>>();
  #count = 0;
  #isOver = false;

  constructor(private readonly clock: Clock) {}

  /** Resolves when the job has ended, after `ms`, or when the signal aborts; at once when nobody is to wait any more. Never rejects. */
  wait(id: string, ms: number, signal: AbortSignal): Promise<void> {
    if (this.#isOver || this.#count >= MAX_WAITERS || signal.aborted) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#ofJob.get(id) ?? new Set();
    this.#ofJob.set(id, waiting);
    this.#count++;
    const leave = () => {
      if (!waiting.delete(leave)) return;
      this.#count--;
      if (waiting.size === 0) this.#ofJob.delete(id);
      stop();
      signal.removeEventListener("abort", leave);
      resolve();
    };
    const stop = this.clock.after(ms, leave);
    signal.addEventListener("abort", leave, { once: true });
    waiting.add(leave);
    return promise;
  }

  /** The job has ended. */
  tell(id: string): void {
    for (const leave of [...(this.#ofJob.get(id) ?? [])]) leave();
  }

  /** Nobody waits any longer, nor whoever comes later: jobs that wait are for the next start. */
  end(): void {
    this.#isOver = true;
    for (const id of [...this.#ofJob.keys()]) this.tell(id);
  }
}
