import { and, eq } from "drizzle-orm";
import { withLong } from "../canon/usage.ts";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import type { Receipt } from "./book.ts";
import type { PriceBook } from "./price-book.ts";
import { findRounds, readFlags } from "./usage-rows.ts";

type Leg = { debit: string; amount: bigint };

/** What single requests came to, for `GET /v1/usage/{request_id}` (contract 3). */
export class Receipts {
  readonly #legs;

  constructor(
    private readonly store: Store,
    private readonly priceBook: PriceBook,
  ) {
    this.#legs = store.database.prepare<Leg, [string]>(
      "SELECT debit, amount FROM ledger_entry WHERE request_id = ? AND kind <> 'writeoff' ORDER BY seq",
    );
  }

  /** The receipt of a settled request; only of `accountId`, where it is given. */
  find(requestId: string, accountId?: string): Receipt | undefined {
    const owned = accountId === undefined ? undefined : eq(usage.accountId, accountId);
    const row = this.store.query
      .select()
      .from(usage)
      .where(and(eq(usage.requestId, requestId), owned))
      .get();
    if (!row) return undefined;
    const { input, cacheRead, cacheWrite, cacheWriteLong, output, reasoning } = row;
    const legs = this.#legs.all(requestId).map(({ debit, amount }) => ({
      from: debit.startsWith("window:") ? ("window" as const) : ("wallet" as const),
      amountNano: amount,
    }));
    return {
      row,
      flags: readFlags(row.flags),
      usage: withLong({ input, cacheRead, cacheWrite, output, reasoning }, cacheWriteLong),
      rounds: findRounds(this.store, requestId),
      price: row.priceId === null ? undefined : this.priceBook.find(row.priceId),
      legs,
    };
  }
}
