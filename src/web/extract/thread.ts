import { startWorker, type WorkerEvents, type WorkerThread } from "../../lib/worker-thread.ts";
import type { Done, Work } from "./work.ts";

/** A reader's other side: takes one page at a time. */
export type Thread = WorkerThread<Work>;
/** What a thread says: one `done` for each page, or once `died`. */
export type ThreadEvents = WorkerEvents<Done>;

/** Starts a reader. The bytes of a page are handed over to it, not copied. */
export const startThread = (events: ThreadEvents): Thread =>
  startWorker("src/web/extract/worker.ts", events, ({ bytes }: Work) => [bytes.buffer as ArrayBuffer]);
