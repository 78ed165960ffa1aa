import { apiKey, type KeyKind } from "../db/schema.ts";
import type { Caller, Narrowing } from "./caller.ts";
import { type KeyLimits, NO_LIMITS } from "./key-wish.ts";
import { isScope } from "./scopes.ts";

/** A key as lists show it: never the key, never its hash. */
export type KeyRow = KeyLimits & {
  id: string;
  accountId: string;
  kind: KeyKind;
  name: string;
  prefix: string;
  last4: string;
  createdAt: number;
  lastUsedAt: number | null;
  revokedAt: number | null;
};

/** What a key may come to: nano-USD in a UTC day and in all, requests in a UTC day. Counted from when the caps were set. */
export type KeyCaps = Pick<KeyLimits, "capDayNano" | "capTotalNano" | "capRequestsDay">;

/** A key in force, as it stands in memory. */
export type LiveKey = { kind: KeyKind; caller: Caller; expiresAt: number; caps: KeyCaps | undefined };

/** The columns of a {@link StoredRow}. */
export const SHOWN = {
  id: apiKey.id,
  accountId: apiKey.accountId,
  kind: apiKey.kind,
  name: apiKey.name,
  prefix: apiKey.prefix,
  last4: apiKey.last4,
  createdAt: apiKey.createdAt,
  lastUsedAt: apiKey.lastUsedAt,
  revokedAt: apiKey.revokedAt,
  expiresAt: apiKey.expiresAt,
  models: apiKey.models,
  endpoints: apiKey.endpoints,
  capDayNano: apiKey.capDayNano,
  capTotalNano: apiKey.capTotalNano,
  capRequestsDay: apiKey.capRequestsDay,
};

/** A key as its table has it. */
export type StoredRow = Omit<KeyRow, "models" | "endpoints"> & { models: string | null; endpoints: string | null };

function readList(json: string | null): string[] | null {
  const value: unknown = json === null ? null : JSON.parse(json);
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : null;
}

/** A row of the table as everybody else knows it. */
export function toRow(stored: StoredRow): KeyRow {
  // A scope that this version does not know opens nothing here, and closes everything else all the same.
  return { ...stored, models: readList(stored.models), endpoints: readList(stored.endpoints)?.filter(isScope) ?? null };
}

/** A key's limits as the table keeps them. */
export const toColumns = ({ models, endpoints, ...rest }: KeyLimits) => ({
  ...rest,
  models: models === null ? null : JSON.stringify(models),
  endpoints: endpoints === null ? null : JSON.stringify(endpoints),
});

/** Limits that are given laid over those that were: what is absent stays, null takes a limit away. */
export function limitsOf(given: Partial<KeyLimits>, before: KeyLimits = NO_LIMITS): KeyLimits {
  const take = <Name extends keyof KeyLimits>(name: Name): KeyLimits[Name] => {
    const wanted = given[name] as KeyLimits[Name] | undefined;
    return wanted === undefined ? before[name] : wanted;
  };
  return {
    expiresAt: take("expiresAt"),
    models: take("models"),
    endpoints: take("endpoints"),
    capDayNano: take("capDayNano"),
    capTotalNano: take("capTotalNano"),
    capRequestsDay: take("capRequestsDay"),
  };
}

function toCaps({ capDayNano, capTotalNano, capRequestsDay }: KeyCaps): KeyCaps | undefined {
  const none = capDayNano === null && capTotalNano === null && capRequestsDay === null;
  return none ? undefined : { capDayNano, capTotalNano, capRequestsDay };
}

function toNarrowing(limits: KeyLimits): Narrowing | undefined {
  const { models, endpoints } = limits;
  const capped = toCaps(limits) !== undefined;
  if (models === null && endpoints === null && !capped) return undefined;
  return { ...(models && { models }), ...(endpoints && { endpoints }), ...(capped && { capped }) };
}

/** A key of an account on `plan`, ready to be found. */
export function toLive(row: KeyLimits & { id: string; kind: KeyKind; accountId: string }, plan: string): LiveKey {
  const narrow = toNarrowing(row);
  return {
    kind: row.kind,
    caller: { accountId: row.accountId, plan, keyId: row.id, ...(narrow && { narrow }) },
    expiresAt: row.expiresAt ?? Number.POSITIVE_INFINITY,
    caps: toCaps(row),
  };
}
