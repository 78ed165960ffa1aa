import { and, asc, count, desc, eq, gt, gte, inArray, isNotNull, lt, lte, max, ne, type SQL, sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { imageJob, type JobState } from "../db/schema-jobs.ts";
import { BEHIND } from "./files.ts";
import { type JobError, type JobEvent, type JobRow, nextState, type ShownJob, statesBefore } from "./job.ts";

/** Who works on a job: a result of any other attempt, or of an earlier process, counts for nothing (reliability 5.2). */
export type Fence = { id: string; attempt: number; boot: string };

/** A job to be written down. */
export type NewJob = Pick<
  JobRow,
  "id" | "accountId" | "keyId" | "createdMs" | "model" | "prompt" | "ratio" | "token" | "vendor" | "upstreamModel"
> &
  Pick<JobRow, "width" | "height" | "style" | "sourceJob" | "sourceFile" | "runAfterMs" | "deadlineMs">;

/** What the queue keeps in memory of a job that waits. */
export type Waiting = Pick<JobRow, keyof typeof WAITING>;

/** A file that a result was or will be written to. */
export type StoredFile = { file: string; sha256: Buffer; bytes: number };

const QUEUED: readonly JobState[] = ["queued"];
const RUNNING: readonly JobState[] = ["dispatched", "fetching"];
const OPEN: readonly JobState[] = [...QUEUED, ...RUNNING];

/** Written into the statement as they are: a partial index is used only by a query that repeats its condition (reliability 5.1). */
const stateText = (states: readonly JobState[]): string => {
  const names = states.map((state) => `'${state}'`);
  return states.length === 1 ? `state = ${names[0]}` : `state IN (${names.join(", ")})`;
};
const stateIn = (states: readonly JobState[]): SQL => sql.raw(stateText(states));

const hole = sql.placeholder;
const WAITING = {
  id: imageJob.id,
  accountId: imageJob.accountId,
  vendor: imageJob.vendor,
  sortMs: imageJob.sortMs,
  runAfterMs: imageJob.runAfterMs,
  deadlineMs: imageJob.deadlineMs,
};

const SHOWN = {
  id: imageJob.id,
  state: imageJob.state,
  createdMs: imageJob.createdMs,
  model: imageJob.model,
  prompt: imageJob.prompt,
  ratio: imageJob.ratio,
  style: imageJob.style,
  errorCode: imageJob.errorCode,
  errorMessage: imageJob.errorMessage,
  file: imageJob.file,
} satisfies Record<keyof ShownJob, unknown>;

function prepare({ query }: Store) {
  const byId = eq(imageJob.id, hole("id"));
  const own = and(byId, eq(imageJob.accountId, hole("accountId")));
  return {
    find: query.select().from(imageJob).where(byId).prepare(),
    ofAccount: query.select().from(imageJob).where(own).prepare(),
    shown: query.select(SHOWN).from(imageJob).where(own).prepare(),
    page: query
      .select()
      .from(imageJob)
      .where(and(eq(imageJob.accountId, hole("accountId")), lt(imageJob.sortMs, hole("before"))))
      .orderBy(desc(imageJob.sortMs))
      .limit(hole("limit"))
      .prepare(),
    lastSort: query
      .select({ sortMs: max(imageJob.sortMs) })
      .from(imageJob)
      .where(eq(imageJob.accountId, hole("accountId")))
      .prepare(),
    inFlight: query
      .select({ jobs: count() })
      .from(imageJob)
      .where(and(eq(imageJob.accountId, hole("accountId")), stateIn(OPEN)))
      .prepare(),
    blocked: query
      .select({ endedMs: imageJob.endedMs })
      .from(imageJob)
      .where(
        and(
          eq(imageJob.accountId, hole("accountId")),
          gt(imageJob.endedMs, hole("after")),
          lt(imageJob.endedMs, hole("before")),
          stateIn(["blocked"]),
        ),
      )
      .orderBy(desc(imageJob.endedMs))
      .limit(hole("limit"))
      .prepare(),
    byFile: query
      .select()
      .from(imageJob)
      .where(and(isNotNull(imageJob.file), eq(imageJob.file, hole("file")), stateIn(["succeeded"])))
      .prepare(),
  };
}

/**
 * Image jobs in the store. What writes runs inside an operation of the writer; every change is guarded by the states from which it may happen,
 * and a worker's by its fence.
 */
export class JobStore {
  #prepared: ReturnType<typeof prepare> | undefined;

  constructor(private readonly store: Store) {}

  /** Made when a job is first asked for: a start has no need of them, and building them takes it milliseconds. */
  get #statements(): ReturnType<typeof prepare> {
    this.#prepared ??= prepare(this.store);
    return this.#prepared;
  }

  /** Jobs that have not ended: where there are none, a start has nothing to take over. */
  hasOpen(): boolean {
    return this.store.database.query(`SELECT 1 FROM image_job WHERE ${stateText(OPEN)} LIMIT 1`).get() !== null;
  }

  /** A job; only of this account, where one is given. */
  find(id: string, accountId?: string): JobRow | undefined {
    if (accountId === undefined) return this.#statements.find.get({ id });
    return this.#statements.ofAccount.get({ id, accountId });
  }

  /** What this account is shown of a job of its own. */
  show(id: string, accountId: string): ShownJob | undefined {
    return this.#statements.shown.get({ id, accountId });
  }

  /** An account's jobs from just below `before` (Unix ms), newest first. */
  page(accountId: string, before: number, limit: number): JobRow[] {
    return this.#statements.page.all({ accountId, before, limit });
  }

  /** Jobs of an account that have not ended. */
  inFlight(accountId: string): number {
    return this.#statements.inFlight.get({ accountId })?.jobs ?? 0;
  }

  /** When jobs of the account were blocked, between these times alone, newest first, at most `limit` of them; Unix ms. */
  blockedBetween(accountId: string, after: number, before: number, limit: number): number[] {
    return this.#statements.blocked.all({ accountId, after, before, limit }).map((row) => row.endedMs ?? 0);
  }

  /** The job whose image has this name. */
  ofFile(file: string): JobRow | undefined {
    return this.#statements.byFile.get({ file });
  }

  /**
   * Writes a job down as queued, behind all others of its account: two never share a millisecond, whatever the clock does (reliability 5.6).
   */
  insert(job: NewJob): JobRow {
    const last = this.#statements.lastSort.get({ accountId: job.accountId })?.sortMs ?? 0;
    const sortMs = Math.max(job.createdMs, Number(last) + 1);
    return this.store.query
      .insert(imageJob)
      .values({ ...job, sortMs, state: "queued" })
      .returning()
      .get();
  }

  /** Takes a queued job for this process; undefined when it is not queued any more. Must be committed before its vendor is called. */
  claim(id: string, boot: string, leaseMs: number, now: number): JobRow | undefined {
    return this.store.query
      .update(imageJob)
      .set({
        state: "dispatched",
        ...{ boot, leaseMs, attempt: sql`attempt + 1`, startedMs: sql`coalesce(started_ms, ${now})` },
        // Whoever asks for work that is under way asks for nothing new.
        tries: sql`tries + (vendor_job IS NULL)`,
      })
      .where(and(eq(imageJob.id, id), stateIn(QUEUED)))
      .returning()
      .get();
  }

  #change(event: JobEvent, where: SQL | undefined, values: Partial<JobRow>): boolean {
    const from = statesBefore(event);
    const to = nextState(from[0]!, event)!;
    const changed = this.store.query
      .update(imageJob)
      .set({ ...values, state: to })
      .where(and(where, inArray(imageJob.state, from)))
      .returning({ id: imageJob.id })
      .all();
    return changed.length > 0;
  }

  /** The vendor's own name of the work, kept as soon as it is known. False when the fence does not hold any more. */
  keepVendorJob(fence: Fence, vendorJob: string): boolean {
    const where = and(fenced(fence), stateIn(RUNNING));
    return (
      this.store.query.update(imageJob).set({ vendorJob }).where(where).returning({ id: imageJob.id }).all().length > 0
    );
  }

  /** The result is there, and goes into this file. */
  fetch(fence: Fence, stored: StoredFile): boolean {
    return this.#change("fetch", fenced(fence), stored);
  }

  /** The result is in its file: the job is done. */
  succeed(fence: Fence, endedMs: number): boolean {
    return this.#change("succeed", fenced(fence), { endedMs });
  }

  /** The job came to nothing, or was refused on content grounds. */
  fail(event: "fail" | "block", fence: Fence, error: JobError, endedMs: number): boolean {
    return this.#change(event, fenced(fence), { ...toColumns(error), ...NO_FILE, endedMs });
  }

  /** A job that nobody works on ends without having run (its time is over, its vendor is gone). */
  failQueued(id: string, error: JobError, endedMs: number): boolean {
    const where = and(eq(imageJob.id, id), stateIn(QUEUED));
    return this.#change("fail", where, { ...toColumns(error), ...NO_FILE, endedMs });
  }

  /** Its caller does not want it any more, whatever its state. */
  cancel(id: string, error: JobError, endedMs: number): boolean {
    return this.#change("cancel", eq(imageJob.id, id), { ...toColumns(error), ...NO_FILE, endedMs });
  }

  /** Back into the queue, for the same vendor or another one. */
  requeue(
    fence: Fence,
    values: Partial<
      Pick<JobRow, "runAfterMs" | "vendor" | "upstreamModel" | "ratio" | "tries" | "crashes" | "vendorJob">
    >,
  ): boolean {
    return this.#change("requeue", fenced(fence), { ...values, ...NO_FILE, boot: null, leaseMs: null });
  }

  /** Jobs of this process that nobody has worked on since their lease ended. */
  expired(boot: string, now: number): JobRow[] {
    const where = and(eq(imageJob.boot, boot), lt(imageJob.leaseMs, now), stateIn(RUNNING));
    return this.store.query.select().from(imageJob).where(where).all();
  }

  /** Whether the job's row says that somebody works on it. */
  isRunning(id: string): boolean {
    return RUNNING.includes(this.find(id)?.state ?? "queued");
  }

  /**
   * The jobs that other processes were running are this one's now, with one death more to their name: those processes are dead, since this one
   * holds the folder (reliability 5.2 rule 6). For a start; in a transaction of its own.
   */
  takeOver(boot: string, leaseMs: number): JobRow[] {
    return this.store.query
      .update(imageJob)
      .set({ boot, leaseMs, crashes: sql`crashes + 1` })
      .where(and(ne(imageJob.boot, boot), stateIn(RUNNING)))
      .returning()
      .all();
  }

  /** Every job that waits, oldest first. Read by SQLite itself: a start with ten thousand of them is to be short, and nothing in them passes 2^53. */
  queued(): Waiting[] {
    const columns = Object.entries(WAITING).map(([name, column]) => `${column.name} AS ${name}`);
    const text = `SELECT ${columns.join(", ")} FROM image_job WHERE ${stateText(QUEUED)} ORDER BY sort_ms`;
    return this.store.database.prepare<Waiting, []>(text).safeIntegers(false).all();
  }

  /** Jobs that ended before `endedMs`, oldest first. At most `limit`. */
  endedBefore(endedMs: number, limit: number): Pick<JobRow, "id" | "file">[] {
    const where = and(isNotNull(imageJob.endedMs), lte(imageJob.endedMs, endedMs));
    const columns = { id: imageJob.id, file: imageJob.file };
    return this.store.query
      .select(columns)
      .from(imageJob)
      .where(where)
      .orderBy(asc(imageJob.endedMs))
      .limit(limit)
      .all();
  }

  /** Forgets jobs that ended. */
  remove(ids: readonly string[]): void {
    this.store.query
      .delete(imageJob)
      .where(and(inArray(imageJob.id, [...ids]), isNotNull(imageJob.endedMs)))
      .run();
  }

  /** Names of the files of images that are done. At most `limit`. */
  finishedFiles(limit: number): string[] {
    const where = and(stateIn(["succeeded"]), isNotNull(imageJob.file));
    const rows = this.store.query.select({ file: imageJob.file }).from(imageJob).where(where).limit(limit).all();
    return rows.map(({ file }) => file ?? "");
  }

  /** A job has, or is getting, a file of this name. */
  knowsFile(file: string): boolean {
    return this.filesBetween(file, file + BEHIND).length > 0;
  }

  /** Names of files from `from` up to, not including, `to`, with whether their job is done. */
  filesBetween(from: string, to: string): { file: string; done: boolean }[] {
    const where = and(isNotNull(imageJob.file), gte(imageJob.file, from), lt(imageJob.file, to));
    const columns = { file: imageJob.file, state: imageJob.state };
    const rows = this.store.query.select(columns).from(imageJob).where(where).all();
    return rows.map(({ file, state }) => ({ file: file ?? "", done: state === "succeeded" }));
  }
}

/** A job that did not succeed has no file, whatever was being written when it ended. */
const NO_FILE = { file: null, sha256: null, bytes: null } as const;

const toColumns = ({ code, message }: JobError) => ({ errorCode: code, errorMessage: message });

const fenced = ({ id, attempt, boot }: Fence) =>
  and(eq(imageJob.id, id), eq(imageJob.attempt, attempt), eq(imageJob.boot, boot));
