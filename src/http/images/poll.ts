import type { Caller } from "../../accounts/caller.ts";
import { GatewayError } from "../../canon/errors.ts";
import { dialects } from "../../dialects/index.ts";
import type { ImageJobs } from "../../jobs/image-jobs.ts";
import { isEnded, type ShownJob } from "../../jobs/job.ts";
import type { Limiter, RateState } from "../../limits/limiter.ts";
import type { Log } from "../../observe/log.ts";
import type { Whole } from "../answered.ts";
import type { AskedHead } from "../asked.ts";
import { authenticate, type KeyFinder } from "../caller/credentials.ts";
import { addHeaders, errorAnswer, noteFault } from "../errors.ts";
import { ownJson } from "../own-json.ts";
import { rateHeaders } from "../rate-headers.ts";
import { pathOf } from "../request.ts";
import { type LinkOf, toJobView } from "./shape.ts";

/** What a look at a job needs. */
export type PollDependencies = {
  jobs: ImageJobs;
  keys: KeyFinder;
  limiter: Limiter;
  log: Log;
  /** Where clients reach the gateway, and where its files, when that was configured; without a slash at the end. */
  publicUrl: string | undefined;
  cdnUrl: string | undefined;
};

export const IMAGES_PATH = "/v1/images/generations";
export const FILES_PATH = "/v1/images/files";
/** How soon a client is asked to look again while its job is at work, seconds (contract 8). */
export const POLL_SECONDS = "2";

/** The path of a job as it is told: any other spelling is left to the routes. */
const JOB_PATH = new RegExp(`^${IMAGES_PATH}/([\\da-f-]{36})$`);

/** Where this request's caller gets files: the configured address, else the one it used itself. */
export function linkOf({ url }: Pick<AskedHead, "url">, { jobs, cdnUrl, publicUrl }: PollDependencies): LinkOf {
  const own = () => publicUrl ?? url.slice(0, url.indexOf("/", url.indexOf("://") + 3));
  return (file) => jobs.files.link(file) ?? `${cdnUrl ?? `${own()}${FILES_PATH}`}/${file}`;
}

/** A job as its caller is told of it. */
export function jobAnswer(job: ShownJob, link: LinkOf, requestId: string, status = 200): Whole {
  const told = ownJson(toJobView(job, link), requestId, status);
  if (!isEnded(job.state)) told.headers["retry-after"] = POLL_SECONDS;
  return told;
}

/** Counts a look at jobs against the caller's plan; how its limit stands then. Throws RateLimited. */
export function takePoll(limiter: Limiter, caller: Caller, jobId: string | undefined): RateState | undefined {
  const permit = limiter.take(caller, "image-poll", jobId === undefined ? {} : { jobId });
  permit.release();
  return permit.state;
}

/** Throws GatewayError (not_found) where a job is not there: the same for one that never was and for another account's. */
export function requireJob<T extends ShownJob>(job: T | undefined): T {
  if (job) return job;
  throw new GatewayError("not_found", "There is no image job of this id.");
}

/** The job of this id as it stands (interface 4.2); whatever goes wrong is told in the chat dialect, with the rate as it stands. */
export function answerPoll(asked: AskedHead, id: string, requestId: string, dependencies: PollDependencies): Whole {
  const { jobs, keys, limiter, log } = dependencies;
  let rate: RateState | undefined;
  try {
    const caller = authenticate(asked, keys);
    rate = takePoll(limiter, caller, id);
    const told = jobAnswer(requireJob(jobs.show(caller, id)), linkOf(asked, dependencies), requestId);
    if (rate) addHeaders(told.headers, rateHeaders("chat", rate));
    return told;
  } catch (thrown) {
    noteFault(thrown, asked, requestId, log);
    return errorAnswer(thrown, dialects.chat, requestId, rate);
  }
}

/** The job that a request asks for which does not want to wait for its end; undefined for every other request. */
export function polledJob(
  { method, headers }: Pick<AskedHead, "method" | "headers">,
  path: string,
): string | undefined {
  if (method !== "GET" || headers.has("prefer")) return undefined;
  return JOB_PATH.exec(pathOf(path))?.[1];
}
