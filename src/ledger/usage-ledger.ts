import { sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { isObject } from "../lib/json.ts";
import type { Hold, HoldRequest, Ledger, Settlement } from "./ledger.ts";
import { type Counted, Rollup } from "./rollup.ts";

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
  "output",
  "reasoning",
  "estimated",
] as const;

/**
 * The insert as drizzle writes it, run by SQLite itself: mapping placeholders by name for every row costs as much as the insert does, and
 * this statement runs once a request.
 */
function prepareInsert(store: Store) {
  const names = Object.fromEntries(COLUMNS.map((column) => [column, sql.placeholder(column)]));
  const query = store.query
    .insert(usage)
    .values(names as never)
    .toSQL();
  // Columns of the ledger that are not filled here come as constants, by their defaults.
  const order = query.params.map((param): { name: (typeof COLUMNS)[number] } | { constant: number | bigint } => {
    const value: unknown = isObject(param) ? param["value"] : param;
    return isObject(value)
      ? { name: value["name"] as (typeof COLUMNS)[number] }
      : { constant: value as number | bigint };
  });
  return { statement: store.database.prepare(query.sql), order };
}

type Row = Record<(typeof COLUMNS)[number], string | number | boolean | null>;

/** A ledger that lets everyone pass and writes down what was used: one row for each settled request, none for a released one. */
export class UsageLedger implements Ledger {
  readonly #insert: ReturnType<typeof prepareInsert>;
  readonly #rollup: Rollup;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock = systemClock,
  ) {
    this.#insert = prepareInsert(store);
    this.#rollup = new Rollup(store);
    writer.join(this.#rollup);
  }

  /** Never throws: nothing is set aside and nothing is written. */
  hold(request: HoldRequest): Promise<Hold> {
    return Promise.resolve(new UsageHold((settlement) => this.#write(request, settlement)));
  }

  /** Resolves once the row is on the disk; rejects as the writer does, or when this request has a row already. */
  #write(request: HoldRequest, settlement: Settlement): Promise<void> {
    const { requestId, accountId, keyId, dialect, stream, model } = request;
    const { outcome, vendor, upstreamModel, finish, error, attempts, estimated, firstTokenMs } = settlement;
    const { input, cacheRead, cacheWrite, output, reasoning } = settlement.usage;
    // Named one by one: spreading five objects costs as much as the insert.
    const row: Row = {
      requestId,
      accountId,
      keyId,
      atMs: this.clock.now(),
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
      output,
      reasoning,
      estimated,
    };
    const { statement, order } = this.#insert;
    const values = order.map((column) => ("name" in column ? row[column.name] : column.constant));
    return this.writer.runSingle(() => {
      statement.run(...values);
      this.#rollup.add(row as Counted);
    });
  }
}

class UsageHold implements Hold {
  #settled: Promise<void> | undefined;
  #released = false;

  constructor(private readonly write: (settlement: Settlement) => Promise<void>) {}

  /** A second settle writes nothing and waits for the first, so that "durable when it resolves" holds for both. */
  settle(settlement: Settlement): Promise<void> {
    if (!this.#released) this.#settled ??= this.write(settlement);
    return this.#settled ?? Promise.resolve();
  }

  release(): Promise<void> {
    this.#released ||= this.#settled === undefined;
    return Promise.resolve();
  }
}
