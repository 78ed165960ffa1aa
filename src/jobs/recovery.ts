import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { ImageUpstream } from "../vendors/image-upstream.ts";
import { JOB_MS } from "./accept.ts";
import { type Closing, fenceOf } from "./closing.ts";
import type { ImageFiles } from "./files.ts";
import { INTERRUPTED } from "./image-job.ts";
import type { JobError, JobRow } from "./job.ts";
import type { JobStore, Waiting } from "./store.ts";

/** Deaths of the process that a job may be part of; then it is not run again (reliability 5.4). */
const MAX_CRASHES = 2;
/** A vendor that is not there yet, such as a server of this machine that is found after the start, is given this long, ms. */
export const VENDOR_PATIENCE_MS = 10_000;

type Timed = Pick<JobRow, "deadlineMs">;

/** The wall clock as a job's times are read by it, Unix ms: one that was set back to before the job was taken stands at that moment. */
export const wallFor = ({ deadlineMs }: Timed, clock: Clock): number => Math.max(clock.now(), deadlineMs - JOB_MS);

/** When a job is tried whose vendor is not there yet, Unix ms: with its time at the latest, since a later moment is taken to be that of a wrong clock. */
export const patientFor = (job: Timed, clock: Clock): number =>
  Math.min(wallFor(job, clock) + VENDOR_PATIENCE_MS, job.deadlineMs);

export type RecoveryParts = {
  jobs: JobStore;
  writer: Writer;
  files: ImageFiles;
  closing: Closing;
  clock: Clock;
  upstream(vendor: string): ImageUpstream | undefined;
  /** The job waits again. */
  requeued(job: Waiting): void;
  onEnded(id: string): void;
};

const POISONED: JobError = {
  code: "poisoned",
  message: "The gateway stopped twice while this image was being made. It is not tried again; nothing was charged.",
};

/**
 * Goes on with a job whose worker is gone, by what its vendor offers (reliability 5.3). A result that is in its file counts. Work that the vendor
 * knows by its name is asked for again. A request that it knows again by its key is sent again. Anything else has failed, uncharged: sent twice, it
 * could be paid for twice. Rejects as the writer and the files do.
 */
export async function recoverJob(job: JobRow, parts: RecoveryParts): Promise<void> {
  const { closing, files, onEnded } = parts;
  const { id, vendor, crashes } = job;
  if (crashes >= MAX_CRASHES) {
    if (await closing.fail(job, POISONED)) onEnded(id);
    return;
  }
  if (job.state === "fetching" && job.file !== null && (await files.has(job.file))) {
    if (await closing.succeed(job)) onEnded(id);
    return;
  }
  const upstream = parts.upstream(vendor);
  if (isFoundAgain(job, upstream)) return requeue(job, upstream !== undefined, parts);
  if (await closing.fail(job, { code: "interrupted", message: INTERRUPTED })) onEnded(id);
}

/** A vendor that is not there may still know the work by its name. */
function isFoundAgain({ vendorJob }: JobRow, upstream: ImageUpstream | undefined): boolean {
  if (vendorJob !== null) return !upstream || upstream.resume !== undefined;
  return upstream?.recovery === "resend";
}

async function requeue(job: JobRow, isThere: boolean, { jobs, writer, clock, requeued }: RecoveryParts): Promise<void> {
  const runAfterMs = isThere ? clock.now() : patientFor(job, clock);
  if (await writer.run(() => jobs.requeue(fenceOf(job), { runAfterMs }))) requeued({ ...job, runAfterMs });
}
