import type { Store } from "../db/open.ts";
import { StoreError } from "../db/store-error.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { randomName } from "../lib/id.ts";
import type { Book, WindowState } from "./book.ts";
import { Deposits } from "./deposits.ts";
import { Entries } from "./entries.ts";
import { Funds } from "./funds.ts";
import { HoldJournal } from "./hold-journal.ts";
import type { Ledger } from "./ledger.ts";
import { Money } from "./money.ts";
import { PayingLedger } from "./paying-ledger.ts";
import { Pen } from "./pen.ts";
import { PriceBook } from "./price-book.ts";
import { Receipts } from "./receipts.ts";
import { type Counted, type Recovered, Recovery } from "./recovery.ts";
import { Settler } from "./settler.ts";
import { Units } from "./units.ts";
import { UsageLedger } from "./usage-ledger.ts";
import { UsageRows } from "./usage-rows.ts";
import { Verifier } from "./verify.ts";
import { Windows } from "./windows.ts";

/** Entries and usage rows that a start looks through: some tens of milliseconds (reliability 3.3). */
const CHECKED_AT_START = 10_000;

/** The ledger of one store, as one process has it open. */
export type OpenLedger = {
  /** For requests that cost: the hot path. Only in the process that holds the data folder's lock. */
  ledger: Ledger;
  /** For everyone else; on any process. */
  book: Book;
  /**
   * What a server does before it listens: looks whether the books are right, and closes what the last one left open. Throws StoreError
   * (damaged) when they are not, and has written nothing: money is not to be moved in books that are wrong. `counted` is told of each request that is charged
   * so, inside the transaction in which it is.
   */
  start(counted?: Counted): Recovered;
  /** Ends the work in the background. */
  stop(): void;
};

export type LedgerOptions = {
  clock?: Clock;
  /** Told of faults of the work in the background, such as a journal that could not be written. */
  onFault?: (thrown: unknown) => void;
};

/** Puts the ledger of a store together. Nothing is read or written yet. */
export function openLedger(store: Store, writer: Writer, options: LedgerOptions = {}): OpenLedger {
  const { clock = systemClock, onFault = (thrown) => console.error(thrown) } = options;
  const boot = randomName(16);
  const funds = new Funds(store, clock);
  const entries = new Entries(store, writer, (id) => funds.touch(id));
  const rows = new UsageRows(store, writer);
  const priceBook = new PriceBook(store, writer, clock);
  const windows = new Windows(store, writer, entries, funds, clock);
  const deposits = new Deposits(store);
  const journal = new HoldJournal(store, writer, clock, boot, onFault);
  const ledger = new PayingLedger({
    ...{ writer, journal, clock, funds, windows, deposits, priceBook },
    pen: new Pen(store, writer),
    settler: new Settler(rows, entries, funds, clock),
    counted: new UsageLedger(writer, clock, priceBook, rows),
  });
  const book = createBook({ store, writer, clock, rows, funds, entries, priceBook, windows, deposits });
  return {
    ledger,
    book,
    start(counted = () => {}) {
      // Looked at before anything is written to them; what is written next is chained by this very process.
      const [breach, ...more] = book.verify({ last: CHECKED_AT_START, starting: true });
      if (!breach) return new Recovery({ store, rows, entries, funds, priceBook, clock, counted }).run(boot);
      const rest = more.length === 0 ? "" : ` ${more.length} more.`;
      const text = `The ledger of ${store.path} is not right: ${breach.invariant}, ${breach.detail}.${rest}`;
      throw new StoreError("damaged", `${text} Restore it from a backup; \`sluice doctor\` shows all that is wrong.`);
    },
    stop: () => journal.stop(),
  };
}

type BookParts = {
  store: Store;
  writer: Writer;
  clock: Clock;
  rows: UsageRows;
  funds: Funds;
  entries: Entries;
  priceBook: PriceBook;
  windows: Windows;
  deposits: Deposits;
};

function createBook({ store, writer, clock, rows, funds, entries, priceBook, windows, deposits }: BookParts): Book {
  const money = new Money(store, writer, entries, funds, clock);
  const units = new Units(store, rows, entries, funds, clock);
  const receipts = new Receipts(store, priceBook);
  return {
    deposit: (order) => money.post("deposit", order),
    promote: (order) => money.post("promotion", order),
    correct: (order) => money.post("correction", order),
    balance: (accountId) => money.balance(accountId),
    window: (accountId, grantNano) => describeWindow(windows, funds, accountId, grantNano),
    hasDeposit: (accountId) => deposits.has(accountId),
    entries: (accountId, page = {}) => money.page(accountId, page),
    allowance: (accountId, kind, limit) => units.allowance(accountId, kind, limit),
    claimUnits: (claim) => units.claim(claim),
    countUnits: (count) => units.count(count),
    giveBackUnits: (claimId) => units.giveBack(claimId),
    openClaims: (kind, leastPaid = 0) => units.open(kind, leastPaid),
    receipt: (requestId, accountId) => receipts.find(requestId, accountId),
    verify: (options) => new Verifier(store, priceBook, clock).run(options),
  };
}

function describeWindow(windows: Windows, funds: Funds, accountId: string, grantNano: bigint): WindowState | undefined {
  // What an earlier plan gave pays for nothing on one that gives no window.
  if (grantNano === 0n) return undefined;
  const open = windows.find(accountId);
  if (!open) {
    return { grantNano, availableNano: grantNano, heldNano: 0n, startedAtMs: undefined, endsAtMs: undefined };
  }
  const heldNano = windows.held(open);
  // The next request fills it up to a better plan's grant.
  const moreNano = grantNano > open.grantNano ? grantNano - open.grantNano : 0n;
  return {
    grantNano: open.grantNano + moreNano,
    availableNano: funds.read(open.id).posted + moreNano - heldNano,
    heldNano,
    startedAtMs: open.startsAt,
    endsAtMs: open.endsAt,
  };
}
