import { blob, index, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { whole } from "./columns.ts";

/**
 * Requests that carry an Idempotency-Key, and their answers (contract 5, reliability 3.8). Rows live for 24 hours. `body` is compressed:
 * a stream repeats itself in every record.
 */
export const idempotency = sqliteTable(
  "idempotency",
  {
    accountId: text("account_id").notNull(),
    route: text("route").notNull(),
    key: text("key").notNull(),
    /** SHA-256 of method, path and body. */
    fingerprint: blob("fingerprint", { mode: "buffer" }).notNull(),
    state: text("state").$type<"running" | "done">().notNull(),
    /** The process that ran it: a request running in another one was cut off by its end. */
    boot: text("boot").notNull(),
    requestId: text("request_id").notNull(),
    /** Null while it runs. */
    status: whole("status"),
    /** JSON object. */
    headers: text("headers"),
    /** Null: the answer was too large to be kept. */
    body: blob("body", { mode: "buffer" }),
    createdAt: whole("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.route, table.key] }),
    index("idempotency_age").on(table.createdAt),
    index("idempotency_account_age").on(table.accountId, table.createdAt),
  ],
);
