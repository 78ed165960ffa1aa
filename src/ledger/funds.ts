import type { Store } from "../db/open.ts";

/** The ledger account of an account's own money. */
export const walletOf = (accountId: string) => `wallet:${accountId}`;

/**
 * What ledger accounts have free. Balances are the store's, read when asked, so that a deposit made by another process counts at once.
 * What is set aside for tokens is kept in memory: this process alone serves (it holds the folder's lock), its requests die with it, and
 * so do their claims on money; no look-up, no write and no fsync stand before a request's dispatch. Everything here is synchronous: between
 * asking and taking nothing else runs, which is what keeps two requests from spending the same money (reliability 3.3, reserve).
 */
export class Funds {
  readonly #held = new Map<string, bigint>();
  readonly #read;
  readonly #holdUnits;
  readonly #freeUnits;
  readonly #open;

  constructor(store: Store) {
    this.#read = store.database.prepare<{ posted: bigint; held: bigint }, [string]>(
      "SELECT posted, held FROM ledger_account WHERE id = ?",
    );
    this.#holdUnits = store.database.prepare(
      "UPDATE ledger_account SET held = held + ?1 WHERE id = ?2 AND posted - held - ?3 >= ?1",
    );
    this.#freeUnits = store.database.prepare("UPDATE ledger_account SET held = held - ?1 WHERE id = ?2");
    this.#open = store.database.prepare(
      "INSERT INTO ledger_account (id, kind, owner) VALUES (?, 'wallet', ?) ON CONFLICT (id) DO NOTHING",
    );
  }

  /** Balance and what units hold of it, as the store has them; zero for an account that was never opened. Nano-USD. */
  read(id: string): { posted: bigint; held: bigint } {
    return this.#read.get(id) ?? { posted: 0n, held: 0n };
  }

  /** What is set aside for requests that are running in this process. */
  running(id: string): bigint {
    return this.#held.get(id) ?? 0n;
  }

  /** What a new request may take. Below 0 after an overrun. */
  free(id: string): bigint {
    const { posted, held } = this.read(id);
    return posted - held - this.running(id);
  }

  /** Sets money aside for a running request. Whoever calls has just asked {@link free}. */
  take(id: string, nano: bigint): void {
    if (nano > 0n) this.#held.set(id, this.running(id) + nano);
  }

  /** Gives back what {@link take} took. */
  give(id: string, nano: bigint): void {
    const left = this.running(id) - nano;
    if (left < 0n) throw new RangeError(`More is given back to ${id} than was taken.`);
    if (left === 0n) this.#held.delete(id);
    else this.#held.set(id, left);
  }

  /** Sets money aside for units, durably; false when there is not as much. Inside an operation of the writer. */
  holdUnits(id: string, nano: bigint): boolean {
    return this.#holdUnits.run(nano, id, this.running(id)).changes > 0;
  }

  /** Gives back what {@link holdUnits} took. Inside an operation of the writer. */
  freeUnits(id: string, nano: bigint): void {
    if (nano > 0n) this.#freeUnits.run(nano, id);
  }

  /** Makes an account's wallet where it has none. Inside an operation of the writer. */
  openWallet(accountId: string): string {
    const id = walletOf(accountId);
    this.#open.run(id, accountId);
    return id;
  }
}
