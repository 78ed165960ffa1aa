import type { Clock } from "../../lib/clock.ts";
import { startWorker, type WorkerThread } from "../../lib/worker-thread.ts";
import type { Done, Work } from "./canvas-work.ts";

/** The thread is ended when nothing was drawn for this long, ms. */
const IDLE_MS = 30_000;

const WORKER = "src/vendors/builtin/canvas-worker.ts";

type Waiting = { work: Work; resolve(done: Done): void; reject(reason: unknown): void };

/** Draws pictures one after the other in a thread, which is there while there is something to draw. */
export class DrawingThread {
  readonly #queue: Waiting[] = [];
  #thread: WorkerThread<Work> | undefined;
  #current: Waiting | undefined;
  #stopIdle = () => {};

  constructor(private readonly clock: Clock) {}

  /** Rejects with the signal's reason, or when the thread has died. Who asks bounds how many wait. */
  draw(work: Work, signal: AbortSignal): Promise<Done> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const { promise, resolve, reject } = Promise.withResolvers<Done>();
    const waiting: Waiting = { work, resolve, reject };
    this.#queue.push(waiting);
    const onAbort = () => {
      const at = this.#queue.indexOf(waiting);
      if (at >= 0) this.#queue.splice(at, 1);
      // What is being drawn is drawn to its end: that takes less time than a new thread.
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#next();
    return promise.finally(() => signal.removeEventListener("abort", onAbort));
  }

  #next(): void {
    if (this.#current) return;
    const waiting = this.#queue.shift();
    if (!waiting) return;
    this.#stopIdle();
    this.#current = waiting;
    this.#thread ??= startWorker<Work, Done>(WORKER, {
      done: (done) => this.#end(({ resolve }) => resolve(done)),
      died: (cause) => {
        this.#thread = undefined;
        this.#end(({ reject }) => reject(cause));
      },
    });
    this.#thread.post(waiting.work);
  }

  #end(tell: (waiting: Waiting) => void): void {
    const waiting = this.#current;
    this.#current = undefined;
    if (waiting) tell(waiting);
    // A thread that died while it was idle has left its timer running, which would end the next thread in the middle of a picture.
    this.#stopIdle();
    this.#stopIdle = this.clock.after(IDLE_MS, () => this.#close());
    this.#next();
  }

  #close(): void {
    this.#thread?.close();
    this.#thread = undefined;
  }
}
