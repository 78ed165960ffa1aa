import { startWorker, type WorkerEvents, type WorkerThread } from "../../lib/worker-thread.ts";
import type { Counts, Work } from "./work.ts";

/** The tokenizer's other side: takes one piece of work at a time. */
export type Thread = WorkerThread<Work>;
/** What a thread says: one `done` for each piece of work, or once `died`. */
export type ThreadEvents = WorkerEvents<Counts>;

/** Starts the worker. It loads its vocabulary by itself; work posted before that waits in it. */
export const startThread = (events: ThreadEvents): Thread => startWorker("src/relay/tokenizer/worker.ts", events);
