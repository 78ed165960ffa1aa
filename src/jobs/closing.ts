import type { Writer } from "../db/writer.ts";
import type { Book, ClaimCount } from "../ledger/book.ts";
import type { Outcome } from "../ledger/ledger.ts";
import type { Clock } from "../lib/clock.ts";
import type { KeySpend } from "../limits/key-spend.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { JobError, JobRow } from "./job.ts";
import type { JobTraces } from "./job-traces.ts";
import type { KeyHolds } from "./key-holds.ts";
import { recordJob } from "./record-job.ts";
import type { Fence, JobStore } from "./store.ts";

type Parts = {
  jobs: JobStore;
  writer: Writer;
  book: Book;
  clock: Clock;
  /** The caps of keys that have some. */
  spend: KeySpend;
  holds: KeyHolds;
  /** Told of every job that has ended. */
  log: Log;
  /** Told too, where traces are kept. */
  traces?: JobTraces | undefined;
};

/** The fence of whoever works on a job as it was claimed. */
export const fenceOf = ({ id, attempt, boot }: JobRow): Fence => ({ id, attempt, boot: boot ?? "" });

/** An end that was written: what it came to, and what is left to do once it is on the disk. */
type Ended = { costNano: bigint; told?: (() => void) | undefined };

const CANCELLED: JobError = { code: "cancelled", message: "The job was cancelled. Nothing was charged." };

/**
 * Ends jobs: the state and the money in one transaction, so that a job that succeeded is billed once and any other not at all, crash or not
 * (reliability 5.2 rule 3). Each function resolves with false when the job was ended or taken over by somebody else before; then nothing
 * was written. They reject as the writer does.
 */
export class Closing {
  constructor(private readonly parts: Parts) {}

  /** The image is in its file: one unit (contract 5). */
  succeed(job: JobRow): Promise<boolean> {
    return this.#end(job.id, (jobs, now) => jobs.succeed(fenceOf(job), now) && this.#count(job, "completed"));
  }

  /** Refused on content grounds: no money, and counted against the allowance (interface 3). */
  block(job: JobRow, error: JobError): Promise<boolean> {
    return this.#end(
      job.id,
      (jobs, now) => jobs.fail("block", fenceOf(job), error, now) && this.#count(job, "blocked", error.code),
    );
  }

  /** It came to nothing: not charged, not counted. */
  fail(job: JobRow, error: JobError): Promise<boolean> {
    return this.#end(job.id, (jobs, now) => jobs.fail("fail", fenceOf(job), error, now) && this.#giveBack(job.id));
  }

  /** A job that still waits comes to nothing. */
  failQueued(id: string, error: JobError): Promise<boolean> {
    return this.#end(id, (jobs, now) => jobs.failQueued(id, error, now) && this.#giveBack(id));
  }

  /** Its caller does not want it any more: not charged, not counted, whatever its vendor does with it. */
  cancel(id: string): Promise<boolean> {
    return this.#end(id, (jobs, now) => jobs.cancel(id, CANCELLED, now) && this.#giveBack(id));
  }

  /** Runs `write` as one operation of the writer. The end is told once it is durable, and only that which counts. */
  async #end(id: string, write: (jobs: JobStore, now: number) => Ended | false): Promise<boolean> {
    const { jobs, writer, clock, holds } = this.parts;
    const ended = await writer.run(() => write(jobs, clock.now()));
    if (!ended) return false;
    ended.told?.();
    holds.end(id);
    this.#tell(id, ended.costNano);
    return true;
  }

  /** A job has ended, whatever becomes of telling it. */
  #tell(id: string, costNano: bigint): void {
    const { jobs, clock, log, traces } = this.parts;
    try {
      const job = jobs.find(id);
      traces?.ended(id, job);
      if (job) recordJob(job, costNano, clock.now(), log);
    } catch (thrown) {
      log.error("image-record", { job: id, ...errorFields(thrown) });
    }
  }

  #giveBack(id: string): Ended {
    return this.parts.book.giveBackUnits(id);
  }

  /** Charges the job's unit; where `error` says that it was blocked, only counts it. The last thing of its operation of the writer, as the ledger wants it. */
  #count(job: JobRow, outcome: Outcome, error?: string): Ended {
    const { book, clock, spend } = this.parts;
    const usage: ClaimCount["usage"] = {
      ...{ dialect: "images", model: job.model, vendor: job.vendor, upstreamModel: job.upstreamModel, outcome },
      ...{ attempts: Math.max(1, job.tries), durationMs: Math.max(0, clock.now() - job.createdMs) },
      ...(error !== undefined && { error }),
    };
    let told: Ended["told"];
    // The cost counts towards the key's caps: in the store with this operation, in memory once it is on the disk, since an operation that fails is done again.
    const beside = (nano: bigint) => {
      if (nano > 0n) told = spend.of(job.keyId)?.postBeside(0, nano);
    };
    const { costNano } = book.countUnits({ claimId: job.id, used: 1, charge: error === undefined, usage, beside });
    return { costNano, told };
  }
}
