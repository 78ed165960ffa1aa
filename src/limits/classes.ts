import type { Plan } from "../accounts/plans.ts";
import { MINUTE_MS } from "../lib/spans.ts";
import { type Rate, rateOf } from "./gcra.ts";

/** What is being limited for a caller (reliability 4). */
export const REQUEST_CLASSES = [
  "generate",
  "count-tokens",
  "image-create",
  "image-poll",
  "web",
  "catalog",
  "admin",
] as const;
export type RequestClass = (typeof REQUEST_CLASSES)[number];

/** What is being limited for an address, with or without a key (reliability 4). */
export type AddressClass = "models" | "images" | "open" | "refused-key" | "refused-admin";

/** The bounds of one class on one plan. Absent: not bounded. */
export type ClassLimits = {
  /** Per account; the keys of an account share it. */
  rate?: Rate;
  /** Per job, beside the account's. */
  jobRate?: Rate;
  /** At the same time, per account. */
  concurrent?: number;
};

const SECOND_MS = 1_000;

/** Least of the counts of tokens a minute, and how many more of them there are than generations (reliability 4: 60, 120, 240, …). */
const LEAST_COUNTS = 60;
const COUNTS_PER_GENERATION = 2;
/** Counts of tokens at the same time, on every plan (reliability 4). */
const CONCURRENT_COUNTS = 5;

/** Polls of one image job, and polls and lists of an account (reliability 4): who follows the interface's schedule never meets them. */
const JOB_POLLS = rateOf(1, SECOND_MS, 5);
const ACCOUNT_POLLS = rateOf(5, SECOND_MS, 30);
/** Looking at the catalog, with a key; and what an admin key may do. */
const CATALOG_CALLS = rateOf(20, SECOND_MS, 100);
const ADMIN_CALLS = rateOf(20, SECOND_MS, 100);

/** A quarter of the minute's requests may come at once (contract 4). */
const perMinute = (limit: number) => rateOf(limit, MINUTE_MS, Math.ceil(limit / 4));

/**
 * All of the minute's calls may come at once: they are few, and one `web_fetch` of ten addresses counts as ten, which a quarter
 * of ten would never let pass.
 */
const perMinuteAtOnce = (limit: number) => rateOf(limit, MINUTE_MS, limit);

/** What a plan bounds. Plan `local` bounds nothing (contract 4). */
export function classLimitsOf(plan: Plan): Readonly<Record<RequestClass, ClassLimits | undefined>> {
  const { requestsPerMinute, concurrentGenerations, webCallsPerMinute, webCallsConcurrent } = plan;
  const generations = requestsPerMinute === undefined ? {} : { rate: perMinute(requestsPerMinute) };
  const counts =
    requestsPerMinute === undefined
      ? undefined
      : { rate: perMinute(Math.max(LEAST_COUNTS, requestsPerMinute * COUNTS_PER_GENERATION)) };
  const web = webCallsPerMinute === undefined ? {} : { rate: perMinuteAtOnce(webCallsPerMinute) };
  // An image costs its vendor what a web call costs: the table gives both the same figures (reliability 4).
  const polls = plan.metered ? { jobRate: JOB_POLLS, rate: ACCOUNT_POLLS } : undefined;
  return {
    generate: orNone({
      ...generations,
      ...(concurrentGenerations !== undefined && { concurrent: concurrentGenerations }),
    }),
    "count-tokens": counts && { ...counts, concurrent: CONCURRENT_COUNTS },
    "image-create": orNone({ ...web }),
    "image-poll": polls,
    web: orNone({ ...web, ...(webCallsConcurrent !== undefined && { concurrent: webCallsConcurrent }) }),
    catalog: plan.metered ? { rate: CATALOG_CALLS } : undefined,
    admin: plan.metered ? { rate: ADMIN_CALLS } : undefined,
  };
}

const orNone = (limits: ClassLimits) => (Object.keys(limits).length === 0 ? undefined : limits);

/**
 * What an address may do, whoever it is (reliability 4). `images`: their files, a page of which shows a hundred at once, and which a {cdn_url} fetches
 * for everybody. `open`: every other public page, health checks among them.
 */
export const ADDRESS_RATES: Readonly<Record<AddressClass, Rate>> = {
  models: rateOf(5, SECOND_MS, 20),
  images: rateOf(100, SECOND_MS, 1_000),
  open: rateOf(20, SECOND_MS, 100),
  "refused-key": rateOf(10, MINUTE_MS, 10),
  "refused-admin": rateOf(5, MINUTE_MS, 5),
};
