import type { Clock } from "../lib/clock.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { RequestObserver } from "../observe/request-facts.ts";
import { type EndCall, WorkBook } from "../observe/work-book.ts";
import type { JobRow, JobState } from "./job.ts";
import type { JobStore } from "./store.ts";

/** The request that asked for a job: its id, and its client's trace context. */
export type JobOrigin = { requestId: string; traceparent: string | undefined };

type Noted = { origin: JobOrigin | undefined; book: WorkBook };

type Parts = { jobs: JobStore; clock: Clock; log: Log; observer: RequestObserver };

/** How a job ended, in the words of generations where they have one. */
const OUTCOMES: Readonly<Partial<Record<JobState, string>>> = { succeeded: "completed" };

/**
 * Tells the traces of image jobs, each when it has ended. What is not in a job's row, who asked for it and which calls it took, is kept in memory: a job
 * that goes on after a restart is a trace of its own, with the calls since then.
 */
export class JobTraces {
  /** Jobs that have not ended, as far as this process has seen them. */
  readonly #open = new Map<string, Noted>();

  constructor(private readonly parts: Parts) {}

  /** A job was taken. */
  taken(job: JobRow, origin: JobOrigin | undefined): void {
    this.#open.set(job.id, { origin, book: this.#begin(job) });
  }

  /** The vendor of a claimed job is asked; what is returned is told how that ended. */
  asks(job: JobRow): EndCall {
    const noted = this.#open.get(job.id) ?? { origin: undefined, book: this.#begin(job) };
    this.#open.set(job.id, noted);
    return noted.book.call(job.vendor, job.upstreamModel);
  }

  /** A job has ended, and it is written that it has. Never throws. */
  ended(id: string): void {
    const { jobs, log, observer } = this.parts;
    const noted = this.#open.get(id);
    this.#open.delete(id);
    try {
      const job = jobs.find(id);
      if (!job) return;
      const { origin, book } = noted ?? { origin: undefined, book: this.#begin(job) };
      const cancelled = job.state === "cancelled";
      observer.worked({
        ...{ operation: "image_generation", requestId: origin?.requestId, jobId: id, dialect: "images" },
        ...{ accountId: job.accountId, keyId: job.keyId, subject: job.model },
        ...{ vendor: job.vendor, upstreamModel: job.upstreamModel, tried: job.tries },
        ...{ outcome: OUTCOMES[job.state] ?? job.state, traceparent: origin?.traceparent },
        // Who does not want it any more has it as it was wished.
        error: cancelled ? undefined : (job.errorCode ?? undefined),
        ...book.close(),
      });
    } catch (thrown) {
      log.error("image-trace", { job: id, ...errorFields(thrown) });
    }
  }

  #begin({ createdMs }: JobRow): WorkBook {
    const { clock } = this.parts;
    return new WorkBook(clock, Math.max(0, clock.now() - createdMs));
  }
}
