import type { ErrorCode, GatewayError } from "../canon/errors.ts";
import { vendorSaid } from "../dialects/refusals/vendor-said.ts";
import { ConnectionLost } from "./http/faults.ts";

/** Whether the vendor worked on a request that failed: surely not, perhaps (it answered badly), or nobody can know (it broke off). */
export type Ran = "no" | "maybe" | "unknown";

/** Pauses before the same way is asked again, ms (reliability 6.2): for an overload, and for a connection that did not come about. */
const OVERLOAD_PAUSE_MS = { least: 250, most: 2_000 };
const CONNECT_PAUSE_MS = { least: 50, most: 250 };
/** A vendor that asks for a longer wait is not waited for. */
const MAX_WAIT_MS = 5_000;

/** A doubtful attempt is repeated only in this time after the request came, milliseconds (reliability 6.2). */
const DOUBTFUL_WITHIN_MS = 15_000;

export type AttemptFacts = {
  /** Since the request came, milliseconds. */
  elapsedMs: number;
  /** Routes not tried yet. */
  routesLeft: number;
  /** Earlier attempts of this request that may have run; one is the most that is repeated. Default 0. */
  doubtfulBefore?: number;
};

/** Errors that another vendor, or another key, may well not have, though the request is the same. */
const ANOTHER_ROUTE: ReadonlySet<ErrorCode> = new Set([
  "upstream_unreachable",
  "upstream_auth",
  "upstream_overloaded",
  "rate_limit_exceeded",
  "vendor_not_configured",
]);

/** Errors that leave open whether the vendor ran the request. All others are the request's own fault, or the end of its time. */
const DOUBTFUL: ReadonlySet<ErrorCode> = new Set(["upstream_error", "stream_truncated"]);

/**
 * Whether the request could not be told to the vendor at all, by its dialect or by what a strict client forbids to lose: nobody was asked. What a vendor
 * refuses itself carries its status, unless it says that it takes no such request at all. Pure.
 */
export const isUntold = (error: GatewayError): boolean =>
  error.code === "invalid_request" && typeof vendorSaid(error).status !== "number";

/** What an attempt's error tells of whether the vendor ran it (reliability 6.2, column two). Pure. */
export function ranOf(error: GatewayError): Ran {
  if (!DOUBTFUL.has(error.code)) return "no";
  if (error.cause instanceof ConnectionLost) return "unknown";
  const { status } = vendorSaid(error);
  if (typeof status !== "number") return "maybe";
  // A redirect, a missing model, an empty account or a vendor that takes no work is an answer before any; another 5xx, HTML or half a body is not.
  return (status >= 300 && status < 500 && status !== 408) || status === 503 || status === 529 ? "no" : "maybe";
}

/**
 * Whether a failed attempt, of which no byte has reached the client, is followed by one on the next route (reliability 6.2): at once
 * when nothing ran, at most once and early when something may have, and not at all when the fault lies in the request. Pure.
 */
export function decideRetry(error: GatewayError, facts: AttemptFacts): "next-route" | "stop" {
  if (facts.routesLeft <= 0) return "stop";
  if (ANOTHER_ROUTE.has(error.code)) return "next-route";
  if (!DOUBTFUL.has(error.code)) return "stop";
  if (ranOf(error) === "no") return "next-route";
  return (facts.doubtfulBefore ?? 0) === 0 && facts.elapsedMs < DOUBTFUL_WITHIN_MS ? "next-route" : "stop";
}

/**
 * The pause after which the only way is asked once more, milliseconds, or undefined where it is not (reliability 6.2, column three): a busy
 * vendor and a failed connection after a jittered moment, and both a limit and a busy vendor after the wait that the vendor named, where that is short;
 * always within `leftMs`. A busy vendor that names a long one is asked as if it named none: what it says of an overload is a guess. `random` gives 0 up to 1. Pure.
 */
export function pauseBeforeRepeat(error: GatewayError, leftMs: number, random: () => number): number | undefined {
  const wait = waitOf(error, random);
  return wait !== undefined && wait < leftMs ? wait : undefined;
}

function waitOf({ code, retryAfterSeconds }: GatewayError, random: () => number): number | undefined {
  const between = ({ least, most }: { least: number; most: number }) => least + (most - least) * random();
  if (code === "upstream_unreachable") return between(CONNECT_PAUSE_MS);
  const told = (retryAfterSeconds ?? 0) * 1_000;
  const named = told > 0 && told <= MAX_WAIT_MS ? told : undefined;
  if (code === "upstream_overloaded") return Math.max(named ?? 0, between(OVERLOAD_PAUSE_MS));
  return code === "rate_limit_exceeded" ? named : undefined;
}
