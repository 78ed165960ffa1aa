import { and, eq, gte, inArray, lt, type SQL, sql } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Store } from "../db/open.ts";
import { account, apiKey, usage } from "../db/schema.ts";
import { usageKept, usageRollup } from "../db/schema-rollup.ts";
import { DAY_MS, HOUR_MS } from "../lib/spans.ts";
import { COUNTS, type Totals } from "./rollup.ts";
import { cutRange, END_OF_TIME, type Kept, type Range } from "./rollup-range.ts";

/** What usage is put together by. A day is a UTC day. */
export const GROUPINGS = ["day", "model", "key", "account"] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** Which usage is meant. Times in Unix ms: from `sinceMs`, before `untilMs`. */
export type UsageFilter = {
  accountId?: string | undefined;
  keyId?: string | undefined;
  model?: string | undefined;
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
};

export type ReportWish = UsageFilter & { groupBy: Grouping };

/** What one day, model, key or account came to. `label` is `YYYY-MM-DD`, a model ID, or the name of the key or account. */
export type ReportRow = { group: string; label: string } & Totals;

const count = (expression: SQL) => expression.mapWith(Number);
const total = (column: AnySQLiteColumn) => count(sql`sum(${column})`);
const money = (column: AnySQLiteColumn) => sql<bigint>`coalesce(sum(${column}), 0)`;

const dayOf = (column: AnySQLiteColumn) => sql`${column} / ${sql.raw(String(DAY_MS))}`;

/** The columns that both tables have under one name. */
type Source = typeof usage | typeof usageRollup;

const groupOf = (source: Source, time: AnySQLiteColumn, grouping: Grouping): SQL<string> => {
  const columns = { model: source.model, key: source.keyId, account: source.accountId };
  return grouping === "day" ? sql<string>`${dayOf(time)}`.mapWith(String) : sql<string>`${columns[grouping]}`;
};

const filterOf = (source: Source, { accountId, keyId, model }: UsageFilter) => [
  accountId === undefined ? undefined : eq(source.accountId, accountId),
  keyId === undefined ? undefined : eq(source.keyId, keyId),
  model === undefined ? undefined : eq(source.model, model),
];

const tokens = (source: Source) => ({
  input: total(source.input),
  cacheRead: total(source.cacheRead),
  cacheWrite: total(source.cacheWrite),
  output: total(source.output),
  reasoning: total(source.reasoning),
  units: total(source.units),
  costNano: money(source.costNano),
  chargedNano: money(source.chargedNano),
});

/** Without statistics SQLite takes the primary key even where one account is asked for, and reads all the others along. */
export function rollupOf({ accountId }: UsageFilter) {
  return accountId === undefined ? usageRollup : sql`${usageRollup} INDEXED BY usage_rollup_account`;
}

/** The query over sums of one length. */
export function rollupQuery(store: Store, spanMs: number, { fromMs, toMs }: Range, wish: ReportWish) {
  const group = groupOf(usageRollup, usageRollup.startMs, wish.groupBy);
  return store.query
    .select({
      group,
      requests: total(usageRollup.requests),
      estimated: total(usageRollup.estimated),
      unpriced: total(usageRollup.unpriced),
      ...tokens(usageRollup),
    })
    .from(rollupOf(wish))
    .where(
      and(
        eq(usageRollup.spanMs, spanMs),
        gte(usageRollup.startMs, fromMs),
        lt(usageRollup.startMs, toMs),
        ...filterOf(usageRollup, wish),
      ),
    )
    .groupBy(group);
}

/** The query over single rows: for the rest of an hour. */
export function rowsQuery(store: Store, { fromMs, toMs }: Range, wish: ReportWish) {
  const group = groupOf(usage, usage.atMs, wish.groupBy);
  return store.query
    .select({
      group,
      requests: count(sql`count(*)`),
      estimated: total(usage.estimated),
      unpriced: count(sql`sum(${usage.costNano} IS NULL)`),
      ...tokens(usage),
    })
    .from(usage)
    .where(and(gte(usage.atMs, fromMs), lt(usage.atMs, toMs), ...filterOf(usage, wish)))
    .groupBy(group);
}

/** How far back rows and hours are kept in this store. */
export function readKept(store: Store): Kept {
  return store.query.select().from(usageKept).get() ?? { rowsFromMs: 0, hoursFromMs: 0 };
}

function addTotals(sum: Totals, more: Totals): void {
  for (const name of COUNTS) sum[name] += more[name];
  sum.costNano += more.costNano;
  sum.chargedNano += more.chargedNano;
}

/** All of these rows together. */
export function sumUp(rows: readonly Totals[]): Totals {
  const counts = { requests: 0, estimated: 0, unpriced: 0, input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };
  const sum: Totals = { ...counts, reasoning: 0, units: 0, costNano: 0n, chargedNano: 0n };
  for (const row of rows) addTotals(sum, row);
  return sum;
}

/** The names of these groups, where they have any. As one list in JSON: a statement takes only so many parameters. */
function readNames(store: Store, grouping: Grouping, groups: readonly string[]): ReadonlyMap<string, string> {
  if (grouping !== "key" && grouping !== "account") return new Map();
  const table = grouping === "key" ? apiKey : account;
  const wanted = sql`(SELECT value FROM json_each(${JSON.stringify(groups)}))`;
  const rows = store.query
    .select({ id: table.id, name: table.name })
    .from(table)
    .where(inArray(table.id, wanted))
    .all();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/**
 * Usage put together by day, model, key or account, in that order (contract 3). Read from the sums, so that it takes no longer when there are
 * millions of rows; only the first and the last hour of the time asked for are read row by row.
 */
export function summarise(store: Store, wish: ReportWish): ReportRow[] {
  const range = { fromMs: Math.max(0, wish.sinceMs ?? 0), toMs: Math.min(END_OF_TIME, wish.untilMs ?? END_OF_TIME) };
  const { days, hours, rows } = cutRange(range, readKept(store));
  const found = new Map<string, Totals>();
  const pieces = [
    ...days.map((piece) => rollupQuery(store, DAY_MS, piece, wish)),
    ...hours.map((piece) => rollupQuery(store, HOUR_MS, piece, wish)),
    ...rows.map((piece) => rowsQuery(store, piece, wish)),
  ];
  for (const piece of pieces) {
    for (const { group, ...totals } of piece.all()) {
      const sum = found.get(group);
      if (sum) addTotals(sum, totals);
      else found.set(group, totals);
    }
  }
  const names = readNames(store, wish.groupBy, [...found.keys()]);
  const show = (group: string) => (wish.groupBy === "day" ? toDay(group) : group);
  return [...found]
    .map(([key, totals]) => ({ group: show(key), label: names.get(key) ?? show(key), ...totals }))
    .sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
}

/** Days since 1970 as `YYYY-MM-DD`. */
const toDay = (days: string) => new Date(Number(days) * DAY_MS).toISOString().slice(0, 10);
