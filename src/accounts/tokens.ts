import { DAY_MS } from "../lib/spans.ts";
import { MAX_TOKEN_DAYS } from "../wire/bounds.ts";
import type { TokenScope } from "../wire/scopes.ts";
import type { Scope } from "./caller.ts";
import type { NewKey } from "./keys.ts";

/** What a token is made with where nothing is said (contract 4). The cap bounds what a token that leaks in a log can use up in a day. */
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
 * A narrow token (`slt-…`, contract 4) as a key that is to be made: a credential for clients that cannot send headers, good for little and for a while; by
 * default for the web tools alone, for 30 days, with 1,000 calls a day. It is kept with the keys and lives by their rules. `now` is Unix ms.
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
