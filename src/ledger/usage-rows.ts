import { asc, eq } from "drizzle-orm";
import { longWrite, type Usage } from "../canon/usage.ts";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import { usageRound } from "../db/schema-ledger.ts";
import type { Writer } from "../db/writer.ts";
import { type HoldRequest, type Settlement, USAGE_FLAGS, type UsageFlag } from "./ledger.ts";
import { isRoundwise, type Prices } from "./price.ts";
import { Rollup } from "./rollup.ts";

/** The columns of a row, in the order of the statement. */
const COLUMNS = [
  "requestId",
  "accountId",
  "keyId",
  "atMs",
  "durationMs",
  "firstTokenMs",
  "dialect",
  "stream",
  "model",
  "vendor",
  "upstreamModel",
  "outcome",
  "finish",
  "error",
  "attempts",
  "input",
  "cacheRead",
  "cacheWrite",
  "cacheWriteLong",
  "output",
  "reasoning",
  "estimated",
  "priceId",
  "costNano",
  "chargedNano",
  "units",
  "flags",
] as const satisfies readonly (keyof UsageRow)[];

/** A usage row as it is kept. */
export type UsageRow = typeof usage.$inferSelect;

/** What a settled request came to in money. */
export type Billing = Pick<UsageRow, "priceId" | "costNano" | "chargedNano" | "flags">;

/** A set of flags as the table keeps it: a bit for each, in the order of {@link USAGE_FLAGS}. */
export function writeFlags(flags: readonly UsageFlag[]): number {
  return flags.reduce((bits, flag) => bits | (1 << USAGE_FLAGS.indexOf(flag)), 0);
}

/** The flags of a set that {@link writeFlags} wrote. */
export function readFlags(bits: number): UsageFlag[] {
  return USAGE_FLAGS.filter((_, at) => (bits & (1 << at)) !== 0);
}

/** The row of a settled request. */
export function toUsageRow(request: HoldRequest, settlement: Settlement, atMs: number, billing: Billing): UsageRow {
  const { requestId, accountId, keyId, dialect, stream, model } = request;
  const { outcome, vendor, upstreamModel, finish, error, attempts, estimated, firstTokenMs } = settlement;
  const { input, cacheRead, cacheWrite, output, reasoning } = settlement.usage;
  const cacheWriteLong = longWrite(settlement.usage);
  const { priceId, costNano, chargedNano, flags } = billing;
  // Named one by one: spreading five objects costs as much as the insert.
  return {
    requestId,
    accountId,
    keyId,
    atMs,
    durationMs: Math.round(settlement.durationMs),
    firstTokenMs: firstTokenMs === undefined ? null : Math.round(firstTokenMs),
    dialect,
    stream,
    model,
    vendor,
    upstreamModel,
    outcome,
    finish: finish ?? null,
    error: error ?? null,
    attempts,
    input,
    cacheRead,
    cacheWrite,
    cacheWriteLong,
    output,
    reasoning,
    estimated,
    priceId,
    costNano,
    chargedNano,
    units: 0,
    flags,
  };
}

/** What each round of a request came to, where its sum does not say what it cost; undefined for any other. */
export function findRounds(store: Store, requestId: string): Usage[] | undefined {
  const { input, cacheRead, cacheWrite, cacheWriteLong, output, reasoning } = usageRound;
  const rounds = store.query
    .select({ input, cacheRead, cacheWrite, cacheWriteLong, output, reasoning })
    .from(usageRound)
    .where(eq(usageRound.requestId, requestId))
    .orderBy(asc(usageRound.number))
    .all();
  return rounds.length > 0 ? rounds : undefined;
}

/** Writes rows of usage: one for each settled request, never changed (contract 5). */
export class UsageRows {
  readonly #statement;
  readonly #rollup: Rollup;

  /** Run by SQLite itself: mapping placeholders by name for every row costs as much as the insert does, and this statement runs once a request. */
  constructor(
    private readonly store: Store,
    writer: Writer,
  ) {
    this.#rollup = new Rollup(store);
    writer.join(this.#rollup);
    const names = COLUMNS.map((column) => usage[column].name).join(", ");
    const holes = COLUMNS.map(() => "?").join(", ");
    this.#statement = store.database.prepare(`INSERT INTO usage (${names}) VALUES (${holes})`);
  }

  /** Inside an operation of the writer. Throws SQLite's error when the request has a row already. */
  insert(row: UsageRow): void {
    // Named one by one, in the order of COLUMNS: looked up by name for every row they cost as much as half the insert.
    this.#statement.run(
      row.requestId,
      row.accountId,
      row.keyId,
      row.atMs,
      row.durationMs,
      row.firstTokenMs,
      row.dialect,
      row.stream,
      row.model,
      row.vendor,
      row.upstreamModel,
      row.outcome,
      row.finish,
      row.error,
      row.attempts,
      row.input,
      row.cacheRead,
      row.cacheWrite,
      row.cacheWriteLong,
      row.output,
      row.reasoning,
      row.estimated,
      row.priceId,
      row.costNano,
      row.chargedNano,
      row.units,
      row.flags,
    );
  }

  /** Keeps what each round came to where `sum` does not say what they cost. Inside an operation of the writer. */
  keepRounds(requestId: string, sum: Usage, rounds: readonly Usage[], prices: Prices): void {
    if (!isRoundwise(sum, prices, rounds)) return;
    const rows = rounds.map((round, at) => ({ ...round, requestId, number: at + 1 }));
    this.store.query.insert(usageRound).values(rows).run();
  }

  /** Counts a row into the sums. The last thing its operation does: an operation that fails behind it would be counted all the same. */
  count(row: UsageRow): void {
    this.#rollup.add(row);
  }

  /** Writes down what was counted outside of the writer's batches, inside the caller's own transaction. */
  writeSums(): void {
    this.#rollup.write();
  }
}
