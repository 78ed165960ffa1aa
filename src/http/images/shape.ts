import { type JobErrorCode, type JobRow, type ShownJob, statusOf } from "../../jobs/job.ts";

/** Where the file of that name is had. */
export type LinkOf = (file: string) => string;

/** Whether the request or the gateway's side was at fault, in the chat dialect's words (contract 6). */
const ERROR_TYPES: Readonly<Partial<Record<JobErrorCode, string>>> = {
  cancelled: "invalid_request_error",
  content_policy: "invalid_request_error",
  source_gone: "invalid_request_error",
  timeout: "timeout_error",
};

/** A job as callers see it (interface 2.1): its fields in their order. */
export function toJobView(job: ShownJob, linkOf: LinkOf) {
  const { errorCode, errorMessage, file } = job;
  const status = statusOf(job.state);
  return {
    id: job.id,
    object: "image.generation.job" as const,
    status,
    created: Math.floor(job.createdMs / 1_000),
    model: job.model,
    prompt: job.prompt,
    aspect_ratio: job.ratio,
    style: job.style,
    ...(status === "succeeded" && file !== null && { data: [{ url: linkOf(file) }] }),
    ...(errorCode !== null && {
      error: {
        type: ERROR_TYPES[errorCode as JobErrorCode] ?? "server_error",
        code: errorCode,
        message: errorMessage ?? "",
      },
    }),
  };
}

/** A page of jobs, newest first: `jobs` holds one more than `limit` where there are more (interface 2.2, contract 8). */
export function toJobList(jobs: readonly JobRow[], limit: number, linkOf: LinkOf) {
  const shown = jobs.slice(0, limit);
  const last = shown.at(-1);
  const more = jobs.length > limit && last !== undefined;
  return {
    object: "list" as const,
    data: shown.map((job) => toJobView(job, linkOf)),
    next_before: more ? new Date(last.sortMs).toISOString() : null,
  };
}
