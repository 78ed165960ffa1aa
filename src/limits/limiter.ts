import type { Caller } from "../accounts/caller.ts";
import { type Plan, type Plans, planOf } from "../accounts/plans.ts";
import { GatewayError } from "../canon/errors.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { Buckets, Room } from "./buckets.ts";
import { type ClassLimits, classLimitsOf, REQUEST_CLASSES, type RequestClass } from "./classes.ts";
import { Concurrency } from "./concurrency.ts";
import { type Rate, remaining, resetAfter, spend, waitFor } from "./gcra.ts";

/** What a client that is at its bound of concurrency is told to wait, seconds: nobody knows when its own requests end. */
const CONCURRENCY_WAIT_SECONDS = 1;
const US_PER_MS = 1_000;
const US_PER_SECOND = 1_000_000;

/** How a bucket stands: what the rate-limit headers of both dialects are written from. `resetMs` is from now, `resetAt` Unix ms. */
export type RateState = { limit: number; remaining: number; resetMs: number; resetAt: number };

/** A taken place. `release` gives the concurrency back; it is safe to call more than once. */
export type Permit = {
  /** What is left, for the rate-limit headers of the caller's dialect; undefined where nothing is limited. */
  readonly state: RateState | undefined;
  release(): void;
};

/** What a request weighs: how many units it counts as (a `web_fetch`: one per URL), and the job it asks about. */
export type Weight = { count?: number; jobId?: string };

/** Speed limits per caller. */
export interface Limiter {
  /** Takes a place for one request. Throws RateLimited; a denial takes nothing. */
  take(caller: Caller, requestClass: RequestClass, weight?: Weight): Permit;
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

const OPEN: Permit = { state: undefined, release() {} };

/** Plan `local`: everything is allowed (contract 4). */
export const unlimited: Limiter = { take: () => OPEN };

/** A bucket's standing. Times are µs; `wallNow` is Unix ms. */
export function describeBucket(tat: number, now: number, rate: Rate, wallNow: number): RateState {
  const resetMs = Math.ceil(resetAfter(tat, now) / US_PER_MS);
  return { limit: rate.limit, remaining: remaining(tat, now, rate), resetMs, resetAt: wallNow + resetMs };
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
  readonly #running: Readonly<Record<RequestClass, Concurrency>>;

  constructor({ plans, clock = systemClock, room = new Room(), startHalf = false }: LimiterOptions) {
    this.#plans = plans;
    this.#clock = clock;
    const halfFrom = startHalf ? this.#now() : undefined;
    const forEach = <T>(make: () => T) =>
      Object.fromEntries(REQUEST_CLASSES.map((name) => [name, make()])) as Record<RequestClass, T>;
    this.#accounts = forEach(() => new Buckets({ room, halfFrom }));
    this.#jobs = new Buckets({ room, halfFrom });
    this.#running = forEach(() => new Concurrency());
  }

  /** Throws RateLimited: rate_limit_exceeded with the wait after which the same call passes, or concurrency_exceeded. */
  take(caller: Caller, requestClass: RequestClass, weight: Weight = {}): Permit {
    const limits = this.#limitsOf(caller.plan)[requestClass];
    if (limits === undefined) return OPEN;
    const { rate, jobRate, concurrent } = limits;
    const running = this.#running[requestClass];
    const { accountId } = caller;
    const { count = 1, jobId } = weight;
    const now = this.#now();
    const account = rate && this.#look(this.#accounts[requestClass], accountId, rate, now, count);
    // The job's own name is in its owner's: nobody else's polls touch it.
    const job = jobRate && jobId ? this.#look(this.#jobs, `${accountId} ${jobId}`, jobRate, now, count) : undefined;
    if (concurrent !== undefined && running.count(accountId) >= concurrent) {
      const text = `This account may run ${concurrent} such requests at the same time, and does. Try again when one has ended.`;
      throw new RateLimited("concurrency_exceeded", text, CONCURRENCY_WAIT_SECONDS, account?.state());
    }
    account?.take();
    job?.take();
    if (concurrent === undefined) return { state: tightest(account?.state(), job?.state()), release() {} };
    running.enter(accountId);
    return new Place(running, accountId, tightest(account?.state(), job?.state()));
  }

  /** How an account's bucket of a class stands, without using it; undefined where its plan has no such limit. For `GET /v1/account`. */
  peek(accountId: string, plan: string, requestClass: RequestClass): RateState | undefined {
    const rate = this.#limitsOf(plan)[requestClass]?.rate;
    if (!rate) return undefined;
    const now = this.#now();
    const tat = this.#accounts[requestClass].read(accountId, rate);
    return describeBucket(tat, now, rate, this.#clock.now());
  }

  /** A bucket that lets the request pass, not used yet. Throws RateLimited when it does not. */
  #look(buckets: Buckets, name: string, rate: Rate, now: number, count: number) {
    const slot = buckets.slot(name, now);
    let tat = buckets.read(slot, rate);
    const state = () => describeBucket(tat, now, rate, this.#clock.now());
    const wait = waitFor(tat, now, rate, count);
    if (wait > 0) throw new RateLimited("rate_limit_exceeded", TOO_FAST, wait / US_PER_SECOND, state());
    const take = () => {
      tat = spend(tat, now, rate, count);
      buckets.write(slot, tat, now);
    };
    return { state, take };
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

/** A place among what runs at the same time. */
class Place implements Permit {
  #left = false;

  constructor(
    private readonly running: Concurrency,
    private readonly name: string,
    readonly state: RateState | undefined,
  ) {}

  release(): void {
    if (this.#left) return;
    this.#left = true;
    this.running.leave(this.name);
  }
}
