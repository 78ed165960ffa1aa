import { DAY_MS } from "../lib/spans.ts";
import { MAX_TOKEN_DAYS } from "../wire/bounds.ts";
import type { Scope, TokenScope } from "../wire/scopes.ts";
import type { NewKey } from "./keys.ts";

/** A token's lifetime in days, and its cap in requests of a UTC day, where none is given (contract 4). The cap bounds the use of a token that leaked in a log. */
export const DEFAULT_TOKEN_DAYS = 30;
const DEFAULT_TOKEN_CALLS = 1_000;

/** A token to be made. `days`: how long it lives, above 0 and at most {@link MAX_TOKEN_DAYS}. `callsPerDay`: its own cap for a UTC day; null for none. */
export type NewToken = {
  name: string;
  scopes?: readonly TokenScope[];
  days?: number;
  callsPerDay?: number | null;
};

/**
 * A narrow token (`slt-…`, contract 4) as a key to be made: a credential for clients that cannot send headers, which may do little and soon expires; by
 * default it is for the web tools alone, for 30 days, with 1,000 calls a day. It is kept with the keys, by the same rules. `now` is Unix ms.
 */
export function toKey(wanted: NewToken, now: number): Omit<NewKey, "accountId"> {
  const { name, scopes = ["web"], days = DEFAULT_TOKEN_DAYS, callsPerDay = DEFAULT_TOKEN_CALLS } = wanted;
  return {
    name,
    kind: "token",
    endpoints: [...new Set<Scope>(scopes)],
    expiresAt: Math.round(now + Math.min(days, MAX_TOKEN_DAYS + 1) * DAY_MS),
    capRequestsDay: callsPerDay,
  };
}
