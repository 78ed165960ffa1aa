import type { Counts, Work } from "./work.ts";

/** The tokenizer's other side: takes one piece of work at a time. */
export type Thread = { post(work: Work): void; close(): void };

/** What a thread says: one `done` for each piece of work, or once `died`. */
export type ThreadEvents = { done(counts: Counts): void; died(cause: unknown): void };

/** In the executable the program lies at the root, and a worker where its source lay below that (build.ts lists it). */
const WORKER = Bun.isStandaloneExecutable ? "./src/relay/tokenizer/worker.ts" : "./worker.ts";

/** Starts the worker. It loads its vocabulary by itself; work posted before that waits in it. */
export function startThread(events: ThreadEvents): Thread {
  const worker = new Worker(new URL(WORKER, import.meta.url).href);
  let over = false;
  const end = (cause: unknown) => {
    if (over) return;
    over = true;
    worker.terminate();
    events.died(cause);
  };
  worker.addEventListener("message", ({ data }: MessageEvent<Counts>) => {
    if (!over) events.done(data);
  });
  worker.addEventListener("error", (event) => end(new Error(event.message)));
  worker.addEventListener("close", () => end(new Error("the tokenizer's thread ended")));
  return {
    post: (work) => worker.postMessage(work),
    close() {
      over = true;
      worker.terminate();
    },
  };
}
