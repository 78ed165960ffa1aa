import { index, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { nano, whole } from "./columns.ts";

/**
 * Sums of usage by day and by hour, for each account, key and model: what a report reads instead of the rows (contract 3). They are written in
 * the transaction of the rows they sum up, so they never differ from them. The index is touched only when a row is new.
 */
export const usageRollup = sqliteTable(
  "usage_rollup",
  {
    /** Length of the time summed up, ms: a day or an hour, UTC. */
    spanMs: whole("span_ms").notNull(),
    startMs: whole("start_ms").notNull(),
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    model: text("model").notNull(),
    requests: whole("requests").notNull(),
    estimated: whole("estimated").notNull(),
    /** Requests whose model had no known price. */
    unpriced: whole("unpriced").notNull(),
    input: whole("input").notNull(),
    cacheRead: whole("cache_read").notNull(),
    cacheWrite: whole("cache_write").notNull(),
    output: whole("output").notNull(),
    reasoning: whole("reasoning").notNull(),
    units: whole("units").notNull(),
    costNano: nano("cost_nano").notNull(),
    chargedNano: nano("charged_nano").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.spanMs, table.startMs, table.accountId, table.keyId, table.model] }),
    index("usage_rollup_account").on(table.accountId, table.spanMs, table.startMs),
  ],
);

/** One row: how far back single requests and sums by hour are kept, Unix ms. Sums by day are kept for good. */
export const usageKept = sqliteTable("usage_kept", {
  id: whole("id").primaryKey(),
  rowsFromMs: whole("rows_from_ms").notNull(),
  hoursFromMs: whole("hours_from_ms").notNull(),
});
