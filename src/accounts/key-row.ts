import { apiKey, type KeyKind } from "../db/schema.ts";
import type { Scope } from "../wire/scopes.ts";
import type { Caller, Narrowing } from "./caller.ts";
import { type KeyLimits, NO_LIMITS } from "./key-wish.ts";
import { isScope } from "./scopes.ts";

/** A key as lists show it: never the key itself, never its hash. Times in Unix ms. */
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

/** What a key may use: nano-USD in a UTC day and in all, requests in a UTC day; null for no cap. Counted from when the key got caps, having had none. */
export type KeyCaps = Pick<KeyLimits, "capDayNano" | "capTotalNano" | "capRequestsDay">;

/** A key in force, as it is kept in memory. `expiresAt` is Unix ms, Infinity for a key that does not expire. */
export type LiveKey = { kind: KeyKind; caller: Caller; expiresAt: number; caps: KeyCaps | undefined };

/** The columns of a key's limits. */
const BOUNDS = {
  expiresAt: apiKey.expiresAt,
  models: apiKey.models,
  endpoints: apiKey.endpoints,
  capDayNano: apiKey.capDayNano,
  capTotalNano: apiKey.capTotalNano,
  capRequestsDay: apiKey.capRequestsDay,
};

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
  ...BOUNDS,
};

/** A key as its table has it. */
export type StoredRow = Omit<KeyRow, "models" | "endpoints"> & { models: string | null; endpoints: string | null };

function readList(json: string | null): string[] | null {
  const value: unknown = json === null ? null : JSON.parse(json);
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : null;
}

/** Leaves out scopes that this version does not know. A key that has no others is still narrowed: to nothing. */
function readScopes(json: string | null): Scope[] | null {
  return readList(json)?.filter(isScope) ?? null;
}

/** A row of the table as a {@link KeyRow}: its lists are parsed. */
export function toRow(stored: StoredRow): KeyRow {
  return { ...stored, models: readList(stored.models), endpoints: readScopes(stored.endpoints) };
}

/** A key's limits as the table keeps them. */
export const toColumns = ({ models, endpoints, ...rest }: KeyLimits) => ({
  ...rest,
  models: models === null ? null : JSON.stringify(models),
  endpoints: endpoints === null ? null : JSON.stringify(endpoints),
});

/** The limits `before` with those that are given in their place: an absent one stays as it was, null removes it. */
export function limitsOf(given: Partial<KeyLimits>, before: KeyLimits = NO_LIMITS): KeyLimits {
  const take = <Name extends keyof KeyLimits>(name: Name): KeyLimits[Name] => {
    const wanted = given[name];
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

/** A key's caps; undefined where it has none. */
export function toCaps({ capDayNano, capTotalNano, capRequestsDay }: KeyCaps): KeyCaps | undefined {
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

/** The columns that a key in force is made of, in the order of {@link LiveColumns}. */
export const LIVE = {
  id: apiKey.id,
  accountId: apiKey.accountId,
  kind: apiKey.kind,
  ...BOUNDS,
};

/** A row of {@link LIVE} as the driver returns it: every integer a BigInt. */
export type LiveColumns = [
  id: string,
  accountId: string,
  kind: KeyKind,
  expiresAt: bigint | null,
  models: string | null,
  endpoints: string | null,
  capDayNano: bigint | null,
  capTotalNano: bigint | null,
  capRequestsDay: bigint | null,
];

const toNumber = (value: bigint | null) => (value === null ? null : Number(value));

/** {@link toLive} of a row as the driver returns it. */
export function readLive(columns: LiveColumns, plan: string): LiveKey {
  const [id, accountId, kind, expiresAt, models, endpoints, capDayNano, capTotalNano, capRequestsDay] = columns;
  const row = {
    id,
    accountId,
    kind,
    expiresAt: toNumber(expiresAt),
    models: readList(models),
    endpoints: readScopes(endpoints),
    capDayNano,
    capTotalNano,
    capRequestsDay: toNumber(capRequestsDay),
  };
  return toLive(row, plan);
}
