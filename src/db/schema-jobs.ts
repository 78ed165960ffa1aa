import { blob, index, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { whole } from "./columns.ts";

/** States of an image job (reliability 5.1). Outside, the first three are `processing`, and `cancelled` is a kind of `failed` (contract 8). */
export const JOB_STATES = ["queued", "dispatched", "fetching", "succeeded", "failed", "blocked", "cancelled"] as const;
export type JobState = (typeof JOB_STATES)[number];

/**
 * An image job, for as long as it can be asked for. It names account and key without a foreign key: it must not wait for a look-up. Its
 * partial indices and the trigger that keeps ended jobs as they are stand in the migration.
 */
export const imageJob = sqliteTable(
  "image_job",
  {
    /** A UUID that grows with time, so that rows are appended. */
    id: text("id").notNull(),
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    /** The job's place in its account's list: its time, moved on where two would share a millisecond. */
    sortMs: whole("sort_ms").notNull(),
    createdMs: whole("created_ms").notNull(),
    state: text("state").$type<JobState>().notNull(),
    model: text("model").notNull(),
    prompt: text("prompt").notNull(),
    ratio: text("ratio").notNull(),
    /** The pixels that were asked for, where any were. */
    width: whole("width"),
    height: whole("height"),
    style: text("style"),
    sourceJob: text("source_job"),
    sourceFile: text("source_file"),
    /** What a vendor's idempotency header carries, so that an order that is sent twice is done once: written before the first is sent. */
    token: text("token").notNull(),
    /** How often it was claimed: with `boot` it tells whose result counts. */
    attempt: whole("attempt").notNull().default(0),
    /** How often a vendor was really asked. */
    tries: whole("tries").notNull().default(0),
    /** How often a process died while it ran. */
    crashes: whole("crashes").notNull().default(0),
    boot: text("boot"),
    /** By the monotonic clock of the process `boot`, ms: from then on nobody is taken to be at work on the job. */
    leaseMs: whole("lease_ms"),
    vendor: text("vendor").notNull(),
    upstreamModel: text("upstream_model").notNull(),
    /** The vendor's own id of the work, by which it is asked for again. */
    vendorJob: text("vendor_job"),
    runAfterMs: whole("run_after_ms").notNull(),
    deadlineMs: whole("deadline_ms").notNull(),
    startedMs: whole("started_ms"),
    endedMs: whole("ended_ms"),
    errorCode: text("error_code"),
    errorMessage: text("error_message"),
    file: text("file"),
    sha256: blob("sha256", { mode: "buffer" }),
    bytes: whole("bytes"),
  },
  (table) => [
    uniqueIndex("image_job_id").on(table.id),
    uniqueIndex("image_job_page").on(table.accountId, table.sortMs),
    index("image_job_ended").on(table.endedMs),
  ],
);
