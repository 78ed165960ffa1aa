import type { Clock } from "../lib/clock.ts";
import type { RequestObserver } from "../observe/request-facts.ts";
import { type EndCall, WorkBook } from "../observe/work-book.ts";
import { faultOf, type JobRow, outcomeOf } from "./job.ts";

/** The request that asked for a job: its id, and its client's trace context. */
export type JobOrigin = { requestId: string; traceparent: string | undefined };

type Noted = { origin: JobOrigin | undefined; book: WorkBook };

type Parts = { clock: Clock; observer: RequestObserver };

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

  /** A job has ended, and it is written that it has. `job`: its row as it is now; undefined where it is gone. */
  ended(id: string, job: JobRow | undefined): void {
    const noted = this.#open.get(id);
    this.#open.delete(id);
    if (!job) return;
    const { origin, book } = noted ?? { origin: undefined, book: this.#begin(job) };
    this.parts.observer.worked({
      ...{ operation: "image_generation", requestId: origin?.requestId, jobId: id, dialect: "images" },
      ...{ accountId: job.accountId, keyId: job.keyId, subject: job.model },
      ...{ vendor: job.vendor, upstreamModel: job.upstreamModel, tried: job.tries },
      ...{ outcome: outcomeOf(job.state), error: faultOf(job), traceparent: origin?.traceparent },
      ...book.close(),
    });
  }

  #begin({ createdMs }: JobRow): WorkBook {
    const { clock } = this.parts;
    return new WorkBook(clock, Math.max(0, clock.now() - createdMs));
  }
}
