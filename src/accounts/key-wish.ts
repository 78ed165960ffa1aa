import type { KeyKind } from "../db/schema.ts";
import { DAY_MS } from "../lib/spans.ts";
import {
  isAmount,
  MAX_CAP_REQUESTS,
  MAX_PATTERN,
  MAX_PATTERNS,
  MAX_TOKEN_DAYS,
  MAX_USD,
  MODEL_PATTERN,
} from "../wire/bounds.ts";
import { type Scope, TOKEN_SCOPES } from "../wire/scopes.ts";
import { BadWish } from "./account-error.ts";
import { isScope } from "./scopes.ts";

const MODELS = new RegExp(MODEL_PATTERN);

/** The limits of a key; null for one that it does not have. Money in nano-USD, times in Unix ms; a day is a UTC day. */
export type KeyLimits = {
  expiresAt: number | null;
  /** Patterns of the models it may call, `*` for any characters. */
  models: readonly string[] | null;
  endpoints: readonly Scope[] | null;
  capDayNano: bigint | null;
  capTotalNano: bigint | null;
  capRequestsDay: number | null;
};

export const NO_LIMITS: Readonly<KeyLimits> = Object.freeze({
  expiresAt: null,
  models: null,
  endpoints: null,
  capDayNano: null,
  capTotalNano: null,
  capRequestsDay: null,
});

function checkPatterns(patterns: readonly string[]): void {
  const sound = (pattern: string) => pattern.length <= MAX_PATTERN && MODELS.test(pattern);
  if (patterns.length >= 1 && patterns.length <= MAX_PATTERNS && patterns.every(sound)) return;
  throw new BadWish(
    `Models are named by 1 to ${MAX_PATTERNS} IDs such as openai/gpt-5 or patterns such as openai/*, each of at most ${MAX_PATTERN} characters without spaces.`,
  );
}

/** The sentence that says what a cap in USD must be. Not a constant: `toLocaleString` loads the runtime's locales, which would cost each start 3 ms. */
export const capRule = (): string => `A cap in USD is above 0 and at most ${MAX_USD.toLocaleString("en-US")}.`;

function checkCaps({ capDayNano, capTotalNano, capRequestsDay }: KeyLimits): void {
  for (const nano of [capDayNano, capTotalNano]) {
    if (nano !== null && !isAmount(nano)) throw new BadWish(capRule());
  }
  if (capRequestsDay === null) return;
  if (!Number.isInteger(capRequestsDay) || capRequestsDay < 1 || capRequestsDay > MAX_CAP_REQUESTS) {
    throw new BadWish(`A cap in requests is a whole number from 1 to ${MAX_CAP_REQUESTS}.`);
  }
}

function checkToken({ expiresAt, endpoints, models }: KeyLimits, now: number): void {
  if (expiresAt === null || expiresAt > now + MAX_TOKEN_DAYS * DAY_MS) {
    throw new BadWish(`A token expires after ${MAX_TOKEN_DAYS} days at the latest.`);
  }
  const narrow = endpoints?.every((scope) => TOKEN_SCOPES.some((known) => known === scope));
  if (!narrow || models !== null) throw new BadWish(`A token is for ${TOKEN_SCOPES.join(" or ")}, and no more.`);
}

/** Throws BadWish when a key of this kind cannot have these limits; `now` is Unix ms (contract 4). */
export function checkLimits(kind: KeyKind, limits: KeyLimits, now: number): void {
  const { expiresAt, models, endpoints } = limits;
  if (expiresAt !== null && !(Number.isSafeInteger(expiresAt) && expiresAt > now)) {
    throw new BadWish("The time a key expires at lies in the future.", "expires_at");
  }
  if (models) checkPatterns(models);
  if (endpoints && (endpoints.length === 0 || !endpoints.every(isScope))) {
    throw new BadWish("That is not what a key can be narrowed to.");
  }
  checkCaps(limits);
  if (kind === "token") checkToken(limits, now);
  const narrowed = [models, endpoints, limits.capDayNano, limits.capTotalNano, limits.capRequestsDay];
  if (kind === "admin" && narrowed.some((limit) => limit !== null)) {
    throw new BadWish("An admin key calls no model: it can expire, and has no other limits.", "kind");
  }
}
