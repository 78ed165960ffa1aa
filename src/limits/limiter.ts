import type { Caller } from "../accounts/caller.ts";
import { type Plan, type Plans, planOf } from "../accounts/plans.ts";
import { GatewayError } from "../canon/errors.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { Buckets, NOWHERE, Room } from "./buckets.ts";
import { type ClassLimits, classLimitsOf, REQUEST_CLASSES, type RequestClass } from "./classes.ts";
import { type Rate, remaining, resetAfter, spend, US_PER_MS, US_PER_SECOND, waitFor } from "./gcra.ts";

/** What a client with as many requests under way as it may have is told to wait, seconds: nobody knows when one of them ends. */
const CONCURRENCY_WAIT_SECONDS = 1;

/** How a bucket stands: what the rate-limit headers of both dialects are written from. `resetMs` is from now, `resetAt` Unix ms. */
export type RateState = { limit: number; remaining: number; resetMs: number; resetAt: number };

/** A taken place. `release` gives the concurrency back; it is safe to call more than once. */
export type Permit = {
  /** What is left, for the rate-limit headers of the caller's dialect; undefined where nothing is limited. */
  readonly state: RateState | undefined;
  release(): void;
};

/**
 * What a request counts for: units of its class (`count`; a `web_fetch`: one per URL), and the job that it asks about. `bound`: a further check of its endpoint,
 * made last and told how the bucket stands: what it throws is a denial like any other, and takes nothing.
 */
export type Weight = { count?: number; jobId?: string; bound?: (state: RateState | undefined) => void };

/** Speed limits per caller. */
export interface Limiter {
  /** Takes a place for one request. Throws RateLimited; a denial takes nothing. */
  take(caller: Caller, requestClass: RequestClass, weight?: Weight): Permit;
  /**
   * How an account's bucket of a class stands, without using it; undefined where its plan has no such limit. Absent in a worker, where everybody who comes in
   * has taken a place already.
   */
  peek?(accountId: string, plan: string, requestClass: RequestClass): RateState | undefined;
}

/** A refusal for going too fast (contract 6: 429), with the bucket that refused, so that it can be told beside it. */
export class RateLimited extends GatewayError {
  constructor(
    code: "rate_limit_exceeded" | "concurrency_exceeded",
    message: string,
    retryAfterSeconds: number,
    readonly state: RateState | undefined,
  ) {
    super(code, message, { retryAfterSeconds });
  }
}

/** For a class that bounds only what runs at the same time: nothing is ever too fast. */
const NO_RATE: Rate = { limit: 0, intervalUs: 0, burst: 1 };

const OPEN: Permit = { state: undefined, release() {} };

/** A bucket's standing. Times are µs; `wallNow` is Unix ms. */
export function describeBucket(tat: number, now: number, rate: Rate, wallNow: number): RateState {
  const resetMs = Math.ceil(resetAfter(tat, now) / US_PER_MS);
  // Of polls more may come at once than in the second that they are counted by: what is left is never above the limit.
  const limit = Math.max(rate.limit, rate.burst);
  return { limit, remaining: remaining(tat, now, rate), resetMs, resetAt: wallNow + resetMs };
}

export type LimiterOptions = {
  plans: Plans;
  clock?: Clock;
  room?: Room;
  /** The last server on this store ended without a word: see {@link Buckets}. */
  startHalf?: boolean;
};

type PlanLimits = Readonly<Record<RequestClass, ClassLimits | undefined>>;

/**
 * Speed limits by plan: requests per minute for each account and class, polls per job too, and what runs at the same time. All bounds are
 * looked at before any is used, so that a denial takes nothing (reliability 4). The keys of an account share its buckets: with the same
 * figures a key's own bucket could never refuse what its account's lets pass.
 */
export class SpeedLimiter implements Limiter {
  readonly #plans: Plans;
  readonly #clock: Clock;
  readonly #limits = new WeakMap<Plan, PlanLimits>();
  readonly #accounts: Readonly<Record<RequestClass, Buckets>>;
  readonly #jobs: Buckets;

  constructor({ plans, clock = systemClock, room = new Room(), startHalf = false }: LimiterOptions) {
    this.#plans = plans;
    this.#clock = clock;
    const halfFrom = startHalf ? this.#now() : undefined;
    const buckets = REQUEST_CLASSES.map((name) => [name, new Buckets({ room, halfFrom })] as const);
    this.#accounts = Object.fromEntries(buckets) as Record<RequestClass, Buckets>;
    this.#jobs = new Buckets({ room, halfFrom });
  }

  /** Throws RateLimited: rate_limit_exceeded with the wait after which the same call passes, or concurrency_exceeded. */
  take(caller: Caller, requestClass: RequestClass, weight?: Weight): Permit {
    const limits = this.#limitsOf(caller.plan)[requestClass];
    if (limits === undefined) {
      weight?.bound?.(undefined);
      return OPEN;
    }
    const { rate = NO_RATE, jobRate, concurrent } = limits;
    const { accountId } = caller;
    const count = weight?.count ?? 1;
    const now = this.#now();
    const buckets = this.#accounts[requestClass];
    const place = buckets.claim(accountId, rate, now);
    let tat = this.#check(buckets, place, rate, now, count);
    // A job's bucket carries its owner's name: nobody else's polls touch it.
    const jobId = jobRate && weight?.jobId;
    const jobPlace = jobId ? this.#claimBeside(buckets, place, `${accountId} ${jobId}`, jobRate, now) : NOWHERE;
    const jobTat = jobId ? this.#check(this.#jobs, jobPlace, jobRate, now, count) : 0;
    if (concurrent !== undefined && buckets.running(place) >= concurrent) {
      const text = `This account may run ${concurrent} such requests at the same time, and does. Try again when one has ended.`;
      throw new RateLimited("concurrency_exceeded", text, CONCURRENCY_WAIT_SECONDS, this.#describe(tat, rate, now));
    }
    weight?.bound?.(this.#describe(tat, rate, now));
    tat = spend(tat, now, rate, count);
    buckets.setTat(place, tat);
    buckets.enter(place);
    let state = this.#describe(tat, rate, now);
    if (jobId) {
      this.#jobs.setTat(jobPlace, spend(jobTat, now, jobRate, count));
      state = tightest(state, this.#describe(this.#jobs.tat(jobPlace, jobRate), jobRate, now));
    }
    return new Place(buckets, place, state);
  }

  peek(accountId: string, plan: string, requestClass: RequestClass): RateState | undefined {
    const rate = this.#limitsOf(plan)[requestClass]?.rate;
    if (!rate) return undefined;
    const now = this.#now();
    const buckets = this.#accounts[requestClass];
    return this.#describe(buckets.tat(buckets.find(accountId), rate), rate, now);
  }

  /** The place of a job's bucket. The account's own is under way meanwhile: where room has to be made for the job's, an unused one is taken out. */
  #claimBeside(buckets: Buckets, place: number, job: string, jobRate: Rate, now: number): number {
    buckets.enter(place);
    const jobPlace = this.#jobs.claim(job, jobRate, now);
    buckets.leave(place);
    return jobPlace;
  }

  /** The number of a bucket that lets the request pass. Throws RateLimited when it does not. */
  #check(buckets: Buckets, place: number, rate: Rate, now: number, count: number): number {
    const tat = buckets.tat(place, rate);
    const wait = waitFor(tat, now, rate, count);
    if (wait === 0) return tat;
    throw new RateLimited("rate_limit_exceeded", TOO_FAST, wait / US_PER_SECOND, this.#describe(tat, rate, now));
  }

  #describe(tat: number, rate: Rate, now: number): RateState | undefined {
    return rate === NO_RATE ? undefined : describeBucket(tat, now, rate, this.#clock.now());
  }

  #limitsOf(planId: string): PlanLimits {
    const plan = planOf(this.#plans, planId);
    let limits = this.#limits.get(plan);
    if (!limits) {
      limits = classLimitsOf(plan);
      this.#limits.set(plan, limits);
    }
    return limits;
  }

  #now(): number {
    return Math.floor(this.#clock.monotonic() * US_PER_MS);
  }
}

const TOO_FAST = "Too many requests for this account's plan. The headers say what is left and when to try again.";

/** Of two buckets the one that refuses sooner. */
function tightest(first: RateState | undefined, second: RateState | undefined): RateState | undefined {
  if (!first || !second) return first ?? second;
  return second.remaining < first.remaining ? second : first;
}

/** A place among what its account runs at the same time. */
class Place implements Permit {
  #left = false;

  constructor(
    private readonly buckets: Buckets,
    private readonly place: number,
    readonly state: RateState | undefined,
  ) {}

  release(): void {
    if (this.#left) return;
    this.#left = true;
    this.buckets.leave(this.place);
  }
}
