import { GatewayError } from "../canon/errors.ts";
import type { Store } from "../db/open.ts";

/** Accounts kept in memory of which a deposit is known. */
const MAX_KNOWN = 100_000;

/** What an account is told that asks for a premium model and never made a real deposit. */
export const depositRequired = (model: string): GatewayError =>
  new GatewayError("deposit_required", `The model ${model} is premium: it needs an account that has made a deposit.`, {
    param: "model",
  });

/** Which accounts ever made a real deposit: what premium models ask for (interface 5 rule 6). A deposit is never taken back, so a yes is kept. */
export class Deposits {
  readonly #known = new Set<string>();
  readonly #find;

  constructor(store: Store) {
    // The kinds left out are named as the index names them: without that SQLite does not use it.
    this.#find = store.database.prepare<{ seq: bigint }, [string]>(
      `SELECT seq FROM ledger_entry
       WHERE owner = ? AND kind = 'deposit' AND kind NOT IN ('usage', 'usage_partial') LIMIT 1`,
    );
  }

  has(accountId: string): boolean {
    if (this.#known.has(accountId)) return true;
    if (!this.#find.get(accountId)) return false;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.add(accountId);
    return true;
  }
}
