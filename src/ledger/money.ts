import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { isAmount, MAX_DETAIL, MAX_USD, REFERENCE_PATTERN } from "../wire/bounds.ts";
import { type Balance, type LedgerEntry, LedgerError, type MoneyOrder, type Posted } from "./book.ts";
import { ENTRY_COLUMNS, type Entries, type EntryRow, HOUSE, toEntry } from "./entries.ts";
import { type Funds, walletOf } from "./funds.ts";
import { most } from "./nano.ts";

const REFERENCE = new RegExp(REFERENCE_PATTERN);
/** Entries of one page. */
const MAX_PAGE = 1_000;

type Kind = "deposit" | "promotion" | "correction";

const SOURCE: Readonly<Record<Kind, string>> = {
  deposit: HOUSE.funding,
  promotion: HOUSE.promotion,
  correction: HOUSE.correction,
};

function checkOrder({ amountNano, reference, detail = "" }: MoneyOrder, signed: boolean): void {
  const size = amountNano < 0n && signed ? -amountNano : amountNano;
  if (!isAmount(size)) {
    const largest = `${MAX_USD.toLocaleString("en-US")} USD`;
    const range = signed ? `not 0, and at most ${largest} either way` : `above 0, and at most ${largest}`;
    throw new LedgerError("bad_amount", `An amount is a whole number of nano-USD ${range}.`);
  }
  if (!REFERENCE.test(reference)) {
    throw new LedgerError("bad_reference", "A reference has 1 to 200 printable ASCII characters.");
  }
  if ([...detail].length > MAX_DETAIL) {
    throw new LedgerError("bad_reference", `A remark has at most ${MAX_DETAIL} characters.`);
  }
}

/** Money that goes into wallets and out of them by hand, each once however often it is sent (contract 5). */
export class Money {
  readonly #statements;

  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly entries: Entries,
    private readonly funds: Funds,
    private readonly clock: Clock,
  ) {
    const { database } = store;
    this.#statements = {
      account: database.prepare<{ id: string }, [string]>("SELECT id FROM account WHERE id = ?"),
      byReference: database.prepare<EntryRow, [string]>(
        `SELECT ${ENTRY_COLUMNS} FROM ledger_entry WHERE reference = ?`,
      ),
      journaled: database.prepare<{ total: bigint }, [string]>(
        "SELECT coalesce(sum(wallet_nano), 0) AS total FROM ledger_hold WHERE account_id = ?",
      ),
      page: database.prepare<EntryRow, [string, number, number]>(
        `SELECT ${ENTRY_COLUMNS} FROM ledger_entry
         WHERE owner = ? AND kind NOT IN ('usage', 'usage_partial') AND seq < ? ORDER BY seq DESC LIMIT ?`,
      ),
    };
  }

  /** Books an order once; see `Book.deposit` for what it throws. */
  async post(kind: Kind, order: MoneyOrder): Promise<Posted> {
    checkOrder(order, kind === "correction");
    return await this.writer.run(() => this.#post(kind, order));
  }

  #post(kind: Kind, order: MoneyOrder): Posted {
    const { accountId, amountNano, reference, detail } = order;
    // A grant's own references begin otherwise, so that nobody can take one of them.
    const key = `money:${reference}`;
    const earlier = this.#statements.byReference.get(key);
    if (earlier) return repeat(earlier, kind, order);
    if (!this.#statements.account.get(accountId)) {
      throw new LedgerError("no_account", `There is no account ${accountId.slice(0, 64)}.`);
    }
    const wallet = this.funds.openWallet(accountId);
    const takes = amountNano < 0n;
    if (takes && this.balance(accountId).availableNano < -amountNano) {
      throw new LedgerError("insufficient", "The wallet has less free than the correction would take.");
    }
    const [debit, credit] = takes ? [wallet, SOURCE[kind]] : [SOURCE[kind], wallet];
    const entry = this.entries.append({
      ...{ atMs: this.clock.now(), kind, debit, credit, amountNano: takes ? -amountNano : amountNano },
      ...{ owner: accountId, reference: key, ...(detail !== undefined && { detail }) },
    });
    return { entry: { ...toEntry(entry), reference }, repeated: false };
  }

  /** Of a process that does not serve, the journal is all it knows of what requests hold. */
  balance(accountId: string): Balance {
    const id = walletOf(accountId);
    const { posted, held } = this.funds.read(id);
    const journaled = this.#statements.journaled.get(accountId)?.total ?? 0n;
    const heldNano = held + most(this.funds.running(id), journaled);
    return { postedNano: posted, heldNano, availableNano: posted - heldNano };
  }

  /** What was booked by hand, granted, paid for units or lost, newest first. */
  page(accountId: string, { before = Number.MAX_SAFE_INTEGER, limit = 100 }): LedgerEntry[] {
    const size = Math.min(Math.max(1, limit), MAX_PAGE);
    return this.#statements.page.all(accountId, before, size).map((row) => withOwnReference(toEntry(row)));
  }
}

/** The reference as the caller gave it. */
function withOwnReference(entry: LedgerEntry): LedgerEntry {
  const { reference } = entry;
  return reference?.startsWith("money:") ? { ...entry, reference: reference.slice("money:".length) } : entry;
}

function repeat(row: EntryRow, kind: Kind, { accountId, amountNano }: MoneyOrder): Posted {
  const wallet = walletOf(accountId);
  const amount = row.debit === wallet ? -row.amount : row.amount;
  const same = row.kind === kind && row.owner === accountId && amount === amountNano;
  if (same) return { entry: withOwnReference(toEntry(row)), repeated: true };
  throw new LedgerError("reference_reused", "This reference was used for another account, kind or amount.");
}
