import type { imageJob, JobState } from "../db/schema-jobs.ts";

/** A job as the store has it. */
export type JobRow = typeof imageJob.$inferSelect;

/** What its caller is shown of a job. */
export type ShownJob = Pick<
  JobRow,
  "id" | "state" | "createdMs" | "model" | "prompt" | "ratio" | "style" | "errorCode" | "errorMessage" | "file"
>;

/** What happens to a job. */
export const JOB_EVENTS = [
  /** A worker took it; committed before its vendor is called. */
  "claim",
  /** The vendor gave its result, which is being written. */
  "fetch",
  "succeed",
  "fail",
  "block",
  "cancel",
  /** It goes back into the queue: nothing can have run, or its vendor knows it again (reliability 5.3, 5.4). */
  "requeue",
] as const;
export type JobEvent = (typeof JOB_EVENTS)[number];

/** Where each event leads from each state; what is not named is refused (reliability 5.1). */
const TABLE: Readonly<Record<JobState, Readonly<Partial<Record<JobEvent, JobState>>>>> = {
  queued: { claim: "dispatched", fail: "failed", cancel: "cancelled" },
  dispatched: { fetch: "fetching", fail: "failed", block: "blocked", cancel: "cancelled", requeue: "queued" },
  fetching: { succeed: "succeeded", fail: "failed", cancel: "cancelled", requeue: "queued" },
  succeeded: {},
  failed: {},
  blocked: {},
  cancelled: {},
};

/** The state after an event; undefined where it may not happen. Pure. */
export function nextState(state: JobState, event: JobEvent): JobState | undefined {
  return TABLE[state][event];
}

/** The states in which an event may happen. */
export function statesBefore(event: JobEvent): JobState[] {
  return (Object.keys(TABLE) as JobState[]).filter((state) => nextState(state, event) !== undefined);
}

/** The job ended, for good. */
export const isEnded = (state: JobState): boolean => Object.keys(TABLE[state]).length === 0;

/** Status values that callers see (interface 2.1). */
export type JobStatus = "processing" | "succeeded" | "failed" | "blocked";

/** A state as callers see it: a cancelled job shows as failed (contract 8). */
export function statusOf(state: JobState): JobStatus {
  if (!isEnded(state)) return "processing";
  return state === "cancelled" ? "failed" : (state as JobStatus);
}

/** How a job that has ended did, in the words of generations where they have one. */
export const outcomeOf = (state: JobState): string => (state === "succeeded" ? "completed" : state);

/** The error in which a job has ended; undefined for one that its caller did not want any more: it has ended as was wished. */
export const faultOf = ({ state, errorCode }: JobRow): string | undefined =>
  state === "cancelled" ? undefined : (errorCode ?? undefined);

/** Why a job did not succeed; stable words for programs, as `error.code`. */
export type JobErrorCode =
  | "cancelled"
  | "content_policy"
  /** The process died while the vendor worked, and nobody can know what became of it (contract 8). */
  | "interrupted"
  /** It was running at two deaths of the process, and is not run again (reliability 5.4). */
  | "poisoned"
  | "timeout"
  | "source_gone"
  | "invalid_result"
  | "upstream_error"
  | "vendor_not_configured"
  | "internal_error";

/** How a job ended, other than well. `message` is for the caller: one plain sentence or two. */
export type JobError = { code: JobErrorCode; message: string };
