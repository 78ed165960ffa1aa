import type { Caller } from "../accounts/caller.ts";
import type { Plans } from "../accounts/plans.ts";
import { GatewayError } from "../canon/errors.ts";
import type { Entry } from "../catalog/entry.ts";
import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import type { Book } from "../ledger/book.ts";
import type { Clock } from "../lib/clock.ts";
import type { KeySpend } from "../limits/key-spend.ts";
import { NO_ROOM } from "../limits/overloaded.ts";
import type { Log } from "../observe/log.ts";
import type { RequestObserver } from "../observe/request-facts.ts";
import type { VendorHealth } from "../vendors/health.ts";
import type { ImageTraits } from "../vendors/image-upstream.ts";
import { Acceptance, type ImageOrder } from "./accept.ts";
import { Closing } from "./closing.ts";
import type { ImageFiles } from "./files.ts";
import { isEnded, type JobRow, type ShownJob } from "./job.ts";
import type { Drawers } from "./job-routes.ts";
import { JobTraces } from "./job-traces.ts";
import { KeyHolds } from "./key-holds.ts";
import { Scheduler } from "./scheduler.ts";
import { JobStore } from "./store.ts";
import { Sweeper } from "./sweep.ts";
import { Waiters } from "./waiters.ts";

export type ImageJobsSettings = Drawers & {
  store: Store;
  writer: Writer;
  book: Book;
  plans: Plans;
  clock: Clock;
  log: Log;
  health: VendorHealth;
  /** The caps of keys that have some. */
  spend: KeySpend;
  /** Told of jobs, where it wants traces. */
  observer?: RequestObserver | undefined;
  files: ImageFiles;
  /** Jobs and their files are forgotten after this, days. */
  keepDays: number;
};

/** Where a model is had, and what it can draw. */
export type Drawing = { entry: Entry; traits: ImageTraits; route: { vendor: string; model: string } };

/** Image jobs of this gateway: taken, run, asked for, cancelled and forgotten. */
export class ImageJobs {
  readonly files: ImageFiles;
  readonly acceptance: Acceptance;
  readonly sweeper: Sweeper;
  readonly #jobs: JobStore;
  readonly #closing: Closing;
  readonly #scheduler: Scheduler;
  readonly #waiters: Waiters;
  readonly #traces: JobTraces | undefined;
  readonly #holds: KeyHolds;

  constructor(private readonly settings: ImageJobsSettings) {
    const { store, clock, files, observer } = settings;
    this.files = files;
    this.#jobs = new JobStore(store);
    this.#waiters = new Waiters(clock);
    const jobs = this.#jobs;
    const traces = observer?.traces ? new JobTraces({ clock, observer }) : undefined;
    this.#traces = traces;
    const holds = new KeyHolds(settings.spend);
    this.#holds = holds;
    this.#closing = new Closing({ ...settings, jobs, traces, holds });
    const onEnded = (id: string) => this.#waiters.tell(id);
    this.#scheduler = new Scheduler({ ...settings, jobs, traces, closing: this.#closing, onEnded });
    this.acceptance = new Acceptance({ ...settings, jobs, holds, waiting: () => this.#scheduler.size });
    this.sweeper = new Sweeper({ ...settings, jobs });
  }

  /** What a start does, before anything listens: goes on with what the last process left, and begins to work. Throws as the store does. */
  start(): void {
    for (const claim of this.settings.book.openClaims("image", 1)) this.#holds.restore(claim);
    this.#scheduler.takeOver();
    this.#scheduler.start();
    this.sweeper.start();
  }

  /** Ends the work, see {@link Scheduler.stop}. Jobs that wait are durable. */
  async stop(): Promise<void> {
    this.sweeper.stop();
    this.#waiters.end();
    await this.#scheduler.stop();
  }

  /**
   * Where a model can be drawn by now: its first route whose vendor draws, and `withSource` the first of those that takes a source image, where one does.
   * Throws GatewayError (vendor_not_configured) when there is none.
   */
  drawingOf(entry: Entry, withSource: boolean): Drawing {
    let first: Drawing | undefined;
    for (const { vendor, model } of entry.routes) {
      const traits = this.settings.upstream(vendor)?.traits(model);
      if (!traits) continue;
      const drawing: Drawing = { entry, traits, route: { vendor, model } };
      if (!withSource || traits.takesSource) return drawing;
      first ??= drawing;
    }
    if (first) return first;
    const text = `No vendor that is switched on here draws images with the model ${entry.id}.`;
    throw new GatewayError("vendor_not_configured", text, { param: "model" });
  }

  /**
   * Takes a job and sets it to work. Durable when it resolves. Throws GatewayError (upstream_overloaded) where its image could not be stored, and as
   * {@link Acceptance.accept} does.
   */
  async create(order: ImageOrder, also: ((job: JobRow) => void) | undefined): Promise<JobRow> {
    // The store may still take writes on a full disk, in the room that it has: the vendor would draw, and be paid, for nobody.
    if (!(await this.files.hasRoom())) throw NO_ROOM;
    const job = await this.acceptance.accept(order, also);
    this.#traces?.taken(job, order.origin);
    this.#scheduler.add(job);
    return job;
  }

  /** A caller's own job; undefined for any other id, also for another account's. */
  find(caller: Caller, id: string): JobRow | undefined {
    return this.#jobs.find(id, caller.accountId);
  }

  /** {@link find} of what the caller is shown alone: whoever waits for a job asks for it again and again. */
  show(caller: Caller, id: string): ShownJob | undefined {
    return this.#jobs.show(id, caller.accountId);
  }

  /** A caller's jobs just below `before` (Unix ms), newest first; `limit` of them, and one more where there is one. */
  page(caller: Caller, before: number, limit: number): JobRow[] {
    return this.#jobs.page(caller.accountId, before, limit + 1);
  }

  /** The finished job whose image has this name. */
  ofFile(name: string): JobRow | undefined {
    return this.#jobs.ofFile(name);
  }

  /** The job once it has ended, or as it stands after `ms` or when the signal aborts; undefined when it is gone. */
  async settled(job: JobRow, ms: number, signal: AbortSignal): Promise<JobRow | undefined> {
    if (isEnded(job.state) || ms <= 0) return job;
    const waiting = this.#waiters.wait(job.id, ms, signal);
    // It may have ended between the look and the wait.
    const now = this.#jobs.find(job.id);
    if (!now || isEnded(now.state)) {
      this.#waiters.tell(job.id);
      return now;
    }
    await waiting;
    return this.#jobs.find(job.id);
  }

  /** Ends a job that its caller does not want any more; one that has ended stays as it is. Gives the job as it is then. */
  async cancel(job: JobRow): Promise<JobRow | undefined> {
    if (!isEnded(job.state) && (await this.#closing.cancel(job.id))) {
      this.#scheduler.cancelled(job.id);
      this.#waiters.tell(job.id);
    }
    return this.#jobs.find(job.id);
  }
}
