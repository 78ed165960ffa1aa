/** The other side of a worker: takes one piece of work at a time. */
export type WorkerThread<Work> = { post(work: Work): void; close(): void };

/** What a worker says: one `done` for each piece of work, or once `died`. */
export type WorkerEvents<Done> = { done(done: Done): void; died(cause: unknown): void };

/**
 * Where a worker's program is, by its path below the project: in the executable the program lies at the root, and a worker where its
 * source lay below that (build.ts lists it).
 */
export function workerUrl(path: string): string {
  return new URL(Bun.isStandaloneExecutable ? `./${path}` : `../../${path}`, import.meta.url).href;
}

/**
 * Starts the worker at `path` (see {@link workerUrl}); work posted before it has loaded waits in it. `handOver` names what of a piece of
 * work is given to it instead of being copied. After `close` it says nothing any more.
 */
export function startWorker<Work, Done>(
  path: string,
  events: WorkerEvents<Done>,
  handOver: (work: Work) => ArrayBuffer[] = () => [],
): WorkerThread<Work> {
  const worker = new Worker(workerUrl(path));
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
  worker.addEventListener("close", () => end(new Error(`the thread of ${path} ended`)));
  return {
    post: (work) => worker.postMessage(work, handOver(work)),
    close() {
      over = true;
      worker.terminate();
    },
  };
}
