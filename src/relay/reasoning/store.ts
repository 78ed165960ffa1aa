import type { ReasoningMemory } from "../../canon/memory.ts";
import { removeInBatches } from "../../db/batches.ts";
import type { Store } from "../../db/open.ts";
import type { Writer } from "../../db/writer.ts";
import type { Clock } from "../../lib/clock.ts";
import { repeat } from "../../lib/repeat.ts";
import { DAY_MS } from "../../lib/spans.ts";
import { errorFields, type Log } from "../../observe/log.ts";
import type { MakersShelf } from "./makers.ts";
import { deriveSeed, randomSeed, Sealer } from "./seal.ts";

/** How long reasoning is kept for its next turn, ms. */
export const KEEP_MS = DAY_MS;
/** Largest state of one reply, bytes; a longer one is not kept. */
export const MAX_STATE_BYTES = 1024 * 1024;
/** What one account may keep; its oldest states make room. */
const MAX_ACCOUNT_STATES = 20_000;
const MAX_ACCOUNT_BYTES = 64 * 1024 * 1024;
/** What all accounts may keep together, bytes. */
const MAX_TOTAL_BYTES = 512 * 1024 * 1024;
/** The most states, and bytes of them, that are put back into one request: the newest ones. */
const MAX_FOUND = 2_048;
const MAX_FOUND_BYTES = 16 * 1024 * 1024;
/** Rows removed in one transaction. */
const REMOVED_AT_ONCE = 64;
/** How often expired rows are looked for, ms. */
const SWEEP_MS = 10 * 60_000;
/** Accounts of which it is remembered how much they keep; when there are more, all are counted again as they are needed. */
const MAX_KNOWN = 10_000;

/** Bounds, which tests make small. */
export type ReasoningBounds = { accountStates: number; accountBytes: number; totalBytes: number };

const BOUNDS: ReasoningBounds = {
  accountStates: MAX_ACCOUNT_STATES,
  accountBytes: MAX_ACCOUNT_BYTES,
  totalBytes: MAX_TOTAL_BYTES,
};

type Fill = { states: number; bytes: number };
type Removed = { account_id: string; bytes: bigint };
type Found = { key: string; id: bigint; sealed: Uint8Array };

function prepareStatements({ database }: Store) {
  const remove = (which: string) =>
    database.prepare<Removed, (string | number | bigint)[]>(
      `DELETE FROM reasoning_state WHERE id IN (SELECT id FROM reasoning_state ${which}) RETURNING account_id, bytes`,
    );
  return {
    insert: database.prepare("INSERT INTO reasoning_state (account_id, expires_at, bytes, sealed) VALUES (?, ?, ?, ?)"),
    insertKey: database.prepare("INSERT OR REPLACE INTO reasoning_key (key, state_id) VALUES (?, ?)"),
    find: database.prepare<Found, [string, string, number]>(
      // CROSS keeps this order: left to itself SQLite walks through all that the account keeps and looks for each in the list.
      `SELECT k.key, s.id, s.sealed FROM json_each(?) AS wanted CROSS JOIN reasoning_key AS k ON k.key = wanted.value
       CROSS JOIN reasoning_state AS s ON s.id = k.state_id WHERE s.account_id = ? AND s.expires_at > ?`,
    ),
    first: database.prepare("SELECT 1 FROM reasoning_state WHERE account_id = ? LIMIT 1"),
    fillOf: database.prepare<{ states: bigint; bytes: number }, [string]>(
      "SELECT count(*) AS states, total(bytes) AS bytes FROM reasoning_state WHERE account_id = ?",
    ),
    fill: database.prepare<{ states: bigint; bytes: number }, []>(
      "SELECT count(*) AS states, total(bytes) AS bytes FROM reasoning_state",
    ),
    removeExpired: remove(`WHERE expires_at <= ? LIMIT ${REMOVED_AT_ONCE}`),
    removeOldestOf: remove("WHERE account_id = ? AND id < ? ORDER BY id LIMIT 1"),
    removeOldest: remove("WHERE id < ? ORDER BY id LIMIT 1"),
    insertMaker: database.prepare(
      "INSERT OR REPLACE INTO reasoning_maker (digest, maker, expires_at) VALUES (?, ?, ?)",
    ),
    removeMaker: database.prepare("DELETE FROM reasoning_maker WHERE digest = ?"),
    makers: database.prepare(
      "SELECT digest, maker FROM reasoning_maker WHERE expires_at > ? ORDER BY expires_at DESC LIMIT ?",
    ),
    removeExpiredMakers: database.prepare(
      `DELETE FROM reasoning_maker WHERE digest IN (SELECT digest FROM reasoning_maker WHERE expires_at <= ? LIMIT ${REMOVED_AT_ONCE})`,
    ),
  };
}

/**
 * Reasoning that vendors want back and clients cannot carry, sealed (dialects.md 4.8 #6-#8; AES-256-GCM). A state is found by its account
 * and by digests; it lives {@link KEEP_MS}, and what an account and all of them keep has bounds.
 */
export class ReasoningStore implements MakersShelf {
  readonly #sealer: Sealer;
  #prepared: ReturnType<typeof prepareStatements> | undefined;
  /** Whether an account keeps anything, as far as somebody asked. */
  readonly #holders = new Map<string, boolean>();
  /** What each account keeps, and all together, as far as it was counted. */
  readonly #fills = new Map<string, Fill>();
  #total: number | undefined;
  #proofSeed: bigint | undefined;

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly bounds: ReasoningBounds = BOUNDS,
  ) {
    this.#sealer = new Sealer(store);
  }

  /** Made when first needed: a start should not wait for it. */
  get #statements() {
    this.#prepared ??= prepareStatements(this.store);
    return this.#prepared;
  }

  /**
   * Keeps a state under each of `keys`, instead of what was kept under them. Durable when it resolves. Never rejects: the answer is the
   * client's, whatever becomes of its reasoning, so a fault is for the log.
   */
  async put(accountId: string, keys: readonly string[], memory: ReasoningMemory): Promise<void> {
    try {
      const sealed = this.#sealer.seal(JSON.stringify(memory), accountId);
      if (sealed.length > MAX_STATE_BYTES) {
        this.log.info("reasoning-too-large", { account: accountId, bytes: sealed.length });
        return;
      }
      this.#holders.set(accountId, true);
      await this.writer.run(() => this.#insert(accountId, keys, sealed));
    } catch (thrown) {
      // What was counted may have been rolled back.
      this.#forgetFills();
      this.log.error("reasoning-put", { account: accountId, ...errorFields(thrown) });
    }
  }

  /** Whether anything may be kept for this account: most that never reason need not be looked up. */
  holdsAny(accountId: string): boolean {
    let holds = this.#holders.get(accountId);
    if (holds === undefined) {
      holds = this.#statements.first.get(accountId) !== null;
      if (this.#holders.size >= MAX_KNOWN) this.#holders.clear();
      this.#holders.set(accountId, holds);
    }
    return holds;
  }

  /** Whether it is known by heart that nothing is kept for this account. */
  knowsNothingOf(accountId: string): boolean {
    return this.#holders.get(accountId) === false;
  }

  /** What was remembered by {@link holdsAny} is asked anew: another process may have kept something since. */
  forgetHolder(accountId: string): void {
    this.#holders.delete(accountId);
  }

  /** The states under `keys` that are this account's and not expired; one that was found under two keys is one object. */
  find(accountId: string, keys: readonly string[]): Map<string, ReasoningMemory> {
    const found = new Map<string, ReasoningMemory>();
    if (keys.length === 0) return found;
    const wanted = JSON.stringify(keys.slice(-MAX_FOUND));
    const rows = this.#statements.find.all(wanted, accountId, this.clock.now());
    rows.sort((one, other) => Number(other.id - one.id));
    const opened = new Map<bigint, ReasoningMemory | undefined>();
    let bytes = 0;
    for (const { key, id, sealed } of rows) {
      if (!opened.has(id)) {
        bytes += sealed.length;
        if (bytes > MAX_FOUND_BYTES) break;
        opened.set(id, this.#open(sealed, accountId));
      }
      const memory = opened.get(id);
      if (memory) found.set(key, memory);
    }
    return found;
  }

  /** With which the digests of proofs are made whose makers are kept here; where its key cannot be had, one for this life alone. */
  get proofSeed(): bigint {
    try {
      this.#proofSeed ??= deriveSeed(this.store);
    } catch (thrown) {
      this.log.error("reasoning-seed", errorFields(thrown));
      this.#proofSeed = randomSeed();
    }
    return this.#proofSeed;
  }

  /** Keeps who made a proof that is known by its digest, and lets go of another. Nobody waits for it: a fault is for the log. */
  keepMaker(digest: bigint, maker: string, forgotten: bigint | undefined): void {
    const { insertMaker, removeMaker } = this.#statements;
    const keep = () => {
      if (forgotten !== undefined) removeMaker.run(forgotten);
      insertMaker.run(digest, maker, this.clock.now() + KEEP_MS);
    };
    this.writer.run(keep).catch((thrown) => this.log.error("reasoning-maker", errorFields(thrown)));
  }

  /** Digests of proofs and their makers, the newest `most` of them, oldest first. None where they cannot be read. */
  makers(most: number): [digest: bigint, maker: string][] {
    try {
      const rows = this.#statements.makers.values(this.clock.now(), most);
      return rows.reverse() as [bigint, string][];
    } catch (thrown) {
      this.log.error("reasoning-makers", errorFields(thrown));
      return [];
    }
  }

  /** Removes what has expired, some in each transaction. Resolves with how many states; rejects as the writer does. */
  async sweep(): Promise<number> {
    const { removeExpired, removeExpiredMakers } = this.#statements;
    const sweepRows = (removeSome: () => number) => removeInBatches(this.writer, REMOVED_AT_ONCE, removeSome);
    const removed = await sweepRows(() => this.#count(removeExpired.all(this.clock.now()))).catch((thrown) => {
      // What was counted may have been rolled back.
      this.#forgetFills();
      throw thrown;
    });
    await sweepRows(() => removeExpiredMakers.run(this.clock.now()).changes);
    return removed;
  }

  /** Sweeps every ten minutes. Returns its end. */
  watch(): () => void {
    const onFault = (thrown: unknown) => this.log.error("reasoning-sweep", errorFields(thrown));
    return repeat(this.clock, { everyMs: SWEEP_MS }, () => this.sweep(), onFault);
  }

  /** A state that cannot be read, because its key is gone, is one that was never kept. */
  #open(sealed: Uint8Array, accountId: string): ReasoningMemory | undefined {
    try {
      return JSON.parse(this.#sealer.open(sealed, accountId)) as ReasoningMemory;
    } catch (thrown) {
      this.log.warn("reasoning-unreadable", { account: accountId, ...errorFields(thrown) });
      return undefined;
    }
  }

  #insert(accountId: string, keys: readonly string[], sealed: Buffer): void {
    const { insert, insertKey } = this.#statements;
    const fill = this.#fillOf(accountId);
    this.#total ??= Number(this.#statements.fill.get()?.bytes ?? 0);
    const id = insert.run(accountId, this.clock.now() + KEEP_MS, sealed.length, sealed).lastInsertRowid;
    for (const key of keys) insertKey.run(key, id);
    fill.states++;
    fill.bytes += sealed.length;
    this.#total += sealed.length;
    this.#makeRoom(accountId, fill, id);
  }

  /** Removes oldest states while there are too many, never the one just kept; what is left over waits for the next one. */
  #makeRoom(accountId: string, fill: Fill, newest: number | bigint): void {
    const { removeOldestOf, removeOldest } = this.#statements;
    const { accountStates, accountBytes, totalBytes } = this.bounds;
    for (let removed = 0; removed < REMOVED_AT_ONCE; removed++) {
      const overfull = fill.states > accountStates || fill.bytes > accountBytes;
      if (!overfull && (this.#total ?? 0) <= totalBytes) return;
      const gone = overfull ? removeOldestOf.all(accountId, newest) : removeOldest.all(newest);
      if (this.#count(gone) === 0) return;
    }
  }

  #fillOf(accountId: string): Fill {
    const known = this.#fills.get(accountId);
    if (known) return known;
    if (this.#fills.size >= MAX_KNOWN) this.#fills.clear();
    const row = this.#statements.fillOf.get(accountId);
    const fill = { states: Number(row?.states ?? 0), bytes: Number(row?.bytes ?? 0) };
    this.#fills.set(accountId, fill);
    return fill;
  }

  /** Takes removed rows out of the counts; returns how many they are. */
  #count(removed: readonly Removed[]): number {
    for (const { account_id: accountId, bytes } of removed) {
      const fill = this.#fills.get(accountId);
      if (fill) {
        fill.states--;
        fill.bytes -= Number(bytes);
      }
      if (this.#total !== undefined) this.#total -= Number(bytes);
    }
    return removed.length;
  }

  #forgetFills(): void {
    this.#fills.clear();
    this.#total = undefined;
  }
}
