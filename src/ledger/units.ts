import type { Store } from "../db/open.ts";
import type { Clock } from "../lib/clock.ts";
import { DAY_MS, startOf } from "../lib/spans.ts";
import {
  type AllowanceState,
  type Claim,
  type ClaimCount,
  type ClaimOrder,
  type ClaimResult,
  LedgerError,
  type UnitKind,
} from "./book.ts";
import { type Entries, HOUSE } from "./entries.ts";
import { type Funds, walletOf } from "./funds.ts";
import type { UsageRow, UsageRows } from "./usage-rows.ts";

/** Units of one claim. */
const MAX_UNITS = 1_000;
/** Claims of one list. */
const MAX_OPEN = 10_000;

type Row = {
  id: string;
  account_id: string;
  key_id: string;
  kind: UnitKind;
  at_ms: bigint;
  units: bigint;
  free: bigint;
  paid: bigint;
  unit_nano: bigint;
  counted: bigint;
  charged: bigint;
  state: "claimed" | "counted" | "returned";
  allowance: bigint;
};

const COLUMNS = "id, account_id, key_id, kind, at_ms, units, free, paid, unit_nano, counted, charged, state, allowance";

const toClaim = (row: Row): Claim => ({
  claimId: row.id,
  accountId: row.account_id,
  keyId: row.key_id,
  kind: row.kind,
  atMs: Number(row.at_ms),
  units: Number(row.units),
  free: Number(row.free),
  paid: Number(row.paid),
  unitNano: row.unit_nano,
});

/** Between which times claims count together, both left out, Unix ms. */
type Period = { after: number; before: number };

/**
 * Which claims count beside one of `now`: images roll over exactly 24 h, web calls begin anew with the UTC day (contract 4). An image that lies a day ahead was
 * claimed by a clock that stood wrong, perhaps by years.
 */
function periodOf(kind: UnitKind, now: number): Period {
  if (kind === "image") return { after: now - DAY_MS, before: now + DAY_MS };
  const begins = startOf(now, DAY_MS);
  return { after: begins - 1, before: begins + DAY_MS };
}

/** Images and web calls: what is free of them, what is held on the wallet, and what became of it (reliability 3.4). */
export class Units {
  readonly #statements;

  constructor(
    store: Store,
    private readonly rows: UsageRows,
    private readonly entries: Entries,
    private readonly funds: Funds,
    private readonly clock: Clock,
  ) {
    const { database } = store;
    this.#statements = {
      used: database.prepare<{ used: bigint }, [string, string, number, number]>(
        `SELECT coalesce(sum(counted), 0) AS used FROM unit_claim
         WHERE account_id = ? AND kind = ? AND at_ms > ? AND at_ms < ?`,
      ),
      // Of images: each claim of them is of one.
      oldest: database.prepare<{ at_ms: bigint }, [string, string, number, number, number]>(
        `SELECT at_ms FROM unit_claim WHERE account_id = ? AND kind = ? AND at_ms > ? AND at_ms < ? AND counted > 0
         ORDER BY at_ms LIMIT 1 OFFSET ?`,
      ),
      find: database.prepare<Row, [string]>(`SELECT ${COLUMNS} FROM unit_claim WHERE id = ?`),
      open: database.prepare<Row, [string, number, number]>(
        `SELECT ${COLUMNS} FROM unit_claim WHERE kind = ? AND state = 'claimed' AND paid >= ? ORDER BY at_ms LIMIT ?`,
      ),
      insert: database.prepare(
        `INSERT INTO unit_claim (id, account_id, key_id, kind, at_ms, units, free, paid, unit_nano, counted, allowance, state)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'claimed')`,
      ),
      resolve: database.prepare(
        "UPDATE unit_claim SET state = ?, counted = ?, charged = ? WHERE id = ? AND state = 'claimed'",
      ),
    };
  }

  /** See `Book.allowance`. */
  allowance(accountId: string, kind: UnitKind, limit: number): AllowanceState {
    const now = this.clock.now();
    const period = periodOf(kind, now);
    const used = this.#used(accountId, kind, period);
    const state = { limit, used, remaining: Math.max(0, limit - used) };
    if (kind === "web") return { ...state, resetsAtMs: period.before };
    // Blocked images count beyond the limit too, and a plan may have become a smaller one: what is too much has to go first.
    const { after, before } = period;
    const oldest = this.#statements.oldest.get(accountId, kind, after, before, Math.max(0, used - limit));
    return { ...state, resetsAtMs: oldest ? Number(oldest.at_ms) + DAY_MS : undefined };
  }

  #used(accountId: string, kind: UnitKind, { after, before }: Period): number {
    return Number(this.#statements.used.get(accountId, kind, after, before)?.used ?? 0n);
  }

  /** See `Book.claimUnits`. */
  claim(order: ClaimOrder): Claim {
    const { claimId, accountId, keyId, kind, units, freeUnits, unitNano } = order;
    if (!Number.isInteger(units) || units < 1 || units > MAX_UNITS) {
      throw new LedgerError("bad_amount", `A claim is for 1 to ${MAX_UNITS} units.`);
    }
    if (this.#statements.find.get(claimId)) throw new LedgerError("claimed", "This claim was made before.");
    const atMs = this.clock.now();
    const left = freeUnits === undefined ? units : freeUnits - this.#used(accountId, kind, periodOf(kind, atMs));
    const free = Math.min(units, Math.max(0, left));
    const paid = units - free;
    if (paid > 0) this.#holdMoney(accountId, paid, unitNano);
    const price = unitNano ?? 0n;
    const allowance = freeUnits ?? 0;
    this.#statements.insert.run(claimId, accountId, keyId, kind, atMs, units, free, paid, price, free, allowance);
    return { claimId, accountId, keyId, kind, atMs, units, free, paid, unitNano: price };
  }

  #holdMoney(accountId: string, paid: number, unitNano: bigint | undefined): void {
    if (unitNano === undefined) {
      throw new LedgerError("allowance_exhausted", "The plan's free units of this period are used up.");
    }
    const nano = BigInt(paid) * unitNano;
    if (nano === 0n || this.funds.holdUnits(walletOf(accountId), nano)) return;
    throw new LedgerError("insufficient", "The plan's free units are used up, and the wallet does not pay for more.");
  }

  /** See `Book.countUnits`. */
  count(order: ClaimCount): ClaimResult {
    const { claimId, used, charge = true, usage, beside } = order;
    const row = this.#find(claimId);
    if (row.state !== "claimed") return earlierResult(row);
    if (!Number.isInteger(used) || used < 0 || used > Number(row.units)) {
      throw new LedgerError("bad_amount", "A claim counts no more units than it has.");
    }
    // The wallet's units are given back first: what is used, is used of the free ones as far as they go.
    const paidUsed = charge ? Math.max(0, used - this.#freeNow(row)) : 0;
    const counted = used - paidUsed;
    const chargedNano = BigInt(paidUsed) * row.unit_nano;
    const costNano = charge && isUnbounded(row) ? BigInt(used) * row.unit_nano : chargedNano;
    this.#close(row, "counted", counted, chargedNano);
    const atMs = this.clock.now();
    const written: UsageRow = {
      ...{ requestId: claimId, accountId: row.account_id, keyId: row.key_id, atMs, stream: false },
      ...{ durationMs: Math.round(usage.durationMs), firstTokenMs: null, dialect: usage.dialect, model: usage.model },
      ...{ vendor: usage.vendor, upstreamModel: usage.upstreamModel, outcome: usage.outcome, finish: null },
      ...{ error: usage.error ?? null, attempts: usage.attempts, estimated: false, priceId: null },
      ...{ input: 0, cacheRead: 0, cacheWrite: 0, cacheWriteLong: 0, output: 0, reasoning: 0, flags: 0 },
      ...{ costNano, chargedNano, units: used },
    };
    this.rows.insert(written);
    if (chargedNano > 0n) {
      this.entries.append({
        ...{ atMs, kind: row.kind, debit: walletOf(row.account_id), credit: HOUSE.revenue, amountNano: chargedNano },
        ...{ owner: row.account_id, requestId: claimId },
      });
    }
    beside?.(chargedNano);
    this.rows.count(written);
    return { counted, costNano, chargedNano, repeated: false };
  }

  /**
   * Units of a claim that are free by now: those it got, and those that others held in its period and gave back, since what failed counts for
   * nothing (interface 8). Units that came free by time alone are the next claim's.
   */
  #freeNow({ account_id, kind, at_ms, free, paid, allowance }: Row): number {
    if (paid === 0n) return Number(free);
    const left = Number(allowance) - this.#used(account_id, kind, periodOf(kind, Number(at_ms)));
    return Number(free) + Math.min(Number(paid), Math.max(0, left));
  }

  /** See `Book.giveBackUnits`. */
  giveBack(claimId: string): ClaimResult {
    const row = this.#find(claimId);
    if (row.state !== "claimed") return earlierResult(row);
    this.#close(row, "returned", 0, 0n);
    return { counted: 0, costNano: 0n, chargedNano: 0n, repeated: false };
  }

  /** See `Book.openClaims`. */
  open(kind: UnitKind, leastPaid: number): Claim[] {
    return this.#statements.open.all(kind, leastPaid, MAX_OPEN).map(toClaim);
  }

  #find(claimId: string): Row {
    const row = this.#statements.find.get(claimId);
    if (!row) throw new LedgerError("no_claim", "There is no such claim.");
    return row;
  }

  #close(row: Row, state: "counted" | "returned", counted: number, chargedNano: bigint): void {
    this.#statements.resolve.run(state, counted, chargedNano, row.id);
    this.funds.freeUnits(walletOf(row.account_id), row.paid * row.unit_nano);
  }
}

/** Units of a plan that bounds none: nobody pays for them, and none is of an allowance. What they cost is told all the same, as it is of tokens. */
const isUnbounded = ({ units, free, allowance }: Row): boolean => free === units && allowance === 0n;

const earlierResult = (row: Row): ClaimResult => ({
  counted: Number(row.counted),
  costNano: row.charged,
  chargedNano: row.charged,
  repeated: true,
});
