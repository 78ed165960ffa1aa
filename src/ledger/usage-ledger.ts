import { sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { Hold, HoldRequest, Ledger, Settlement } from "./ledger.ts";

function prepareInsert(store: Store) {
  const given = sql.placeholder;
  const row = {
    requestId: given("requestId"),
    accountId: given("accountId"),
    keyId: given("keyId"),
    atMs: given("atMs"),
    durationMs: given("durationMs"),
    firstTokenMs: given("firstTokenMs"),
    dialect: given("dialect"),
    stream: given("stream"),
    model: given("model"),
    vendor: given("vendor"),
    upstreamModel: given("upstreamModel"),
    outcome: given("outcome"),
    finish: given("finish"),
    error: given("error"),
    attempts: given("attempts"),
    input: given("input"),
    cacheRead: given("cacheRead"),
    cacheWrite: given("cacheWrite"),
    output: given("output"),
    reasoning: given("reasoning"),
    estimated: given("estimated"),
  };
  return store.query.insert(usage).values(row).prepare();
}

/** A ledger that lets everyone pass and writes down what was used: one row for each settled request, none for a released one. */
export class UsageLedger implements Ledger {
  readonly #insert: ReturnType<typeof prepareInsert>;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock = systemClock,
  ) {
    this.#insert = prepareInsert(store);
  }

  /** Never throws: nothing is set aside and nothing is written. */
  hold(request: HoldRequest): Promise<Hold> {
    return Promise.resolve(new UsageHold((settlement) => this.#write(request, settlement)));
  }

  /** Resolves once the row is on the disk; rejects as the writer does, or when this request has a row already. */
  #write(request: HoldRequest, settlement: Settlement): Promise<void> {
    const { requestId, accountId, keyId, dialect, stream, model } = request;
    const { usage: counts, ...rest } = settlement;
    const row = {
      ...{ requestId, accountId, keyId, dialect, stream, model },
      ...{ finish: null, error: null },
      ...rest,
      ...counts,
      atMs: this.clock.now(),
      durationMs: Math.round(settlement.durationMs),
      firstTokenMs: settlement.firstTokenMs === undefined ? null : Math.round(settlement.firstTokenMs),
    };
    return this.writer.runSingle(() => {
      this.#insert.run(row);
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
