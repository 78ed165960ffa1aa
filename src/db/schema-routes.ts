import { primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { whole } from "./columns.ts";

/** A call to a vendor, of a request that took more than one. `key`: which of the vendor's keys, from 0. */
export const attempt = sqliteTable(
  "attempt",
  {
    requestId: text("request_id").notNull(),
    number: whole("number").notNull(),
    vendor: text("vendor").notNull(),
    model: text("model").notNull(),
    key: whole("key").notNull(),
    outcome: text("outcome").notNull(),
    durationMs: whole("duration_ms").notNull(),
  },
  (table) => [primaryKey({ columns: [table.requestId, table.number] })],
);
