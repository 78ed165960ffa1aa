import type { Account } from "../../accounts/accounts.ts";
import type { KeyRow } from "../../accounts/key-row.ts";
import type { CreatedKey } from "../../accounts/keys.ts";
import type { LedgerEntry, Posted } from "../../ledger/book.ts";
import { formatUsd } from "../../ledger/price.ts";
import { toUsd } from "../../lib/usd.ts";
import type { VendorRecord } from "../../vendors/health.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import { isoOrNull, toIso } from "../usage/shape.ts";

const usdOrNull = (nano: bigint | null) => (nano === null ? null : toUsd(nano));

/** An account in a list. */
export const toAccountEntry = ({ id, name, plan, createdAt }: Account) => ({
  object: "account" as const,
  id,
  name,
  plan,
  created: Math.floor(createdAt / 1_000),
});

/** A key or token as lists show it: never itself, never its hash. */
export const toKeyView = (row: KeyRow) => ({
  object: row.kind === "token" ? ("token" as const) : ("key" as const),
  id: row.id,
  account: row.accountId,
  kind: row.kind,
  name: row.name,
  prefix: row.prefix,
  last4: row.last4,
  created_at: toIso(row.createdAt),
  last_used_at: isoOrNull(row.lastUsedAt),
  revoked_at: isoOrNull(row.revokedAt),
  expires_at: isoOrNull(row.expiresAt),
  models: row.models,
  endpoints: row.endpoints,
  cap_day_usd: usdOrNull(row.capDayNano),
  cap_total_usd: usdOrNull(row.capTotalNano),
  cap_requests_day: row.capRequestsDay,
});

/** A key or token just made, with the key itself, this once. */
export const toCreatedKey = (created: CreatedKey) => ({ ...toKeyView(created), key: created.key });

/** A transfer of the ledger. */
export const toEntryView = (entry: LedgerEntry) => ({
  object: "ledger.entry" as const,
  seq: entry.seq,
  at: toIso(entry.atMs),
  kind: entry.kind,
  debit: entry.debit,
  credit: entry.credit,
  amount: formatUsd(entry.amountNano),
  request_id: entry.requestId,
  reference: entry.reference,
  detail: entry.detail,
});

/** What a deposit came to. */
export const toPostedView = ({ entry, repeated }: Posted) => ({ ...toEntryView(entry), repeated });

/** A vendor and how it fared since the start; nothing of its key. */
export function toVendorView({ id, name, dialect, baseUrl }: Vendor, record: VendorRecord) {
  const used = record.served + record.failed > 0;
  return {
    object: "vendor" as const,
    id,
    name,
    dialect,
    host: URL.canParse(baseUrl) ? new URL(baseUrl).host : "",
    state: used ? (record.failingSince === undefined ? "ok" : "failing") : "unused",
    served: record.served,
    failed: record.failed,
    failing_since: isoOrNull(record.failingSince),
    last_served_at: isoOrNull(record.lastServedAt),
    last_failed_at: isoOrNull(record.lastFailedAt),
    last_error: record.lastError ?? null,
  };
}
