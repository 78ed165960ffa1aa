import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";
import type { EntryKind, LedgerEntry } from "./book.ts";

/** The house's own accounts: the other side of every transfer (made by the migration). */
export const HOUSE = {
  funding: "house:funding",
  promotion: "house:promotion",
  correction: "house:correction",
  plan: "house:plan",
  revenue: "house:revenue",
  /** Costs that no customer pays. */
  loss: "house:loss",
  /** What vendors may ask for work that nobody was charged for. */
  vendor: "house:vendor",
} as const;

/** A transfer to be written. `owner` is the account it is about, where there is one. */
export type NewEntry = {
  atMs: number;
  kind: EntryKind;
  debit: string;
  credit: string;
  amountNano: bigint;
  owner?: string;
  requestId?: string;
  reference?: string;
  detail?: string;
};

/** An entry as the table has it. */
export type EntryRow = {
  seq: bigint;
  at_ms: bigint;
  kind: string;
  debit: string;
  credit: string;
  amount: bigint;
  owner: string | null;
  request_id: string | null;
  reference: string | null;
  detail: string | null;
  hash: Uint8Array;
};

/** What the first entry of all is chained to. */
export const FIRST_LINK: Uint8Array = new Uint8Array(32);

/** The columns of {@link EntryRow}, for SELECT. */
export const ENTRY_COLUMNS = "seq, at_ms, kind, debit, credit, amount, owner, request_id, reference, detail, hash";

/**
 * The link of an entry: SHA-256 over the link before it and all of its own fields, so that a change, a removal or an insertion anywhere
 * breaks every link that follows (reliability 3.3, I9).
 */
export function linkOf(before: Uint8Array, row: Omit<EntryRow, "hash">): Uint8Array {
  const fields = [row.kind, row.debit, row.credit, row.owner, row.request_id, row.reference, row.detail];
  const text = `${row.seq}|${row.at_ms}|${row.amount}|${JSON.stringify(fields)}`;
  return new Bun.CryptoHasher("sha256").update(before).update(text).digest();
}

/** A row as the rest of the house sees it. */
export function toEntry(row: Omit<EntryRow, "owner" | "hash">): LedgerEntry {
  return {
    seq: Number(row.seq),
    atMs: Number(row.at_ms),
    kind: row.kind as EntryKind,
    debit: row.debit,
    credit: row.credit,
    amountNano: row.amount,
    requestId: row.request_id,
    reference: row.reference,
    detail: row.detail,
  };
}

/** Stands for the caller's own transaction; the writer's views are numbered from 0. */
const OWN_VIEW = -1;

/** Writes transfers. The accounts' balances follow by a trigger, in the same step. */
export class Entries {
  readonly #readHead;
  readonly #insert;
  /** The last entry, and the view under which it is. */
  #head: { seq: bigint; hash: Uint8Array; view: number } | undefined;
  /** {@link OWN_VIEW} while a caller appends in a transaction of its own. */
  #ownView: number | undefined;

  /** `onPost` is told of both accounts of every transfer, before it is committed. */
  constructor(
    store: Store,
    private readonly writer: Writer,
    private readonly onPost: (id: string) => void,
  ) {
    this.#readHead = store.database.prepare<{ seq: bigint; hash: Uint8Array }, []>(
      "SELECT seq, hash FROM ledger_entry ORDER BY seq DESC LIMIT 1",
    );
    this.#insert = store.database.prepare(
      `INSERT INTO ledger_entry (${ENTRY_COLUMNS})
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
  }

  /** Runs `work`, which is inside a transaction of the caller's own: between its appends the end of the chain is known, not read again. */
  inOne(work: () => void): void {
    this.#head = undefined;
    this.#ownView = OWN_VIEW;
    try {
      work();
    } finally {
      this.#head = undefined;
      this.#ownView = undefined;
    }
  }

  /**
   * Appends one transfer, inside an operation of the writer or the caller's own transaction. Throws SQLite's error when an account does not exist, the amount
   * is not from 1 to 1e15, or the same request or reference was posted before.
   */
  append(entry: NewEntry): Omit<EntryRow, "hash"> {
    const view = this.#ownView ?? this.writer.view;
    const head = view !== undefined && this.#head?.view === view ? this.#head : this.#readHead.get();
    const row = {
      seq: (head?.seq ?? 0n) + 1n,
      at_ms: BigInt(entry.atMs),
      kind: entry.kind,
      debit: entry.debit,
      credit: entry.credit,
      amount: entry.amountNano,
      owner: entry.owner ?? null,
      request_id: entry.requestId ?? null,
      reference: entry.reference ?? null,
      // Half a character is kept as another one: what is chained must be what will be read.
      detail: entry.detail?.toWellFormed() ?? null,
    };
    const hash = linkOf(head?.hash ?? FIRST_LINK, row);
    const { seq, at_ms, kind, debit, credit, amount, owner, request_id, reference, detail } = row;
    this.#insert.run(seq, at_ms, kind, debit, credit, amount, owner, request_id, reference, detail, hash);
    this.#head = view === undefined ? undefined : { seq, hash, view };
    this.onPost(debit);
    this.onPost(credit);
    return row;
  }
}
