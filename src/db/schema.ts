import { sql } from "drizzle-orm";
import { blob, index, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { flag, nano, whole } from "./columns.ts";

/** Who pays and on what plan (contract 4). */
export const account = sqliteTable(
  "account",
  {
    id: text("id").primaryKey(),
    name: text("name").notNull(),
    plan: text("plan").notNull(),
    createdAt: whole("created_at").notNull(),
  },
  (table) => [uniqueIndex("account_name").on(table.name)],
);

/** What a key is for: calling models, administering, or one narrow purpose (a token that may stand in a path; contract 4). */
export type KeyKind = "api" | "admin" | "token";

/** A key is known by its SHA-256 alone; `prefix` and `last4` are what people tell it by. */
export const apiKey = sqliteTable(
  "api_key",
  {
    hash: blob("hash", { mode: "buffer" }).primaryKey(),
    id: text("id").notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => account.id),
    kind: text("kind").$type<KeyKind>().notNull(),
    name: text("name").notNull(),
    prefix: text("prefix").notNull(),
    last4: text("last4").notNull(),
    createdAt: whole("created_at").notNull(),
    lastUsedAt: whole("last_used_at"),
    revokedAt: whole("revoked_at"),
    /** From then on it is no key any more, Unix ms. */
    expiresAt: whole("expires_at"),
    /** JSON arrays of patterns and of scopes; null: whatever its account may. */
    models: text("models"),
    endpoints: text("endpoints"),
    capDayNano: nano("cap_day_nano"),
    capTotalNano: nano("cap_total_nano"),
    capRequestsDay: whole("cap_requests_day"),
  },
  (table) => [
    uniqueIndex("api_key_id").on(table.id),
    // Keys and tokens are listed apart, oldest first, all of them or an account's, a page at a time.
    index("api_key_list").on(sql`(${table.kind} = 'token')`, table.createdAt, table.id),
    index("api_key_account").on(table.accountId, sql`(${table.kind} = 'token')`, table.createdAt, table.id),
  ],
);

/**
 * One row for each settled request, never changed. It names accounts and keys without a foreign key: it outlives them, and a settle
 * must not wait for a look-up. Its two indices grow at their right edge, because request IDs and times do: an index that begins with
 * the account or the key was measured to nearly double the price of a row.
 */
export const usage = sqliteTable(
  "usage",
  {
    requestId: text("request_id").notNull(),
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    atMs: whole("at_ms").notNull(),
    durationMs: whole("duration_ms").notNull(),
    firstTokenMs: whole("first_token_ms"),
    dialect: text("dialect").notNull(),
    stream: flag("stream").notNull(),
    model: text("model").notNull(),
    vendor: text("vendor").notNull(),
    upstreamModel: text("upstream_model").notNull(),
    outcome: text("outcome").notNull(),
    finish: text("finish"),
    error: text("error"),
    attempts: whole("attempts").notNull(),
    input: whole("input").notNull(),
    cacheRead: whole("cache_read").notNull(),
    cacheWrite: whole("cache_write").notNull(),
    /** The part of it that is kept for longer than usual. */
    cacheWriteLong: whole("cache_write_long").notNull().default(0),
    output: whole("output").notNull(),
    reasoning: whole("reasoning").notNull(),
    estimated: flag("estimated").notNull(),
    /** The price of its time, where one was known; the exact cost at it, and what the account paid of that (0 on plan `local`). */
    priceId: whole("price_id"),
    costNano: nano("cost_nano"),
    chargedNano: nano("charged_nano").notNull().default(0n),
    /** Images made, or web calls counted; 0 for tokens. */
    units: whole("units").notNull().default(0),
    /** Bits, in the order of the ledger's USAGE_FLAGS. */
    flags: whole("flags").notNull().default(0),
  },
  (table) => [uniqueIndex("usage_request").on(table.requestId), index("usage_time").on(table.atMs)],
);
