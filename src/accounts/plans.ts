import { usdToNano } from "../lib/usd.ts";

/** What an account may use and how fast (contract 4; the web figures are the interface's, section 8). `undefined` means no limit. Money in nano-USD. */
export type Plan = {
  id: string;
  /** Requests are paid for: plan `local` is counted and never charged. */
  metered: boolean;
  /** chat + messages requests per minute; the burst is a quarter of it. */
  requestsPerMinute: number | undefined;
  concurrentGenerations: number | undefined;
  /** What the plan itself pays for tokens in each window of 5 hours; 0: everything comes from the wallet. */
  windowNano: bigint;
  /** Free images in any 24 hours. */
  imagesPerDay: number | undefined;
  imageJobsInFlight: number | undefined;
  /** Web calls in a UTC day. */
  webCallsPerDay: number | undefined;
  webCallsPerMinute: number | undefined;
  webCallsConcurrent: number | undefined;
  /** Price of a web call beyond the day's; undefined: there are no more (interface 8: the Free plan alone pays as it goes). */
  webCallNano: bigint | undefined;
};

/** A plan's figures as the configuration writes them (contract 2 `plans:`): laid over a built-in plan of the same id, or a new plan. */
export type PlanFigures = {
  metered?: boolean;
  requests_per_minute?: number;
  concurrent_generations?: number;
  spending_window_usd?: number;
  images_per_day?: number;
  image_jobs_in_flight?: number;
  web_calls_per_day?: number;
  web_calls_per_minute?: number;
  web_calls_concurrent?: number;
  web_call_usd?: number;
};

/** The plans by id; new ones of the configuration included. */
export type Plans = ReadonlyMap<string, Plan>;

const UNLIMITED: Omit<Plan, "id" | "metered"> = {
  requestsPerMinute: undefined,
  concurrentGenerations: undefined,
  windowNano: 0n,
  imagesPerDay: undefined,
  imageJobsInFlight: undefined,
  webCallsPerDay: undefined,
  webCallsPerMinute: undefined,
  webCallsConcurrent: undefined,
  webCallNano: undefined,
};

type Row = readonly [
  id: string,
  requestsPerMinute: number,
  concurrentGenerations: number,
  windowUsd: number,
  imagesPerDay: number,
  imageJobsInFlight: number,
  webCallsPerDay: number,
  webCallsPerMinute: number,
  webCallsConcurrent: number,
];

/** The table of contract 4, a row for each column of it, with the web rows of interface 8. */
const ROWS: readonly Row[] = [
  ["free", 20, 3, 0, 5, 1, 20, 5, 2],
  ["pro", 60, 10, 2, 20, 2, 100, 10, 3],
  ["pro_plus", 120, 15, 5, 40, 3, 200, 15, 3],
  ["max", 240, 20, 10, 80, 4, 300, 20, 4],
  ["ultra", 600, 40, 20, 200, 6, 1_500, 30, 6],
  ["power", 1_200, 80, 50, 400, 8, 3_000, 60, 8],
];

/** Web calls beyond the day's allowance on plan `free` (interface 8: 0.01 USD). */
const FREE_WEB_CALL_NANO = 10_000_000n;

function toPlan(row: Row): Plan {
  const [id, requests, generations, windowUsd, images, jobs, webDay, webMinute, webConcurrent] = row;
  return {
    id,
    metered: true,
    requestsPerMinute: requests,
    concurrentGenerations: generations,
    windowNano: usdToNano(windowUsd),
    imagesPerDay: images,
    imageJobsInFlight: jobs,
    webCallsPerDay: webDay,
    webCallsPerMinute: webMinute,
    webCallsConcurrent: webConcurrent,
    webCallNano: id === "free" ? FREE_WEB_CALL_NANO : undefined,
  };
}

/** The plans that are always there (contract 4). */
export const builtInPlans: readonly Plan[] = [
  { id: "local", metered: false, ...UNLIMITED },
  ...ROWS.map((row) => toPlan(row)),
];

/** `base` with the figures that a configuration gives. */
function overlay(base: Plan, figures: PlanFigures): Plan {
  const { spending_window_usd: windowUsd, web_call_usd: webCallUsd, metered = base.metered } = figures;
  const webCallNano = webCallUsd === undefined ? base.webCallNano : usdToNano(webCallUsd);
  return {
    id: base.id,
    metered,
    requestsPerMinute: figures.requests_per_minute ?? base.requestsPerMinute,
    concurrentGenerations: figures.concurrent_generations ?? base.concurrentGenerations,
    windowNano: windowUsd === undefined ? base.windowNano : usdToNano(windowUsd),
    imagesPerDay: figures.images_per_day ?? base.imagesPerDay,
    imageJobsInFlight: figures.image_jobs_in_flight ?? base.imageJobsInFlight,
    webCallsPerDay: figures.web_calls_per_day ?? base.webCallsPerDay,
    webCallsPerMinute: figures.web_calls_per_minute ?? base.webCallsPerMinute,
    webCallsConcurrent: figures.web_calls_concurrent ?? base.webCallsConcurrent,
    // Where nothing is charged, nobody can pay for more than the day's.
    webCallNano: metered ? webCallNano : undefined,
  };
}

/**
 * The built-in plans with the configuration's rows laid over them. A new plan starts from `free` without a window: it is metered, and what its row
 * leaves out is bounded.
 */
export function createPlans(settings: Readonly<Record<string, PlanFigures>> = {}): Plans {
  const plans = new Map(builtInPlans.map((plan) => [plan.id, plan]));
  const free = plans.get("free")!;
  for (const [id, figures] of Object.entries(settings)) {
    plans.set(id, overlay(plans.get(id) ?? { ...free, id }, figures));
  }
  return plans;
}

/** Changes `plans` in place, since others hold it, to the plans of `next`. Plans that stay as they are stay the same objects. */
export function replacePlans(plans: Plans, next: Plans): void {
  const held = plans as Map<string, Plan>;
  for (const id of [...held.keys()]) if (!next.has(id)) held.delete(id);
  for (const [id, plan] of next) if (!Bun.deepEquals(held.get(id), plan)) held.set(id, plan);
}

/**
 * The plan of an account. One that is no longer configured is treated as `free`, which is bounded everywhere and charges: never as
 * unlimited.
 */
export function planOf(plans: Plans, id: string): Plan {
  return plans.get(id) ?? plans.get("free")!;
}
