import type { Route } from "../catalog/entry.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/id.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { VendorHealth } from "../vendors/health.ts";
import type { ImageUpstream } from "../vendors/image-upstream.ts";
import { JOB_MS } from "./accept.ts";
import { type Closing, fenceOf } from "./closing.ts";
import { FairQueue, type Queued } from "./fair-queue.ts";
import type { ImageFiles } from "./files.ts";
import { type Ending, ImageWork, INTERRUPTED } from "./image-job.ts";
import type { JobError, JobErrorCode, JobRow } from "./job.ts";
import { type Drawers, otherRoutes, ratioAt, routesAround } from "./job-routes.ts";
import type { JobTraces } from "./job-traces.ts";
import { patientFor, recoverJob, wallFor } from "./recovery.ts";
import { retryPause } from "./retry.ts";
import type { JobStore, Waiting } from "./store.ts";

/** Jobs that run at the same time, in all and at one vendor (reliability 5.4). */
export const SLOTS = 8;
export const VENDOR_SLOTS = 4;
/**
 * How long a job stays with the worker that claimed it, ms. Claims are not renewed, as reliability 5.2 has it for workers of several processes: which jobs
 * this process works on is known. One that nobody works on, since its end could not be written, is looked after when this is over.
 */
export const LEASE_MS = 30_000;
/** How often that is looked at, and whatever else has a time, ms. */
export const TICK_MS = 5_000;
/** Jobs whose time is over that are ended in one round. */
const MAX_ENDED = 1_000;
/** How long a vendor has to take a cancel, ms. */
const CANCEL_MS = 10_000;
/** How long a stopping server waits for vendors whose work could not be found again, ms (reliability 6.5). */
export const DRAIN_MS = 30_000;

/** Why a job's work is broken off. */
class Broken extends Error {
  override readonly name = "Broken";
  constructor(readonly why: "cancelled" | "timeout" | "stopping") {
    super(why);
  }
}

/** A job that this process works on. */
type Run = {
  id: string;
  accountId: string;
  vendor: string;
  abort: AbortController;
  work?: ImageWork;
  upstream?: ImageUpstream;
  /** Resolves when it is over. */
  over: Promise<void>;
};

export type SchedulerParts = Drawers & {
  jobs: JobStore;
  writer: Writer;
  files: ImageFiles;
  closing: Closing;
  clock: Clock;
  log: Log;
  health: VendorHealth;
  /** Told of calls to vendors, where traces are kept. */
  traces?: JobTraces | undefined;
  /** A job has ended. */
  onEnded(id: string): void;
  /** Default: Math.random. */
  random?: () => number;
};

const TIMED_OUT: JobError = { code: "timeout", message: "The image was not ready in time. Nothing was charged." };
const NO_VENDOR: JobError = {
  code: "vendor_not_configured",
  message: "No vendor that draws images with this model is switched on any more.",
};

/** Failures that are no vendor's doing: they are not noted in its record. */
const OWN_FAULTS: ReadonlySet<JobErrorCode> = new Set([
  "internal_error",
  "interrupted",
  "source_gone",
  "vendor_not_configured",
]);

/**
 * Runs image jobs in this process, fairly among accounts: claim committed before the vendor is called, one lease and one fence for each, an
 * end in one transaction with the money. Without jobs it does nothing at all, not even keep time.
 */
export class Scheduler {
  readonly boot = newId("boot");
  readonly #queue = new FairQueue();
  readonly #running = new Map<string, Run>();
  readonly #load = new Map<string, number>();
  /** Jobs that wait for their next attempt, and how to wake them. */
  readonly #later = new Map<string, () => void>();
  /** Monotonic ms by which each job that waits has to have ended. */
  readonly #deadlines = new Map<string, number>();
  /** Monotonic ms before which vendors said that they want no more calls, by {@link wayOf}: a limit is often that of one model alone. */
  readonly #notBefore = new Map<string, number>();
  /** Jobs of this process that nobody works on: their end, or their second beginning, could not be written yet. */
  readonly #lost = new Set<string>();
  #isRecovering = false;
  #stopTick: (() => void) | undefined;
  #stopping = false;
  #started = false;

  constructor(private readonly parts: SchedulerParts) {}

  /** Jobs that wait or run. */
  get size(): number {
    return this.#deadlines.size + this.#running.size + this.#lost.size;
  }

  /** The end of a lease that begins now, monotonic ms. */
  get lease(): number {
    return Math.ceil(this.parts.clock.monotonic()) + LEASE_MS;
  }

  /** Begins to work. What was added before waits until then. */
  start(): void {
    this.#started = true;
    this.#pump();
  }

  /**
   * Takes on every job that a dead process left: work that was under way is gone on with, before those that waited wait again. Its vendor may be done with
   * it, and its place was before theirs. For a start.
   */
  takeOver(): void {
    const { jobs } = this.parts;
    if (!jobs.hasOpen()) return;
    const left = jobs.takeOver(this.boot, this.lease);
    const waiting = jobs.queued();
    const recovered = left.map((job) => {
      this.#lose(job.id);
      const recovering = this.#recover(job).catch((thrown) => this.#tellLost(job.id, thrown));
      // Where a file has to be looked for the bucket may not answer: the jobs that wait do not wait for that.
      return job.file === null ? recovering : undefined;
    });
    void Promise.all(recovered).then(() => {
      for (const job of waiting) this.add(this.#patiently(job));
    });
  }

  /** A job whose vendor is not there yet waits for it first. */
  #patiently(job: Waiting): Waiting {
    if (this.parts.upstream(job.vendor)) return job;
    return { ...job, runAfterMs: Math.max(dueAt(job), patientFor(job, this.parts.clock)) };
  }

  /** Nobody works on the job now; once its lease is over it is looked after. */
  #lose(id: string): void {
    this.#lost.add(id);
    this.#keepTime();
  }

  #tellLost(id: string, thrown: unknown): void {
    this.parts.log.error("image-job", { job: id, ...errorFields(thrown) });
  }

  /** Takes a queued job that is committed. Its time is counted from the deadline of its row, by the wall clock of this moment alone. */
  add(job: Waiting): void {
    const { clock } = this.parts;
    const now = wallFor(job, clock);
    this.#deadlines.set(job.id, clock.monotonic() + Math.max(0, job.deadlineMs - now));
    const waitMs = dueAt(job) - now;
    if (waitMs > 0) this.#wakeLater(job, waitMs);
    else this.#queue.push(job);
    this.#keepTime();
    this.#pump();
  }

  /** Breaks off the work on a job that was cancelled, and tells its vendor. */
  cancelled(id: string): void {
    this.#queue.remove(id);
    this.#forget(id);
    this.#running.get(id)?.abort.abort(new Broken("cancelled"));
  }

  /**
   * Takes nothing more, and lets go of what can be found again at the next start; for the rest the vendors have half a minute. What is still
   * at work then ends as interrupted.
   */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const wake of this.#later.values()) wake();
    this.#later.clear();
    const breakOff = (runs: Iterable<Run>) => {
      for (const { abort } of runs) abort.abort(new Broken("stopping"));
    };
    breakOff([...this.#running.values()].filter(canBeFoundAgain));
    const cancel = this.parts.clock.after(DRAIN_MS, () => breakOff(this.#running.values()));
    await Promise.all([...this.#running.values()].map(({ over }) => over));
    cancel();
    this.#stopTick?.();
  }

  #wakeLater(job: Queued, ms: number): void {
    const cancel = this.parts.clock.after(ms, () => {
      this.#later.delete(job.id);
      this.#queue.push(job);
      this.#pump();
    });
    this.#later.set(job.id, cancel);
  }

  #forget(id: string): void {
    this.#deadlines.delete(id);
    this.#later.get(id)?.();
    this.#later.delete(id);
  }

  #pump(): void {
    if (!this.#started || this.#stopping) return;
    const hasRoom = (vendor: string) => (this.#load.get(vendor) ?? 0) < VENDOR_SLOTS;
    while (this.#running.size < SLOTS) {
      const next = this.#queue.take(hasRoom);
      if (!next) return;
      const { id, accountId, vendor } = next;
      const run: Run = { id, accountId, vendor, abort: new AbortController(), over: Promise.resolve() };
      this.#running.set(id, run);
      this.#load.set(vendor, (this.#load.get(vendor) ?? 0) + 1);
      run.over = this.#run(run).finally(() => {
        this.#running.delete(id);
        this.#load.set(vendor, (this.#load.get(vendor) ?? 1) - 1);
        this.#pump();
      });
    }
  }

  /** Never rejects. What could not be written is found by its lease. */
  async #run(run: Run): Promise<void> {
    const { clock } = this.parts;
    const deadline = this.#deadlines.get(run.id) ?? clock.monotonic() + JOB_MS;
    const stop = clock.after(Math.max(0, deadline - clock.monotonic()), () => run.abort.abort(new Broken("timeout")));
    try {
      // The slot came too late: its vendor is not asked for what nobody waits for any more.
      if (deadline <= clock.monotonic()) return await this.#endQueued(run.id);
      const job = await this.#claim(run);
      if (!job) return;
      this.#deadlines.delete(run.id);
      await this.#close(run, job, await this.#work(run, job), deadline);
    } catch (thrown) {
      this.#tellLost(run.id, thrown);
      this.#lose(run.id);
    } finally {
      stop();
    }
  }

  /**
   * Undefined for a job that does not wait any more; and when it waits on, since its image could not be stored, or it could not be written down that it does
   * not wait.
   */
  async #claim(run: Run): Promise<JobRow | undefined> {
    const { jobs, writer, files, clock, log } = this.parts;
    try {
      // The disk may have filled while it waited: its vendor would draw, and be paid, for nobody.
      if (!(await files.hasRoom())) return this.#waitOn(run);
      const job = await writer.runSingle(() => jobs.claim(run.id, this.boot, this.lease, clock.now()));
      if (!job) this.#deadlines.delete(run.id);
      return job;
    } catch (thrown) {
      log.error("image-claim", { job: run.id, ...errorFields(thrown) });
      return this.#waitOn(run);
    }
  }

  #waitOn(run: Run): undefined {
    if (!this.#stopping) this.#wakeLater(run, TICK_MS);
  }

  async #work(run: Run, job: JobRow): Promise<Ending> {
    // It was claimed while the process began to stop: nothing was asked of anybody yet. Work that has a name was claimed for no new try.
    if (this.#stopping) return this.#letGo(job, job.vendorJob === null ? triesBefore(job) : job.tries);
    const upstream = this.parts.upstream(job.vendor);
    if (!upstream) return { kind: "failed", error: NO_VENDOR, ...(wasNeverSent(job) && { elsewhere: true }) };
    run.upstream = upstream;
    const work = new ImageWork(job, upstream, this.parts);
    run.work = work;
    const { signal } = run.abort;
    const end = this.parts.traces?.asks(job);
    let ending: Ending;
    try {
      ending = await work.run(signal);
    } catch (thrown) {
      if (!(signal.reason instanceof Broken)) throw thrown;
      ending = await this.#breakOff(run, job, signal.reason);
    }
    if (ending.kind !== "lost") end?.(ending.kind === "done" ? "served" : ending.error.code);
    return ending;
  }

  /** The work was given up on this side. Its vendor is told, unless the next start goes on with it. */
  async #breakOff(run: Run, job: JobRow, { why }: Broken): Promise<Ending> {
    if (why === "stopping") {
      if (!canBeFoundAgain(run)) return { kind: "failed", error: { code: "interrupted", message: INTERRUPTED } };
      return this.#letGo(job, job.tries);
    }
    this.#tellVendor(run);
    return why === "timeout" ? { kind: "failed", error: TIMED_OUT } : { kind: "lost" };
  }

  /** Back into the queue, for the next start. */
  async #letGo(job: JobRow, tries: number): Promise<Ending> {
    const { jobs, writer, clock } = this.parts;
    await writer.run(() => jobs.requeue(fenceOf(job), { runAfterMs: clock.now(), tries }));
    return { kind: "lost" };
  }

  #tellVendor({ id, vendor, upstream, work }: Run): void {
    if (!upstream?.cancel) return;
    const { clock, log } = this.parts;
    const limit = new AbortController();
    const stop = clock.after(CANCEL_MS, () => limit.abort(new Broken("timeout")));
    upstream
      .cancel(work?.vendorJob, limit.signal)
      .catch((thrown) => log.warn("image-cancel", { job: id, vendor, ...errorFields(thrown) }))
      .finally(stop);
  }

  async #close(run: Run, job: JobRow, ending: Ending, deadline: number): Promise<void> {
    const { closing, files, health } = this.parts;
    if (ending.kind === "lost") return;
    if (ending.kind === "not-run") return this.#tryAgain(run, job, ending, deadline);
    // Work that was once taken on is this vendor's, whatever it says of the gateway meanwhile.
    if ("elsewhere" in ending && run.work?.vendorJob === undefined) {
      const next = otherRoutes(job, this.parts).after[0];
      if (next) return this.#goElsewhere(job, next, ending.error, deadline);
    }
    if (ending.kind === "done") {
      health.served(job.vendor);
      // It was cancelled in the last moment: then nobody is given the image.
      if (!(await closing.succeed(job))) await files.remove(ending.file);
    } else {
      if (ending.kind === "blocked") health.served(job.vendor);
      else if (!OWN_FAULTS.has(ending.error.code) && !("refused" in ending))
        health.failed(job.vendor, ending.error.code);
      await (ending.kind === "blocked" ? closing.block(job, ending.error) : closing.fail(job, ending.error));
    }
    this.parts.onEnded(job.id);
  }

  /**
   * Back into the queue, for the model's next route that does not want to be left alone for longer than another: at once where that stands behind this one
   * (reliability 6.2), else after a pause; or failed, when it was tried often enough.
   */
  async #tryAgain(run: Run, job: JobRow, ending: Ending & { kind: "not-run" }, deadline: number): Promise<void> {
    const { clock, health, random = Math.random } = this.parts;
    const now = clock.monotonic();
    const { busy, error, limited, retryAfterSeconds = 0 } = ending;
    this.#notBefore.set(wayOf({ vendor: job.vendor, model: job.upstreamModel }), now + retryAfterSeconds * 1_000);
    const waitFor = (route: Route) => Math.max(0, (this.#notBefore.get(wayOf(route)) ?? 0) - now);
    const { after, around } = routesAround(job, this.parts);
    const next = around.reduce((one, other) => (waitFor(other) < waitFor(one) ? other : one));
    const waitMs = waitFor(next);
    const facts = { tries: job.tries, busy, elsewhere: waitMs === 0 && after.includes(next), waitMs };
    const pause = retryPause({ ...facts, leftMs: deadline - now, random: random() });
    if (pause === undefined) return this.#close(run, job, { kind: "failed", error }, deadline);
    // A vendor that limits its calls is not failing, here as with generations.
    if (!limited) health.failed(job.vendor, error.code);
    const tries = busy ? triesBefore(job) : job.tries;
    return this.#requeue(job, next, { pause, tries, deadline });
  }

  /** To the next vendor at once: this one refuses the gateway, or is not there any more. Only to those behind it, so that none is asked twice. */
  #goElsewhere(job: JobRow, next: Route, { code }: JobError, deadline: number): Promise<void> {
    this.parts.health.failed(job.vendor, code);
    this.parts.log.warn("image-elsewhere", { job: job.id, vendor: job.vendor, next: next.vendor, error: code });
    return this.#requeue(job, next, { pause: 0, tries: job.tries, deadline });
  }

  async #requeue(
    job: JobRow,
    route: Route,
    { pause, tries, deadline }: { pause: number; tries: number; deadline: number },
  ): Promise<void> {
    const { jobs, writer, clock } = this.parts;
    const runAfterMs = clock.now() + pause;
    const values = {
      runAfterMs,
      tries,
      vendor: route.vendor,
      upstreamModel: route.model,
      ratio: ratioAt(route, job, this.parts),
    };
    if (await writer.run(() => jobs.requeue(fenceOf(job), values))) {
      this.#deadlines.set(job.id, deadline);
      this.#wakeLater({ ...job, ...values }, pause);
      this.#keepTime();
    }
  }

  /** One timer for everything that has a time, and none without jobs. */
  #keepTime(): void {
    if (this.#stopTick || this.#stopping) return;
    this.#stopTick = this.parts.clock.after(TICK_MS, () => {
      this.#stopTick = undefined;
      this.#tick().catch((thrown) => this.parts.log.error("image-jobs", errorFields(thrown)));
      if (this.size > 0) this.#keepTime();
    });
  }

  async #tick(): Promise<void> {
    await this.#endLate();
    // A round may still wait for a bucket that does not answer: with each further one the same file would be looked for once more.
    if (this.#isRecovering) return;
    this.#isRecovering = true;
    try {
      await this.#recoverLost();
    } finally {
      this.#isRecovering = false;
    }
  }

  async #recoverLost(): Promise<void> {
    const { jobs, clock } = this.parts;
    const lost = jobs.expired(this.boot, Math.floor(clock.monotonic())).filter(({ id }) => !this.#running.has(id));
    // One that cannot be looked after now keeps none of the others waiting.
    for (const job of lost) await this.#recover(job).catch((thrown) => this.#tellLost(job.id, thrown));
    // A job that its row does not call running any more has ended, or waits.
    if (lost.length === 0) for (const id of this.#lost) if (!jobs.isRunning(id)) this.#lost.delete(id);
  }

  /** Goes on with a job whose worker is gone. Rejects as {@link recoverJob} does. */
  async #recover(job: JobRow): Promise<void> {
    await recoverJob(job, { ...this.parts, requeued: (waiting) => this.add(waiting) });
    this.#lost.delete(job.id);
  }

  /** Jobs that waited too long. Those that run have timers of their own. */
  async #endLate(): Promise<void> {
    const now = this.parts.clock.monotonic();
    const late: string[] = [];
    for (const [id, deadline] of this.#deadlines) {
      if (deadline <= now && !this.#running.has(id)) late.push(id);
      if (late.length === MAX_ENDED) break;
    }
    await Promise.all(late.map((id) => this.#endQueued(id)));
  }

  /** One whose end cannot be written keeps its deadline: it is ended with a later round. */
  async #endQueued(id: string): Promise<void> {
    this.#queue.remove(id);
    const ended = await this.parts.closing.failQueued(id, TIMED_OUT);
    this.#forget(id);
    if (ended) this.parts.onEnded(id);
  }
}

/** When a job is tried, Unix ms; at once where that outlasts its time, since a clock wrote it that stood ahead. */
const dueAt = ({ runAfterMs, deadlineMs }: Waiting): number => (runAfterMs > deadlineMs ? 0 : runAfterMs);

/** A route as one word. */
const wayOf = ({ vendor, model }: Route): string => `${vendor} ${model}`;

/** How often a job was tried before its last claim, which came to no try. */
const triesBefore = ({ tries }: JobRow): number => Math.max(0, tries - 1);

/** Nobody has been asked for it yet, as far as is known: this is its first claim, or what came before it was no attempt. */
const wasNeverSent = ({ tries, vendorJob }: JobRow): boolean => tries <= 1 && vendorJob === null;

/** The next start can go on with the work: its vendor knows it by its name, or knows a second sending from a new request. */
function canBeFoundAgain({ upstream, work }: Run): boolean {
  return upstream?.recovery === "resend" || (work?.vendorJob !== undefined && upstream?.resume !== undefined);
}
