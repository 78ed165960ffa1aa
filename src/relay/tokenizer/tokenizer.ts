import { GatewayError } from "../../canon/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { startThread, type Thread, type ThreadEvents } from "./thread.ts";
import { type Counts, sizeOf, type Work } from "./work.ts";

/** Pieces of work that may wait, and their characters in all; more are refused at once. */
export const MAX_WAITING = 64;
export const MAX_WAITING_CHARACTERS = 64 * 1024 * 1024;
/** From the asking to the answer, milliseconds, the loading of the vocabulary included. */
export const COUNT_DEADLINE_MS = 15_000;
/** A thread without work is ended after this, milliseconds: it holds 100 MB. */
export const IDLE_MS = 60_000;
/** What is at work when its client leaves may go on for this, milliseconds: as a rule it is done by then, and a thread anew loads its vocabulary as long. */
export const LEFT_MS = 1_000;
/** Threads that one piece of work may take down with it. */
const MAX_ATTEMPTS = 2;

type Waiting = {
  work: Work;
  size: number;
  attempts: number;
  resolve(counts: Counts): void;
  reject(error: unknown): void;
};

const busy = () =>
  new GatewayError("upstream_overloaded", "The gateway counts too many tokens at the moment. Try again.", {
    retryAfterSeconds: 1,
  });
const tooSlow = () => new GatewayError("request_timeout", "Counting the tokens of this request takes too long.");

/**
 * Counts tokens in a worker, one piece of work at a time. The worker is started by the first piece, started again when it dies, and
 * ended when there is nothing to do.
 */
export class Tokenizer {
  readonly #queue: Waiting[] = [];
  #characters = 0;
  #thread: Thread | undefined;
  #running: Waiting | undefined;
  /** The client of what is at work has left. */
  #isLeft = false;
  #cancelLeft: () => void = () => {};
  #cancelIdle: () => void = () => {};
  #stopped = false;

  constructor(
    private readonly clock: Clock,
    private readonly start: (events: ThreadEvents) => Thread = startThread,
  ) {}

  /** Whether a thread is there at this moment. */
  get awake(): boolean {
    return this.#thread !== undefined;
  }

  /**
   * Counts `work`. Throws the signal's reason once that is aborted, and GatewayError: upstream_overloaded when too much waits or its
   * turn did not come in time, request_timeout when it takes too long itself, internal_error when it takes threads down.
   */
  async count(work: Work, signal?: AbortSignal): Promise<Counts> {
    signal?.throwIfAborted();
    const size = sizeOf(work);
    const crowded = this.#queue.length >= MAX_WAITING || this.#characters + size > MAX_WAITING_CHARACTERS;
    if (this.#stopped || crowded) throw busy();
    const { promise, resolve, reject } = Promise.withResolvers<Counts>();
    const waiting: Waiting = { work, size, attempts: 0, resolve, reject };
    this.#queue.push(waiting);
    this.#characters += size;
    const onAbort = () => this.#leave(waiting, signal?.reason);
    signal?.addEventListener("abort", onAbort);
    const cancel = this.clock.after(COUNT_DEADLINE_MS, () =>
      this.#drop(waiting, waiting === this.#running ? tooSlow() : busy()),
    );
    this.#next();
    try {
      return await promise;
    } finally {
      cancel();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the thread; what waits is refused, and so is all that comes later. */
  stop(): void {
    this.#stopped = true;
    for (const waiting of [...this.#queue, ...(this.#running ? [this.#running] : [])]) waiting.reject(busy());
    this.#queue.length = 0;
    this.#characters = 0;
    this.#forget();
    this.#sleep();
  }

  /** A client leaves. Clients that count with every keystroke leave most of their counts, and would never see one if each took the thread with it. */
  #leave(waiting: Waiting, reason: unknown): void {
    if (waiting !== this.#running) {
      this.#drop(waiting, reason);
      return;
    }
    waiting.reject(reason);
    this.#isLeft = true;
    this.#cancelLeft = this.clock.after(LEFT_MS, () => this.#drop(waiting, reason));
  }

  /** Gives a piece of work up. The thread cannot be told to leave off, so one that works on it is ended. */
  #drop(waiting: Waiting, reason: unknown): void {
    waiting.reject(reason);
    const at = this.#queue.indexOf(waiting);
    if (at >= 0) {
      this.#queue.splice(at, 1);
      this.#characters -= waiting.size;
    } else if (waiting === this.#running) {
      this.#finish(waiting);
      this.#sleep();
      this.#next();
    }
  }

  #next(): void {
    if (this.#running) return;
    const waiting = this.#queue.shift();
    if (!waiting) return;
    this.#cancelIdle();
    this.#running = waiting;
    waiting.attempts++;
    try {
      this.#thread ??= this.#wake();
      this.#thread.post(waiting.work);
    } catch (thrown) {
      this.#recover(thrown);
    }
  }

  #wake(): Thread {
    return this.start({
      done: (counts) => {
        const waiting = this.#running;
        if (!waiting) return;
        this.#finish(waiting);
        waiting.resolve(counts);
        this.#next();
        if (!this.#running) this.#cancelIdle = this.clock.after(IDLE_MS, () => this.#sleep());
      },
      died: (cause) => this.#recover(cause),
    });
  }

  /** A thread died. Its work is tried once more, as it need not be to blame; then it counts as the cause. */
  #recover(cause: unknown): void {
    this.#thread = undefined;
    const waiting = this.#running;
    if (waiting && this.#isLeft) this.#finish(waiting);
    else if (waiting) {
      this.#forget();
      if (waiting.attempts < MAX_ATTEMPTS) this.#queue.unshift(waiting);
      else {
        this.#characters -= waiting.size;
        waiting.reject(
          new GatewayError("internal_error", "The tokens of this request could not be counted.", { cause }),
        );
      }
    }
    this.#next();
  }

  #finish(waiting: Waiting): void {
    this.#forget();
    this.#characters -= waiting.size;
  }

  /** Nothing is at work any more. */
  #forget(): void {
    this.#running = undefined;
    this.#isLeft = false;
    this.#cancelLeft();
  }

  #sleep(): void {
    this.#cancelIdle();
    this.#thread?.close();
    this.#thread = undefined;
  }
}
