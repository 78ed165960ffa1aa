import { and, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import { usageRollup } from "../db/schema-rollup.ts";
import { DAY_MS, HOUR_MS } from "../lib/spans.ts";
import { END_OF_TIME, type Kept, type Range } from "./rollup-range.ts";
import { readKept, SUMS_OF_ACCOUNT, type UsageFilter } from "./usage-report.ts";
import type { UsageRow } from "./usage-rows.ts";

/** Where a page ended: the next one begins below this row. `requestId` "" stands below every row of its millisecond. */
export type Place = { atMs: number; requestId: string };

/** `next` undefined: nothing follows. A page may hold fewer rows than asked for, even none, and still have a next one. */
export type UsagePage = { rows: UsageRow[]; next: Place | undefined };

/** Looking for the few rows of one account among those of many may take this much of the processor; the next page goes on from there, ms. */
const SEARCH_MS = 25;

/** What this process has taken of its processors, ms: a machine that is busy with other things makes no page any shorter. */
function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Conditions on the rows or on the sums. */
const filterOf = (
  table: typeof usage | typeof usageRollup,
  { accountId, keyId, model }: UsageFilter,
): (SQL | undefined)[] => [
  accountId === undefined ? undefined : eq(table.accountId, accountId),
  keyId === undefined ? undefined : eq(table.keyId, keyId),
  model === undefined ? undefined : eq(table.model, model),
];

/** The newest rows of a time that lie below `place`, newest first. */
function readRows(store: Store, { fromMs, toMs }: Range, filter: UsageFilter, place: Place, limit: number): UsageRow[] {
  const below = or(lt(usage.atMs, place.atMs), lt(usage.requestId, place.requestId));
  return store.query
    .select()
    .from(usage)
    .where(
      and(gte(usage.atMs, fromMs), lt(usage.atMs, Math.min(toMs, place.atMs + 1)), below, ...filterOf(usage, filter)),
    )
    .orderBy(desc(usage.atMs), desc(usage.requestId))
    .limit(limit)
    .all();
}

/** The newest hour or day that has rows of the filter and begins before `beforeMs`; the sums know it. */
function findSpan(store: Store, spanMs: number, beforeMs: number, filter: UsageFilter): number | undefined {
  const { startMs } = usageRollup;
  return store.query
    .select({ startMs: sql<number>`${startMs}`.mapWith(Number) })
    .from(filter.accountId === undefined ? usageRollup : sql.raw(SUMS_OF_ACCOUNT))
    .where(and(eq(usageRollup.spanMs, spanMs), lt(startMs, beforeMs), ...filterOf(usageRollup, filter)))
    .orderBy(desc(startMs))
    .limit(1)
    .get()?.startMs;
}

/** The newest time before `beforeMs` that may have rows of the filter. */
function findRange(store: Store, beforeMs: number, filter: UsageFilter, { hoursFromMs }: Kept): Range | undefined {
  const hour = beforeMs > hoursFromMs ? findSpan(store, HOUR_MS, beforeMs, filter) : undefined;
  if (hour !== undefined && hour >= hoursFromMs) return { fromMs: hour, toMs: Math.min(hour + HOUR_MS, beforeMs) };
  const end = Math.min(beforeMs, Math.max(hoursFromMs, 0));
  const day = findSpan(store, DAY_MS, end, filter);
  return day === undefined ? undefined : { fromMs: day, toMs: Math.min(day + DAY_MS, end) };
}

/**
 * One page of usage rows, newest first, from `after` on (contract 3). There is no index by account, as it would nearly double the price of writing a
 * row: the sums tell which hours have rows, and only those are read.
 */
export function readUsagePage(
  store: Store,
  filter: UsageFilter,
  { limit, after }: { limit: number; after?: Place | undefined },
  spentMs: () => number = usedMs,
): UsagePage {
  const kept = readKept(store);
  const fromMs = Math.max(filter.sinceMs ?? 0, kept.rowsFromMs);
  const until = Math.min(filter.untilMs ?? END_OF_TIME, END_OF_TIME);
  const place = after ?? { atMs: until, requestId: "" };
  const stopAt = spentMs() + SEARCH_MS;
  const rows: UsageRow[] = [];
  let beforeMs = Math.min(until, place.atMs + 1);
  while (rows.length <= limit) {
    const range = findRange(store, beforeMs, filter, kept);
    if (!range || range.toMs <= fromMs) return { rows, next: undefined };
    const piece = { fromMs: Math.max(range.fromMs, fromMs), toMs: range.toMs };
    rows.push(...readRows(store, piece, filter, place, limit + 1 - rows.length));
    beforeMs = range.fromMs;
    if (rows.length <= limit && spentMs() >= stopAt) return { rows, next: { atMs: range.fromMs, requestId: "" } };
  }
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return { rows: shown, next: last && { atMs: last.atMs, requestId: last.requestId } };
}
