import { NO_USAGE, type Usage } from "../canon/usage.ts";
import type { Store } from "../db/open.ts";
import type { Clock } from "../lib/clock.ts";
import { compileAsUsual } from "../lib/compiling.ts";
import { type Entries, HOUSE } from "./entries.ts";
import { type Funds, walletOf } from "./funds.ts";
import { least } from "./nano.ts";
import { costNano } from "./price.ts";
import type { PriceBook } from "./price-book.ts";
import { toUsageRow, type UsageRows } from "./usage-rows.ts";

/** Holds that are closed in one transaction. Each waits for the disk once: ten thousand are to be closed in half a second (reliability 8.2, N1). */
const BATCH = 2_500;
/** So many are worth compiling what closes them: ten thousand take a sixth less time then. */
const WORTH_COMPILING = 1_000;

type Row = {
  request_id: string;
  account_id: string;
  key_id: string;
  dialect: string;
  stream: bigint;
  model: string;
  vendor: string;
  upstream_model: string;
  window_id: string | null;
  window_nano: bigint;
  wallet_nano: bigint;
  price_id: bigint;
  estimated_input: bigint;
  seen_output: bigint;
  created_at: bigint;
};

/** What was written down of a request that died. */
const usageOf = ({ estimated_input, seen_output }: Row): Usage => ({
  ...NO_USAGE,
  input: Number(estimated_input),
  output: Number(seen_output),
});

/** What a start found of the last one's requests: charged by what was delivered for sure, or let go. */
export type Recovered = { settled: number; released: number };

/** Told of the key of a request that was charged, and of what it cost. */
export type Counted = (keyId: string, costNano: bigint) => void;

export type RecoveryParts = {
  store: Store;
  rows: UsageRows;
  entries: Entries;
  funds: Funds;
  priceBook: PriceBook;
  clock: Clock;
  counted: Counted;
};

/**
 * Closes what a dead process left open; before anything listens (reliability 3.7). Its requests died with it. Whoever was sent output that was
 * written down pays for that and for the input, and never more than was held; without such evidence nobody pays, and what it may have cost
 * the operator is booked as a loss.
 */
export class Recovery {
  readonly #statements;
  readonly #findPrice;

  constructor(private readonly parts: RecoveryParts) {
    this.#findPrice = parts.priceBook.finder();
    const { database } = parts.store;
    this.#statements = {
      open: database.prepare<Row, [string, number]>(
        `SELECT request_id, account_id, key_id, dialect, stream, model, vendor, upstream_model, window_id, window_nano,
           wallet_nano, price_id, estimated_input, seen_output, created_at
         FROM ledger_hold WHERE boot <> ? LIMIT ?`,
      ),
      remove: database.prepare("DELETE FROM ledger_hold WHERE request_id = ?"),
    };
  }

  /** Runs to its end without waiting for anything. `boot` names the process that is starting. Throws StoreError as the store does. */
  run(boot: string): Recovered {
    const { store, entries, rows: usageRows } = this.parts;
    const recovered: Recovered = { settled: 0, released: 0 };
    for (;;) {
      const rows = this.#statements.open.all(boot, BATCH);
      if (rows.length === 0) return recovered;
      if (rows.length >= WORTH_COMPILING) compileAsUsual();
      store.database
        .transaction(() => {
          entries.inOne(() => {
            for (const row of rows) this.#close(row, recovered);
          });
          usageRows.writeSums();
        })
        .immediate();
    }
  }

  #close(row: Row, recovered: Recovered): void {
    const delivered = row.seen_output > 0n;
    if (delivered) this.#settle(row);
    else this.#writeOff(row);
    this.#statements.remove.run(row.request_id);
    recovered[delivered ? "settled" : "released"]++;
  }

  #costOf(row: Row): bigint {
    const price = this.#findPrice(Number(row.price_id));
    return price ? costNano(usageOf(row), price.prices) : 0n;
  }

  #settle(row: Row): void {
    const { rows, funds, clock, counted } = this.parts;
    const costNano = this.#costOf(row);
    const fromWindow = least(costNano, row.window_nano);
    const held = least(costNano - fromWindow, row.wallet_nano);
    const fromWallet = held === 0n ? 0n : least(held, funds.chargeable(walletOf(row.account_id)));
    const chargedNano = fromWindow + fromWallet;
    const atMs = clock.now();
    const usage = usageOf(row);
    const request = {
      ...{ requestId: row.request_id, accountId: row.account_id, keyId: row.key_id, model: row.model },
      ...{ dialect: row.dialect, stream: row.stream === 1n, estimateInput: () => usage.input },
    };
    const settlement = {
      ...({ outcome: "interrupted", vendor: row.vendor, upstreamModel: row.upstream_model, usage } as const),
      ...{ estimated: true, attempts: 1, durationMs: Math.max(0, atMs - Number(row.created_at)) },
    };
    const billing = { priceId: Number(row.price_id), costNano, chargedNano, flags: 0 };
    const usageRow = toUsageRow(request, settlement, atMs, billing);
    rows.insert(usageRow);
    rows.count(usageRow);
    counted(row.key_id, costNano);
    if (row.window_id) this.#post(row, row.window_id, fromWindow, atMs);
    this.#post(row, walletOf(row.account_id), fromWallet, atMs);
    if (costNano > chargedNano) this.#lose(row, costNano - chargedNano, HOUSE.revenue, atMs);
  }

  #post(row: Row, debit: string, amountNano: bigint, atMs: number): void {
    if (amountNano === 0n) return;
    const { account_id: owner, request_id: requestId } = row;
    const credit = HOUSE.revenue;
    this.parts.entries.append({ atMs, kind: "usage_partial", debit, credit, amountNano, owner, requestId });
  }

  #writeOff(row: Row): void {
    const cost = this.#costOf(row);
    if (cost > 0n) this.#lose(row, cost, HOUSE.vendor, this.parts.clock.now());
  }

  #lose(row: Row, amountNano: bigint, credit: string, atMs: number): void {
    const { account_id: owner, request_id: requestId } = row;
    const detail = "the server died while this request was running";
    this.parts.entries.append({
      atMs,
      kind: "writeoff",
      debit: HOUSE.loss,
      credit,
      amountNano,
      owner,
      requestId,
      detail,
    });
  }
}
