import { DAY_MS } from "../lib/spans.ts";
import type { Caller, Scope } from "./caller.ts";
import { MAX_TOKEN_DAYS } from "./key-wish.ts";
import type { CreatedKey, KeyRow, Keys, NewKey } from "./keys.ts";
import type { TOKEN_SCOPES } from "./scopes.ts";

/** What a token is made with where nothing is said (contract 4). The cap bounds what a token that leaks in a log can use up in a day. */
export const DEFAULT_TOKEN_DAYS = 30;
const DEFAULT_TOKEN_CALLS = 1_000;

export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** A token to be made. `days`: how long it lives, above 0 and at most 90. `callsPerDay`: its own cap for a UTC day; null for none. */
export type NewToken = {
  accountId: string;
  name: string;
  scopes?: readonly TokenScope[];
  days?: number;
  callsPerDay?: number | null;
};

/** A token as a key that is to be made, with what {@link Tokens.create} says of one of which nothing is said; `now` is Unix ms. */
export function toKey(wanted: Omit<NewToken, "accountId">, now: number): Omit<NewKey, "accountId"> {
  const { name, scopes = ["web"], days = DEFAULT_TOKEN_DAYS, callsPerDay = DEFAULT_TOKEN_CALLS } = wanted;
  return {
    name,
    kind: "token",
    endpoints: [...new Set<Scope>(scopes)],
    expiresAt: Math.round(now + Math.min(days, MAX_TOKEN_DAYS + 1) * DAY_MS),
    capRequestsDay: callsPerDay,
  };
}

/**
 * Narrow tokens (`slt-…`, contract 4): credentials for clients that cannot send headers, good for little and for a while. They are kept
 * with the keys and live by the same rules: only a hash is stored, and revoking counts on the next request.
 */
export class Tokens {
  constructor(
    private readonly keys: Keys,
    private readonly now: () => number = Date.now,
  ) {}

  /**
   * Makes a token for an account, by default for the web tools alone, for 30 days, with 1,000 calls a day. Throws AccountError when
   * there is no such account, or for a name, scopes, days or a cap that cannot be.
   */
  create({ accountId, ...wanted }: NewToken): Promise<CreatedKey> {
    return this.keys.create({ accountId, ...toKey(wanted, this.now()) });
  }

  /** All tokens or those of one account, revoked and expired ones included, oldest first. */
  list(accountId?: string): KeyRow[] {
    return this.keys.listTokens(accountId);
  }

  /** Revokes the token that `name` means, as `Keys.revoke` does a key. */
  revoke(name: string): Promise<KeyRow> {
    return this.keys.revoke(name);
  }

  /** Who presents this token; undefined when it is none in force. What it may do is its caller's `narrow.endpoints`. */
  find(presented: string): Caller | undefined {
    return this.keys.find(presented, "token");
  }
}
