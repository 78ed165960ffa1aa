import { setImmediate } from "node:timers/promises";
import { inArray, sql } from "drizzle-orm";
import { GatewayError } from "../canon/errors.ts";
import type { Store } from "../db/open.ts";
import { account, apiKey } from "../db/schema.ts";
import { usageKept, usageRollup } from "../db/schema-rollup.ts";
import { DAY_MS, HOUR_MS } from "../lib/spans.ts";
import { COUNTS, noTotals, type Totals } from "./rollup.ts";
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

/** Rows or sums that are read in one go, some ms of everybody's time: then all others have a turn of the event loop. */
const SLICE = 1_000;

type Values = Readonly<Record<string, number | string | undefined>>;

/** A table as a report reads it. Slices are cut by the order of an index, in which no two rows are at one place. */
type Reading = {
  from: string;
  /** The columns of that order, a time first; and the lowest place at a time. */
  order: readonly string[];
  lowest: readonly (number | string)[];
  /** What is summed up, in the order of {@link COUNTS}, then money. */
  sums: readonly string[];
  /** Columns by whose values the index finds rows, and those by which rows that were found are left out. */
  found: Values;
  kept: Values;
};

const MONEY = ["coalesce(sum(cost_nano), 0)", "coalesce(sum(charged_nano), 0)"];
const SUMS = COUNTS.map((count) => `sum(${usageRollup[count].name})`);
/** A row counts as one request, and has no column for those without a price. */
const ROW_SUMS = ["count(*)", "sum(estimated)", "sum(cost_nano is null)", ...SUMS.slice(3)];

/** Without statistics SQLite takes the primary key even where one account is asked for, and reads all the others along. */
export const SUMS_OF_ACCOUNT = "usage_rollup indexed by usage_rollup_account";

/** Sums of one length. */
export function ofSums(spanMs: number, { accountId, keyId, model }: UsageFilter): Reading {
  const rest = { sums: [...SUMS, ...MONEY], found: { span_ms: spanMs }, kept: { key_id: keyId, model } };
  if (accountId === undefined) {
    const order = ["start_ms", "account_id", "key_id", "model"];
    return { ...rest, from: "usage_rollup", order, lowest: ["", "", ""] };
  }
  const found = { account_id: accountId, span_ms: spanMs };
  return { ...rest, from: SUMS_OF_ACCOUNT, order: ["start_ms", "key_id", "model"], lowest: ["", ""], found };
}

/** Single rows: for the rest of an hour. */
export function ofRows({ accountId, keyId, model }: UsageFilter): Reading {
  const kept = { account_id: accountId, key_id: keyId, model };
  return { from: "usage", order: ["at_ms", "rowid"], lowest: [0], sums: [...ROW_SUMS, ...MONEY], found: {}, kept };
}

const GROUPS = { model: "model", key: "key_id", account: "account_id" } as const;

/**
 * How a slice is read, with what is asked for and two places as values: where it ends, which is the place of the first row behind it, left-out ones counted;
 * and the sums of its groups.
 */
export function sliceStatements({ from, order, sums, found, kept }: Reading, groupBy: Grouping) {
  const named = (values: Values) => Object.keys(values).filter((column) => values[column] !== undefined);
  const place = `(${order.join(", ")})`;
  const given = `(${order.map(() => "?").join(", ")})`;
  const equal = (columns: readonly string[]) => columns.map((column) => `${column} = ?`);
  const within = [...equal(named(found)), `${place} >= ${given}`, `${place} < ${given}`];
  const wanted = [...within, ...equal(named(kept))].join(" and ");
  const group = groupBy === "day" ? `${order[0]} / ${DAY_MS}` : GROUPS[groupBy];
  const columns = order.join(", ");
  return {
    end: `select ${columns} from ${from} where ${within.join(" and ")} order by ${columns} limit 1 offset ${SLICE}`,
    sums: `select ${group}, ${sums.join(", ")} from ${from} where ${wanted} group by 1`,
    found: named(found).map((column) => found[column] ?? null),
    kept: named(kept).map((column) => kept[column] ?? null),
  };
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
  const sum = noTotals();
  for (const row of rows) addTotals(sum, row);
  return sum;
}

/** The sums of a group, which are in the order of {@link Reading.sums}. */
function toTotals(sums: readonly bigint[]): Totals {
  const counts = Object.fromEntries(COUNTS.map((name, at) => [name, Number(sums[at])]));
  const [costNano = 0n, chargedNano = 0n] = sums.slice(COUNTS.length);
  return { ...(counts as Record<(typeof COUNTS)[number], number>), costNano, chargedNano };
}

/** Lets others have their turn. Throws GatewayError where nobody waits for the rest any more. */
async function giveWay(signal: AbortSignal | undefined): Promise<void> {
  await setImmediate();
  if (signal?.aborted) throw new GatewayError("invalid_request", "The client left.");
}

/** A report in the making. */
type Summing = {
  store: Store;
  groupBy: Grouping;
  /** What was found so far, by group. */
  found: Map<string, Totals>;
  /** Ends when nobody waits for the report any more. */
  signal: AbortSignal | undefined;
};

/** Adds what a reading has of these times to what was found before. Throws GatewayError (invalid_request) where nobody waits for it any more. */
async function addUp(summing: Summing, reading: Reading, ranges: readonly Range[]): Promise<void> {
  const { groupBy, found, signal } = summing;
  const { database } = summing.store;
  const statements = sliceStatements(reading, groupBy);
  const readEnd = database.query(statements.end);
  const readSums = database.query(statements.sums);
  for (const { fromMs, toMs } of ranges) {
    const end = [toMs, ...reading.lowest];
    for (let place: unknown[] | undefined = [fromMs, ...reading.lowest]; place; ) {
      const given = (to: readonly unknown[]) => [...statements.found, ...(place as []), ...(to as [])];
      const next = readEnd.values(...given(end))[0];
      const slice = readSums.values(...given(next ?? end), ...statements.kept);
      for (const [group, ...sums] of slice as [string | bigint, ...bigint[]][]) {
        const name = String(group);
        const sum = found.get(name);
        if (sum) addTotals(sum, toTotals(sums));
        else found.set(name, toTotals(sums));
      }
      if (next) await giveWay(signal);
      place = next;
    }
  }
}

/** The names of these groups, where they have any: as many of a list in JSON at a time as of a slice. */
async function readNames(
  store: Store,
  grouping: Grouping,
  groups: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  if (grouping !== "key" && grouping !== "account") return names;
  const table = grouping === "key" ? apiKey : account;
  for (let at = 0; at < groups.length; at += SLICE) {
    if (at > 0) await setImmediate();
    const wanted = sql`(SELECT value FROM json_each(${JSON.stringify(groups.slice(at, at + SLICE))}))`;
    const rows = store.query.select({ id: table.id, name: table.name }).from(table).where(inArray(table.id, wanted));
    for (const { id, name } of rows.all()) names.set(id, name);
  }
  return names;
}

/**
 * Usage put together by day, model, key or account, in that order (contract 3). Read from the sums, so that it takes no longer when there are
 * millions of rows; only the first and the last hour of the time asked for are read row by row. Sums are many too where keys are: they are read a
 * slice at a time, and others are served in between. Throws GatewayError (invalid_request) where `signal` is aborted by then.
 */
export async function summarise(store: Store, wish: ReportWish, signal?: AbortSignal): Promise<ReportRow[]> {
  const range = { fromMs: Math.max(0, wish.sinceMs ?? 0), toMs: Math.min(END_OF_TIME, wish.untilMs ?? END_OF_TIME) };
  const kept = readKept(store);
  const { days, hours, rows } = cutRange(range, kept);
  const found = new Map<string, Totals>();
  const summing = { store, groupBy: wish.groupBy, found, signal };
  await addUp(summing, ofSums(DAY_MS, wish), days);
  await addUp(summing, ofSums(HOUR_MS, wish), hours);
  await addUp(summing, ofRows(wish), rows);
  // Once a day some rows and hours go: a part of those that were to be read may be gone.
  const { rowsFromMs, hoursFromMs } = readKept(store);
  if (rowsFromMs !== kept.rowsFromMs || hoursFromMs !== kept.hoursFromMs) return summarise(store, wish, signal);
  const names = await readNames(store, wish.groupBy, [...found.keys()]);
  const show = (group: string) => (wish.groupBy === "day" ? toDay(group) : group);
  return [...found]
    .map(([key, totals]) => ({ group: show(key), label: names.get(key) ?? show(key), ...totals }))
    .sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
}

/** Days since 1970 as `YYYY-MM-DD`. */
const toDay = (days: string) => new Date(Number(days) * DAY_MS).toISOString().slice(0, 10);
