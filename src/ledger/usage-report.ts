import { and, asc, eq, gte, type SQL, sql } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Store } from "../db/open.ts";
import { apiKey, usage } from "../db/schema.ts";

/** What rows of usage are put together by. A day is a UTC day. */
export const GROUPINGS = ["day", "model", "key"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export type ReportWish = {
  accountId?: string;
  /** Only what was settled at or after this time, Unix ms. */
  sinceMs?: number;
  groupBy: Grouping;
};

/** What one day, model or key came to. `label` is `YYYY-MM-DD`, a model ID, or a key's name. */
export type ReportRow = {
  group: string;
  label: string;
  requests: number;
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
  /** Requests whose counts are the gateway's own. */
  estimated: number;
};

const GROUP_BY: Readonly<Record<Grouping, SQL<string>>> = {
  day: sql<string>`strftime('%Y-%m-%d', ${usage.atMs} / 1000, 'unixepoch')`,
  model: sql<string>`${usage.model}`,
  key: sql<string>`${usage.keyId}`,
};

const total = (column: AnySQLiteColumn) => sql<number>`sum(${column})`.mapWith(Number);

/** The query behind {@link summarise}. */
export function reportQuery(store: Store, { accountId, sinceMs, groupBy }: ReportWish) {
  const group = GROUP_BY[groupBy];
  const label = groupBy === "key" ? sql<string>`coalesce(max(${apiKey.name}), ${usage.keyId})` : group;
  const inAccount = accountId === undefined ? undefined : eq(usage.accountId, accountId);
  return store.query
    .select({
      group,
      label,
      requests: sql<number>`count(*)`.mapWith(Number),
      input: total(usage.input),
      cacheRead: total(usage.cacheRead),
      cacheWrite: total(usage.cacheWrite),
      output: total(usage.output),
      reasoning: total(usage.reasoning),
      estimated: total(usage.estimated),
    })
    .from(usage)
    .leftJoin(apiKey, eq(apiKey.id, usage.keyId))
    .where(and(gte(usage.atMs, sinceMs ?? 0), inAccount))
    .groupBy(group)
    .orderBy(asc(group));
}

/** Requests and tokens by day, model or key, in that order, for `sluice usage` (contract 1). */
export function summarise(store: Store, wish: ReportWish): ReportRow[] {
  return reportQuery(store, wish).all();
}
