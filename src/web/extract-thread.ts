import type { Done, Work } from "./extract-work.ts";

/** A reader's other side: takes one page at a time. */
export type Thread = { post(work: Work): void; close(): void };

/** What a thread says: one `done` for each page, or once `died`. */
export type ThreadEvents = { done(done: Done): void; died(cause: unknown): void };

/** In the executable the program lies at the root, and a worker where its source lay below that (build.ts lists it). */
const WORKER = Bun.isStandaloneExecutable ? "./src/web/extract-worker.ts" : "./extract-worker.ts";

/** Starts a reader. The bytes of a page are handed over to it, not copied. */
export function startThread(events: ThreadEvents): Thread {
  const worker = new Worker(new URL(WORKER, import.meta.url).href);
  let over = false;
  const end = (cause: unknown) => {
    if (over) return;
    over = true;
    worker.terminate();
    events.died(cause);
  };
  worker.addEventListener("message", ({ data }: MessageEvent<Done>) => {
    if (!over) events.done(data);
  });
  worker.addEventListener("error", (event) => end(new Error(event.message)));
  worker.addEventListener("close", () => end(new Error("the reader's thread ended")));
  return {
    post: (work) => worker.postMessage(work, [work.bytes.buffer as ArrayBuffer]),
    close() {
      over = true;
      worker.terminate();
    },
  };
}
