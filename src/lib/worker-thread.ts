/** A worker thread, as its owner has it. `close` ends it at once. */
export type WorkerThread<Work> = { post(work: Work): void; close(): void };

/** What a worker thread tells its owner: `done` once for each piece of work, or `died` once. */
export type WorkerEvents<Done> = { done(done: Done): void; died(cause: unknown): void };

/**
 * Where a worker's program is, by its path below the project: in the executable the program lies at the root, and a worker where its
 * source lay below that (build.ts lists it).
 */
function workerUrl(path: string): string {
  return new URL(Bun.isStandaloneExecutable ? `./${path}` : `../../${path}`, import.meta.url).href;
}

/**
 * Starts the worker at `path` (see {@link workerUrl}); work that is posted before it has loaded waits there. `handOver` returns the buffers of a piece of
 * work that are transferred to the worker and not copied. After `close` no event is told any more.
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
