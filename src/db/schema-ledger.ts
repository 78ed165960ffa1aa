import { blob, index, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { flag, nano, whole } from "./columns.ts";

/** What holds money: an account's wallet, one spending window of its plan, or one of the house's own books. `posted` is kept by a trigger. */
export const ledgerAccount = sqliteTable(
  "ledger_account",
  {
    id: text("id").primaryKey(),
    kind: text("kind").$type<"wallet" | "window" | "house">().notNull(),
    owner: text("owner"),
    posted: nano("posted").notNull(),
    /** Set aside for units (images, web calls). What is set aside for tokens is known to the running server alone. */
    held: nano("held").notNull(),
    grantNano: nano("grant_nano"),
    startsAt: whole("starts_at"),
    endsAt: whole("ends_at"),
  },
  (table) => [index("ledger_account_window").on(table.owner, table.endsAt)],
);

/** Append-only; one row is one transfer, so the books balance by construction (reliability 3.2). */
export const ledgerEntry = sqliteTable(
  "ledger_entry",
  {
    seq: whole("seq").primaryKey(),
    atMs: whole("at_ms").notNull(),
    kind: text("kind").notNull(),
    debit: text("debit").notNull(),
    credit: text("credit").notNull(),
    amount: nano("amount").notNull(),
    owner: text("owner"),
    requestId: text("request_id"),
    reference: text("reference"),
    detail: text("detail"),
    hash: blob("hash", { mode: "buffer" }).notNull(),
  },
  (table) => [
    uniqueIndex("ledger_entry_once").on(table.requestId, table.kind, table.debit),
    uniqueIndex("ledger_entry_reference").on(table.reference),
    index("ledger_entry_owner").on(table.owner, table.seq),
  ],
);

/** A paid request under way, written down for the case of a crash (reliability 3.7). */
export const ledgerHold = sqliteTable("ledger_hold", {
  requestId: text("request_id").primaryKey(),
  boot: text("boot").notNull(),
  accountId: text("account_id").notNull(),
  keyId: text("key_id").notNull(),
  dialect: text("dialect").notNull(),
  stream: flag("stream").notNull(),
  model: text("model").notNull(),
  vendor: text("vendor").notNull(),
  upstreamModel: text("upstream_model").notNull(),
  windowId: text("window_id"),
  windowNano: nano("window_nano").notNull(),
  walletNano: nano("wallet_nano").notNull(),
  priceId: whole("price_id").notNull(),
  estimatedInput: whole("estimated_input").notNull(),
  seenOutput: whole("seen_output").notNull(),
  createdAt: whole("created_at").notNull(),
  deadlineAt: whole("deadline_at").notNull(),
});

/** Units that one image, or one call of a web tool, takes from its account: from the plan's allowance first, and then from its money. */
export const unitClaim = sqliteTable(
  "unit_claim",
  {
    id: text("id").primaryKey(),
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    kind: text("kind").$type<"image" | "web">().notNull(),
    atMs: whole("at_ms").notNull(),
    units: whole("units").notNull(),
    free: whole("free").notNull(),
    paid: whole("paid").notNull(),
    unitNano: nano("unit_nano").notNull(),
    /** Units that count against the allowance, now or for good. */
    counted: whole("counted").notNull(),
    charged: nano("charged").notNull(),
    state: text("state").$type<"claimed" | "counted" | "returned">().notNull(),
    /** Free units of the plan at the claim; 0 where all were free. */
    allowance: whole("allowance").notNull().default(0),
  },
  (table) => [
    index("unit_claim_allowance").on(table.accountId, table.kind, table.atMs, table.counted),
    index("unit_claim_open").on(table.kind, table.atMs),
  ],
);

/** Tokens of each vendor call of one reply, where it took several calls and the rates differ with a prompt's length: its cost is the sum of their costs. */
export const usageRound = sqliteTable(
  "usage_round",
  {
    requestId: text("request_id").notNull(),
    number: whole("number").notNull(),
    input: whole("input").notNull(),
    cacheRead: whole("cache_read").notNull(),
    cacheWrite: whole("cache_write").notNull(),
    cacheWriteLong: whole("cache_write_long").notNull().default(0),
    output: whole("output").notNull(),
    reasoning: whole("reasoning").notNull(),
  },
  (table) => [primaryKey({ columns: [table.requestId, table.number] })],
);

/** Prices as they were when requests used them: a changed price is a new row (contract 5). */
export const price = sqliteTable(
  "price",
  {
    id: whole("id").primaryKey(),
    model: text("model").notNull(),
    sinceMs: whole("since_ms").notNull(),
    input: nano("input").notNull(),
    output: nano("output").notNull(),
    cacheRead: nano("cache_read"),
    cacheWrite: nano("cache_write"),
    cacheWriteLong: nano("cache_write_long"),
    tiers: text("tiers").notNull(),
  },
  (table) => [index("price_model").on(table.model, table.id)],
);
