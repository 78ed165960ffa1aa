import type { Caller } from "../accounts/caller.ts";

/** What is being limited (reliability 4). */
export type RequestClass = "generate" | "count-tokens";

/** A taken place. `release` gives the concurrency back; it is safe to call more than once. */
export type Permit = {
  /** What is left, for the rate-limit headers of the caller's dialect; undefined where nothing is limited. */
  readonly state: RateState | undefined;
  release(): void;
};

export type RateState = { limit: number; remaining: number; resetMs: number };

/** Speed limits per caller. */
export interface Limiter {
  /** Takes a place for one request. Throws GatewayError (rate_limit_exceeded, concurrency_exceeded); a denial takes nothing. */
  take(caller: Caller, requestClass: RequestClass): Permit;
}

const OPEN: Permit = { state: undefined, release() {} };

/** Plan `local`: everything is allowed (contract 4). */
export const unlimited: Limiter = { take: () => OPEN };
