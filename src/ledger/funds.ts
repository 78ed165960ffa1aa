import type { Store } from "../db/open.ts";
import type { Clock } from "../lib/clock.ts";
import { atLeastZero } from "./nano.ts";

/**
 * How far a wallet may fall below zero, nano-USD: what a vendor makes between the gateway's stop and its own, and an estimate's error
 * (reliability 3.5 #8). What a request costs beyond that is the operator's loss.
 */
export const OVERRUN_NANO = 20_000_000n;
/** How long a balance that was read is good, ms: after that another process's deposit counts. */
const READ_MS = 10;
/** Balances kept in memory. */
const MAX_READ = 10_000;

type Balance = { posted: bigint; held: bigint };

/** The ledger account of an account's own money. */
export const walletOf = (accountId: string) => `wallet:${accountId}`;

const NOTHING: Balance = { posted: 0n, held: 0n };

/**
 * What ledger accounts have free. Balances are the store's; one that was read stands for 10 ms unless this process writes to it, since
 * a read outside of a transaction costs as much as three inside of one.
 * What is set aside for tokens is kept in memory: this process alone serves (it holds the folder's lock), its requests die with it, and
 * so do their claims on money; no look-up, no write and no fsync stand before a request's dispatch. Everything here is synchronous: between
 * asking and taking nothing else runs, which is what keeps two requests from spending the same money (reliability 3.3, reserve).
 */
export class Funds {
  readonly #held = new Map<string, bigint>();
  readonly #balances = new Map<string, Balance & { readAt: number }>();
  readonly #read;
  readonly #holdUnits;
  readonly #freeUnits;
  readonly #open;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
  ) {
    this.#read = store.database.prepare<Balance, [string]>("SELECT posted, held FROM ledger_account WHERE id = ?");
    this.#holdUnits = store.database.prepare(
      "UPDATE ledger_account SET held = held + ?1 WHERE id = ?2 AND posted - held - ?3 >= ?1",
    );
    this.#freeUnits = store.database.prepare("UPDATE ledger_account SET held = held - ?1 WHERE id = ?2");
    this.#open = store.database.prepare(
      "INSERT INTO ledger_account (id, kind, owner) VALUES (?, 'wallet', ?) ON CONFLICT (id) DO NOTHING",
    );
  }

  /** Balance and what units hold of it, as the store has them; zero for an account that was never opened. Nano-USD. */
  read(id: string): Balance {
    // What a transaction sees may be taken back with it: it is neither kept nor answered from what is kept.
    if (this.store.database.inTransaction) return this.#read.get(id) ?? NOTHING;
    const now = this.clock.monotonic();
    const known = this.#balances.get(id);
    if (known && now - known.readAt < READ_MS) return known;
    const { posted, held } = this.#read.get(id) ?? NOTHING;
    if (this.#balances.size >= MAX_READ) this.#balances.clear();
    this.#balances.set(id, { posted, held, readAt: now });
    return { posted, held };
  }

  /** This process writes to the account: what was read of it is old. */
  touch(id: string): void {
    this.#balances.delete(id);
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

  /** The most that a charge may take of a wallet, held for it or not: another process may have taken from it, which sees only the holds that are written down. */
  chargeable(id: string): bigint {
    return atLeastZero(this.read(id).posted + OVERRUN_NANO);
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
    this.touch(id);
    return this.#holdUnits.run(nano, id, this.running(id)).changes > 0;
  }

  /** Gives back what {@link holdUnits} took. Inside an operation of the writer. */
  freeUnits(id: string, nano: bigint): void {
    if (nano === 0n) return;
    this.touch(id);
    this.#freeUnits.run(nano, id);
  }

  /** Makes an account's wallet where it has none. Inside an operation of the writer. */
  openWallet(accountId: string): string {
    const id = walletOf(accountId);
    this.#open.run(id, accountId);
    return id;
  }
}
