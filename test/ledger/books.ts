import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Book } from "../../src/ledger/book.ts";
import type { HoldRequest, Ledger, ModelPrices, Payment, Settlement } from "../../src/ledger/ledger.ts";
import { type OpenLedger, openLedger } from "../../src/ledger/open-ledger.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";

export const ACCOUNT = "acct_1";
export const WALLET = `wallet:${ACCOUNT}`;
/** Case A and D of reliability 3.1: 3 and 15 USD. */
export const PRICES: ModelPrices = { model: "lab/usual", prices: { input: 3_000_000n, output: 15_000_000n } };
export const PAYMENT: Payment = { windowNano: 0n, premium: false, sliced: true, unseenOutput: 0 };

/** A ledger on a store in memory, with one account. */
export type Books = {
  store: Store;
  writer: Writer;
  clock: ManualClock;
  opened: OpenLedger;
  ledger: Ledger;
  book: Book;
  /** What the background complained of. */
  faults: unknown[];
  /** A deposit into the account's wallet. */
  fund(nano: bigint): Promise<void>;
  /** Another process on the same store, as after a crash. */
  restart(): OpenLedger;
};

export function openBooks(clock = manualClock()): Books {
  const store = openStore(":memory:");
  store.database.run("INSERT INTO account VALUES (?, 'one', 'pro', 1), ('acct_2', 'two', 'pro', 1)", [ACCOUNT]);
  const writer = new Writer(store);
  const faults: unknown[] = [];
  const options = { clock, onFault: (thrown: unknown) => faults.push(thrown) };
  const opened = openLedger(store, writer, options);
  let payments = 0;
  return {
    ...{ store, writer, clock, opened, faults, ledger: opened.ledger, book: opened.book },
    async fund(amountNano) {
      await opened.book.deposit({ accountId: ACCOUNT, amountNano, reference: `payment-${payments++}` });
    },
    restart: () => openLedger(store, writer, options),
  };
}

/** A request of the account; 1,000 tokens of input unless it says otherwise. */
export function wish(requestId: string, more: Partial<HoldRequest> = {}): HoldRequest {
  return {
    ...{ requestId, accountId: ACCOUNT, keyId: "key_1", model: "lab/usual", dialect: "chat", stream: true },
    ...{ estimateInput: () => 1_000, prices: PRICES, payment: PAYMENT, ...more },
  };
}

/** What a request came to: so many tokens. */
export function cameTo(input: number, output: number, more: Partial<Settlement> = {}): Settlement {
  const usage = { input, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 };
  const rest = { estimated: false, attempts: 1, durationMs: 1 };
  return { outcome: "completed", vendor: "lab", upstreamModel: "m", usage, ...rest, ...more };
}
