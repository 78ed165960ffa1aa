import { and, asc, eq, isNull, sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { account, apiKey, type KeyKind } from "../db/schema.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { newId } from "../lib/id.ts";
import { AccountError } from "./account-error.ts";
import type { Caller } from "./caller.ts";
import { hashKey, makeKey, parseKey, shownParts } from "./key-form.ts";

/** A change by another process is looked for before a look-up when the last looking is this old, ms. */
const POLL_MS = 10;
/** And without look-ups this often, for requests that are running, ms. */
const WATCH_MS = 500;
/** How often last uses are written, ms. */
const LAST_USED_MS = 60_000;
/** Last uses written in one transaction. */
const LAST_USED_BATCH = 256;
/** Longest name of a key, characters. */
const MAX_NAME = 100;
/** Characters that an abbreviated key must have at the least. */
const MIN_ABBREVIATION = 6;

/** A key as lists show it: never the key, never its hash. */
export type KeyRow = {
  id: string;
  accountId: string;
  kind: KeyKind;
  name: string;
  prefix: string;
  last4: string;
  createdAt: number;
  lastUsedAt: number | null;
  revokedAt: number | null;
};

/** A key just made. `key` is shown this once. */
export type CreatedKey = KeyRow & { key: string };

export type NewKey = { accountId: string; name: string; kind: KeyKind };

/** A key in force, as it stands in memory. */
type LiveKey = { kind: KeyKind; caller: Caller };

export type KeysOptions = {
  clock?: Clock;
  /** Told of faults of the work in the background, such as a last use that could not be written. */
  onFault?: (thrown: unknown) => void;
};

const SHOWN = {
  id: apiKey.id,
  accountId: apiKey.accountId,
  kind: apiKey.kind,
  name: apiKey.name,
  prefix: apiKey.prefix,
  last4: apiKey.last4,
  createdAt: apiKey.createdAt,
  lastUsedAt: apiKey.lastUsedAt,
  revokedAt: apiKey.revokedAt,
};

function prepare(store: Store) {
  const given = sql.placeholder;
  return {
    insert: store.query
      .insert(apiKey)
      .values({
        hash: given("hash"),
        id: given("id"),
        accountId: given("accountId"),
        kind: given("kind"),
        name: given("name"),
        prefix: given("prefix"),
        last4: given("last4"),
        createdAt: given("createdAt"),
      })
      .prepare(),
    touch: store.query
      .update(apiKey)
      .set({ lastUsedAt: sql`${given("at")}` })
      .where(eq(apiKey.id, given("id")))
      .prepare(),
    load: store.query
      .select({ hash: apiKey.hash, id: apiKey.id, kind: apiKey.kind, accountId: apiKey.accountId, plan: account.plan })
      .from(apiKey)
      .innerJoin(account, eq(account.id, apiKey.accountId))
      .where(isNull(apiKey.revokedAt))
      .prepare(),
    version: store.database.prepare("PRAGMA data_version"),
  };
}

/**
 * The keys: made, listed, revoked, and looked up for every request. Those in force are in memory, by hash, so that a look-up asks no
 * database. A change through this object counts at once. A change by another process (`sluice keys revoke` beside a server) is seen
 * through `PRAGMA data_version`, asked before a look-up when the last asking is 10 ms old, and by the timer of `watch` for streams
 * that are running.
 */
export class Keys {
  #live = new Map<string, LiveKey>();
  #version: unknown;
  #polledAt = Number.NEGATIVE_INFINITY;
  #touched = new Map<string, number>();
  #writtenAt: number;
  readonly #revoked = new Set<(keyId: string) => void>();
  readonly #statements: ReturnType<typeof prepare>;
  readonly #clock: Clock;
  readonly #onFault: (thrown: unknown) => void;

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    options: KeysOptions = {},
  ) {
    this.#clock = options.clock ?? systemClock;
    this.#onFault = options.onFault ?? ((thrown) => console.error(thrown));
    this.#statements = prepare(store);
    this.#writtenAt = this.#clock.monotonic();
    this.#poll();
  }

  /**
   * Who presents this key; undefined when it is not written as a key, is unknown, or is revoked. A key of another kind is unknown:
   * an admin key never calls a model (contract 4). Found by its hash, so the time it takes tells nothing about other keys.
   */
  find(presented: string, kind: KeyKind = "api"): Caller | undefined {
    if (parseKey(presented) !== kind) return undefined;
    const now = this.#clock.monotonic();
    if (now - this.#polledAt >= POLL_MS) this.#poll();
    const found = this.#live.get(hashKey(presented));
    if (found?.kind !== kind) return undefined;
    this.#touched.set(found.caller.keyId, this.#clock.now());
    return found.caller;
  }

  /** Makes a key for an account. Throws AccountError when there is no such account, or the name is empty or above 100 characters. */
  async create(wanted: NewKey): Promise<CreatedKey> {
    const { created, plan } = await this.writer.run(() => {
      const owner = this.store.query.select().from(account).where(eq(account.id, wanted.accountId)).get();
      if (!owner) throw new AccountError(`There is no account ${wanted.accountId}.`);
      return { created: this.insert(wanted), plan: owner.plan };
    });
    const caller = { accountId: created.accountId, plan, keyId: created.id };
    this.#live.set(hashKey(created.key), { kind: created.kind, caller });
    return created;
  }

  /**
   * Writes a new key inside an operation of the writer; `reload` has to follow once that is committed. For callers that make an
   * account and its key in one step.
   */
  insert(wanted: NewKey): CreatedKey {
    const name = wanted.name.trim();
    if (name === "" || name.length > MAX_NAME) throw new AccountError(`A key's name has 1 to ${MAX_NAME} characters.`);
    const key = makeKey(wanted.kind);
    const row = { id: newId("key"), ...wanted, name, ...shownParts(key), createdAt: this.#clock.now() };
    this.#statements.insert.run({ ...row, hash: Buffer.from(hashKey(key), "hex") });
    return { ...row, lastUsedAt: null, revokedAt: null, key };
  }

  /** All keys or those of one account, revoked ones included, oldest first. */
  list(accountId?: string): KeyRow[] {
    const rows = this.store.query.select(SHOWN).from(apiKey);
    const owned = accountId === undefined ? rows : rows.where(eq(apiKey.accountId, accountId));
    return owned.orderBy(asc(apiKey.createdAt), asc(apiKey.id)).all();
  }

  /**
   * Revokes the key that `name` means: its id, the key itself (how a leaked key is at hand), or an unambiguous beginning of its id or
   * of what lists show of it. Counts on the next request. Returns the key's row; a key revoked before keeps its date. Throws
   * AccountError when nothing or more than one key fits.
   */
  async revoke(name: string): Promise<KeyRow> {
    const row = await this.writer.run(() => {
      const found = this.#meant(name);
      if (found.revokedAt !== null) return found;
      const revokedAt = this.#clock.now();
      const stillLive = and(eq(apiKey.id, found.id), isNull(apiKey.revokedAt));
      this.store.query.update(apiKey).set({ revokedAt }).where(stillLive).run();
      return { ...found, revokedAt };
    });
    for (const [hash, { caller }] of this.#live) {
      if (caller.keyId !== row.id) continue;
      this.#live.delete(hash);
      this.#tellRevoked(row.id);
    }
    return row;
  }

  #meant(name: string): KeyRow {
    const exact =
      parseKey(name) === undefined ? eq(apiKey.id, name) : eq(apiKey.hash, Buffer.from(hashKey(name), "hex"));
    const row = this.store.query.select(SHOWN).from(apiKey).where(exact).get();
    if (row) return row;
    const fits = (key: KeyRow) => key.id.startsWith(name) || key.prefix.startsWith(name);
    const rows = name.length < MIN_ABBREVIATION ? [] : this.list().filter(fits);
    if (rows.length === 1 && rows[0]) return rows[0];
    // Never repeat what was given: it may be a whole key with a slip in it.
    if (rows.length === 0) throw new AccountError("No key fits. `sluice keys list` shows their ids.");
    throw new AccountError(`${rows.length} keys fit. Give the whole id: ${rows.map((key) => key.id).join(", ")}.`);
  }

  /** Calls back with the id of every key that stops counting, whoever revoked it. Returns a function that ends this. */
  onRevoked(callback: (keyId: string) => void): () => void {
    this.#revoked.add(callback);
    return () => this.#revoked.delete(callback);
  }

  /** Starts the work in the background: seeing other processes' changes twice a second, and writing last uses. Returns its end. */
  watch(): () => void {
    let cancel: () => void;
    const tick = () => {
      try {
        this.#poll();
        if (this.#clock.monotonic() - this.#writtenAt >= LAST_USED_MS) this.saveLastUses().catch(this.#onFault);
      } catch (thrown) {
        this.#onFault(thrown);
      }
      cancel = this.#clock.after(WATCH_MS, tick);
    };
    cancel = this.#clock.after(WATCH_MS, tick);
    return () => cancel();
  }

  /** Writes when keys were last used, at most 256 at a time; the rest follows with the next tick. Rejects as the writer does. */
  async saveLastUses(): Promise<void> {
    const uses = [...this.#touched].slice(0, LAST_USED_BATCH);
    for (const [id] of uses) this.#touched.delete(id);
    if (this.#touched.size === 0) this.#writtenAt = this.#clock.monotonic();
    if (uses.length === 0) return;
    await this.writer.run(() => {
      for (const [id, at] of uses) this.#statements.touch.run({ id, at });
    });
  }

  /** Reads the keys in force again when another connection has committed since the last look. */
  #poll(): void {
    const found = this.#statements.version.values()[0]?.[0];
    if (found !== this.#version) {
      this.reload();
      this.#version = found;
    }
    this.#polledAt = this.#clock.monotonic();
  }

  /** Reads all keys in force, and tells of those that were in force and are no longer. */
  reload(): void {
    const live = new Map<string, LiveKey>();
    for (const { hash, id, kind, accountId, plan } of this.#statements.load.all()) {
      live.set(hash.toString("hex"), { kind, caller: { accountId, plan, keyId: id } });
    }
    const before = this.#live;
    this.#live = live;
    for (const [hash, { caller }] of before) {
      if (!live.has(hash)) this.#tellRevoked(caller.keyId);
    }
  }

  #tellRevoked(keyId: string): void {
    for (const callback of this.#revoked) {
      try {
        callback(keyId);
      } catch (thrown) {
        // One listener's fault must not keep the others from hearing.
        this.#onFault(thrown);
      }
    }
  }
}
