import { blob, index, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { whole } from "./columns.ts";

/**
 * Reasoning of one earlier reply, sealed: what its vendor wants back and its client cannot carry (dialects.md 4.8 #6-#8). It names the
 * account without a foreign key: a request must not wait for a look-up.
 */
export const reasoningState = sqliteTable(
  "reasoning_state",
  {
    id: whole("id").primaryKey(),
    accountId: text("account_id").notNull(),
    expiresAt: whole("expires_at").notNull(),
    bytes: whole("bytes").notNull(),
    sealed: blob("sealed", { mode: "buffer" }).notNull(),
  },
  (table) => [
    index("reasoning_state_expiry").on(table.expiresAt),
    index("reasoning_state_account").on(table.accountId, table.id, table.bytes),
  ],
);

/** Digests under which a state is found again: one for each tool call of its reply, or one for its text. */
export const reasoningKey = sqliteTable(
  "reasoning_key",
  {
    key: text("key").primaryKey(),
    stateId: whole("state_id")
      .notNull()
      .references(() => reasoningState.id, { onDelete: "cascade" }),
  },
  (table) => [index("reasoning_key_state").on(table.stateId)],
);

/** Which family of models made a proof of reasoning that clients bring back by themselves, by the proof's digest (dialects.md 2.9). */
export const reasoningMaker = sqliteTable(
  "reasoning_maker",
  {
    digest: whole("digest").primaryKey(),
    maker: text("maker").notNull(),
    expiresAt: whole("expires_at").notNull(),
  },
  (table) => [index("reasoning_maker_expiry").on(table.expiresAt, table.maker)],
);
