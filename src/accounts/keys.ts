import { and, asc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Store } from "../db/open.ts";
import { account, apiKey, type KeyKind } from "../db/schema.ts";
import { keySpend } from "../db/schema-keys.ts";
import type { Writer } from "../db/writer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { newId } from "../lib/id.ts";
import { repeat } from "../lib/repeat.ts";
import { AccountError } from "./account-error.ts";
import type { Caller } from "./caller.ts";
import { hashKey, makeKey, parseKey, shownParts } from "./key-form.ts";
import {
  type KeyCaps,
  type KeyRow,
  LIVE,
  type LiveColumns,
  type LiveKey,
  limitsOf,
  readLive,
  SHOWN,
  toCaps,
  toColumns,
  toLive,
  toRow,
} from "./key-row.ts";
import { checkLimits, type KeyLimits } from "./key-wish.ts";
import { checkName } from "./name.ts";

/** Before a key is looked up, changes by other processes are checked for if the last check is at least this old, ms. */
const POLL_MS = 10;
/** How often they are checked for without look-ups, for the sake of requests that are running, ms. */
const WATCH_MS = 500;
/** How often last uses are written, ms. */
const LAST_USED_MS = 60_000;
/** Most last uses that one transaction writes. */
const LAST_USED_BATCH = 256;
/** Fewest characters by which a key may be abbreviated. */
const MIN_ABBREVIATION = 6;

/** A key that was just made. `key`, the key itself, is shown this once. */
export type CreatedKey = KeyRow & { key: string };

/** A key to be made. It does not have the limits that are absent. */
export type NewKey = { accountId: string; name: string; kind: KeyKind } & Partial<KeyLimits>;
/** Changes to a key: what is absent stays as it is, null removes a limit. */
export type KeyChange = { name?: string } & Partial<KeyLimits>;

/** Narrow tokens are listed apart from keys. */
export type KeyList = "keys" | "tokens";
export type KeyPage = { accountId?: string | undefined; after?: string | undefined; limit: number };

/** The endpoints at which a key was presented: those of callers, or the operator's. */
export type Door = "keys" | "admin";

/** What a {@link Doorman} may read of a request. */
type Asking = { readonly method: string; readonly url: string; readonly headers: Fields };

/** Bounds how many wrong keys an address may present. */
export type Doorman = {
  /** To be called when a request presented no key in force. Throws GatewayError (rate_limit_exceeded) when its address has presented too many and must wait. */
  refuse(request: Asking, door: Door): void;
};

export type KeysOptions = {
  clock?: Clock;
  /** Is given what the work in the background throws, such as a last use that could not be written. Absent: it goes to standard error. */
  onFault?: (thrown: unknown) => void;
};

/** The statements that write: prepared when a key is first made or its use first written, not at the start. */
function prepareWrites(store: Store) {
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
        expiresAt: given("expiresAt"),
        models: given("models"),
        endpoints: given("endpoints"),
        capDayNano: given("capDayNano"),
        capTotalNano: given("capTotalNano"),
        capRequestsDay: given("capRequestsDay"),
      })
      .prepare(),
    touch: store.query
      .update(apiKey)
      .set({ lastUsedAt: sql`${given("at")}` })
      .where(eq(apiKey.id, given("id")))
      .prepare(),
  };
}

/** The statements that every start runs. Without the query builder: to map ten thousand rows by name takes longer than to read them, and blocks the event loop. */
function prepareReads({ database }: Store) {
  const columns = Object.values(LIVE).map(({ name }) => `api_key.${name}`);
  return {
    load: database.prepare(
      `select lower(hex(api_key.hash)), account.plan, ${columns.join(", ")}
       from api_key inner join account on account.id = api_key.account_id where api_key.revoked_at is null`,
    ),
    version: database.prepare("PRAGMA data_version"),
  };
}

/**
 * The keys: made, listed, changed, revoked, and looked up for every request. Those in force are in memory, by hash, so that a look-up asks no
 * database. A change through this object counts at once. A change by another process (`sluice keys revoke` beside a server) is noticed
 * by `PRAGMA data_version`, which is read before a look-up if the last reading is 10 ms old or the key is not known, and by the timer of
 * `watch`, for streams that are running.
 */
export class Keys {
  /** Bounds attempts with wrong keys; absent where the app does not know its callers' addresses. */
  doorman: Doorman | undefined;
  #live = new Map<string, LiveKey>();
  #capped = new Map<string, KeyCaps>();
  #version: unknown;
  #polledAt = Number.NEGATIVE_INFINITY;
  #touched = new Map<string, number>();
  #writtenAt: number;
  /** The wall clock at the last round of `watch`, Unix ms. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  readonly #revoked = new Set<(keyId: string) => void>();
  readonly #reads: ReturnType<typeof prepareReads>;
  #prepared: ReturnType<typeof prepareWrites> | undefined;
  readonly #clock: Clock;
  readonly #onFault: (thrown: unknown) => void;

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    options: KeysOptions = {},
  ) {
    this.#clock = options.clock ?? systemClock;
    this.#onFault = options.onFault ?? ((thrown) => console.error(thrown));
    this.#reads = prepareReads(store);
    this.#writtenAt = this.#clock.monotonic();
    this.#poll();
  }

  get #writes(): ReturnType<typeof prepareWrites> {
    this.#prepared ??= prepareWrites(this.store);
    return this.#prepared;
  }

  /**
   * The caller that this key belongs to; undefined when it has not the form of a key, is unknown, revoked or expired. A key of another kind
   * is unknown: an admin key never calls a model (contract 4). Found by its hash, so that the time it takes tells nothing about other keys.
   */
  find(presented: string, kind: KeyKind = "api"): Caller | undefined {
    if (parseKey(presented) !== kind) return undefined;
    const now = this.#clock.monotonic();
    if (now - this.#polledAt >= POLL_MS) this.#poll();
    const found = this.#known(hashKey(presented));
    if (found?.kind !== kind) return undefined;
    const at = this.#clock.now();
    if (at >= found.expiresAt) return undefined;
    this.#touched.set(found.caller.keyId, at);
    return found.caller;
  }

  /** A key that is not in memory is looked for once more: another process may have made it a moment ago, and told its user that it works. */
  #known(hash: string): LiveKey | undefined {
    const found = this.#live.get(hash);
    if (found) return found;
    this.#poll();
    return this.#live.get(hash);
  }

  /** The caps of a key in force; undefined for one without. */
  capsOf(keyId: string): KeyCaps | undefined {
    return this.#capped.size === 0 ? undefined : this.#capped.get(keyId);
  }

  /** Makes a key for an account. Throws AccountError when there is no such account, or the name or the limits are not valid. */
  async create(wanted: NewKey): Promise<CreatedKey> {
    const { created, plan } = await this.writer.run(() => {
      const owner = this.store.query.select().from(account).where(eq(account.id, wanted.accountId)).get();
      if (!owner) throw new AccountError(`There is no account ${wanted.accountId}.`);
      return { created: this.insert(wanted), plan: owner.plan };
    });
    const { key, ...row } = created;
    const live = toLive(row, plan);
    this.#live.set(hashKey(key), live);
    if (live.caps) this.#capped.set(row.id, live.caps);
    return created;
  }

  /**
   * Writes a new key inside an operation of the writer; `reload` has to follow once that is committed. For callers that make an
   * account and its key in one step. Throws AccountError when the name or the limits are not valid.
   */
  insert(wanted: NewKey): CreatedKey {
    const { accountId, kind } = wanted;
    const name = checkName(wanted.name, "A key's");
    const createdAt = this.#clock.now();
    const limits = limitsOf(wanted);
    checkLimits(kind, limits, createdAt);
    const key = makeKey(kind);
    const id = newId(kind === "token" ? "tok" : "key");
    const row = { id, accountId, kind, name, ...shownParts(key), createdAt };
    this.#writes.insert.run({ ...row, ...toColumns(limits), hash: Buffer.from(hashKey(key), "hex") });
    return { ...row, ...limits, lastUsedAt: null, revokedAt: null, key };
  }

  /** All keys, revoked and expired ones included, oldest first. Narrow tokens are in {@link listTokens}. */
  list(): KeyRow[] {
    return this.#rows("keys").all().map(toRow);
  }

  /** All narrow tokens, as {@link list}. */
  listTokens(): KeyRow[] {
    return this.#rows("tokens").all().map(toRow);
  }

  /** At most `limit` keys of a list: the first ones, or those behind the key with the id `after`. Undefined: that key is not in the list. */
  page(list: KeyList, { accountId, after, limit }: KeyPage): KeyRow[] | undefined {
    if (after === undefined) return this.#rows(list, accountId).limit(limit).all().map(toRow);
    const last = this.listed(list, after);
    if (!last || (accountId !== undefined && last.accountId !== accountId)) return undefined;
    const behind = sql`(${apiKey.createdAt}, ${apiKey.id}) > (${last.createdAt}, ${last.id})`;
    return this.#rows(list, accountId, behind).limit(limit).all().map(toRow);
  }

  /** The key with this full id; undefined where it is not in that list. */
  listed(list: KeyList, id: string): KeyRow | undefined {
    const row = this.store.query.select(SHOWN).from(apiKey).where(eq(apiKey.id, id)).get();
    return row && (row.kind === "token") === (list === "tokens") ? toRow(row) : undefined;
  }

  /** A list in its order, of all accounts or of one: there is an index for each. */
  #rows(list: KeyList, accountId?: string, behind?: SQL) {
    const isToken = sql`(${apiKey.kind} = 'token') = ${list === "tokens" ? 1 : 0}`;
    const owned = accountId === undefined ? undefined : eq(apiKey.accountId, accountId);
    const rows = this.store.query
      .select(SHOWN)
      .from(apiKey)
      .where(and(owned, isToken, behind));
    return rows.orderBy(asc(apiKey.createdAt), asc(apiKey.id));
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
    this.#end(row.id);
    return row;
  }

  /**
   * Renames a key or changes what it may do; `name` means a key as in {@link revoke}. What is not named stays. Counts on the next request;
   * caps count what is used from then on, where the key had none. Throws AccountError as {@link create} and {@link revoke} do, and
   * for a key that is revoked.
   */
  async change(name: string, change: KeyChange): Promise<KeyRow> {
    const row = await this.writer.run(() => {
      const found = this.#meant(name);
      if (found.revokedAt !== null)
        throw new AccountError(`The key ${found.id} is revoked: it is not changed any more.`);
      const limits = limitsOf(change, found);
      const now = this.#clock.now();
      // An expiry that is not changed is checked as of a time before it, so that an expired key can still be renamed.
      const asOf = change.expiresAt === undefined ? Math.min(now, (found.expiresAt ?? now + 1) - 1) : now;
      checkLimits(found.kind, limits, asOf);
      const renamed = change.name === undefined ? found.name : checkName(change.name, "A key's");
      const changed = { ...found, ...limits, name: renamed };
      const columns = { name: changed.name, ...toColumns(limits) };
      this.store.query.update(apiKey).set(columns).where(eq(apiKey.id, found.id)).run();
      if (!toCaps(found)) this.store.query.delete(keySpend).where(eq(keySpend.keyId, found.id)).run();
      return changed;
    });
    this.reload();
    return row;
  }

  /** Forgets the key with this id. */
  #end(keyId: string): void {
    for (const [hash, { caller }] of this.#live) if (caller.keyId === keyId) this.#forget(hash, keyId);
  }

  /** Takes a key from memory and calls the listeners of {@link onRevoked}. */
  #forget(hash: string, keyId: string): void {
    this.#live.delete(hash);
    this.#capped.delete(keyId);
    this.#tellRevoked(keyId);
  }

  #meant(name: string): KeyRow {
    const exact =
      parseKey(name) === undefined ? eq(apiKey.id, name) : eq(apiKey.hash, Buffer.from(hashKey(name), "hex"));
    const row = this.store.query.select(SHOWN).from(apiKey).where(exact).get();
    if (row) return toRow(row);
    const fits = (key: KeyRow) => key.id.startsWith(name) || key.prefix.startsWith(name);
    const rows = name.length < MIN_ABBREVIATION ? [] : [...this.list(), ...this.listTokens()].filter(fits);
    if (rows.length === 1 && rows[0]) return rows[0];
    // Never repeat what was given: it may be a whole key with a slip in it.
    if (rows.length === 0)
      throw new AccountError("No key or token fits. `sluice keys list` and `sluice tokens list` show their ids.");
    throw new AccountError(`${rows.length} keys fit. Give the whole id: ${rows.map((key) => key.id).join(", ")}.`);
  }

  /** Calls back with the id of every key that is revoked, by this process or another, or expires. Returns a function that ends this. */
  onRevoked(callback: (keyId: string) => void): () => void {
    this.#revoked.add(callback);
    return () => this.#revoked.delete(callback);
  }

  /**
   * Starts the work in the background: it checks for other processes' changes and for expired keys twice a second, and writes last uses
   * every minute. Returns a function that ends it.
   */
  watch(): () => void {
    const look = () => {
      this.#poll();
      this.#endExpired();
      return this.#clock.monotonic() - this.#writtenAt >= LAST_USED_MS ? this.saveLastUses() : undefined;
    };
    return repeat(this.#clock, { everyMs: WATCH_MS }, look, this.#onFault);
  }

  /** Writes when keys were last used, at most 256 at a time; the rest follows with the next tick. Rejects as the writer does. */
  async saveLastUses(): Promise<void> {
    const uses = [...this.#touched].slice(0, LAST_USED_BATCH);
    for (const [id] of uses) this.#touched.delete(id);
    if (this.#touched.size === 0) this.#writtenAt = this.#clock.monotonic();
    if (uses.length === 0) return;
    await this.writer.run(() => {
      for (const [id, at] of uses) this.#writes.touch.run({ id, at });
    });
  }

  /** Writes all last uses that are still to be written. Never rejects: what is thrown goes to `onFault`. */
  async close(): Promise<void> {
    try {
      while (this.#touched.size > 0) await this.saveLastUses();
    } catch (thrown) {
      this.#onFault(thrown);
    }
  }

  #endExpired(): void {
    const now = this.#clock.now();
    // The clock was ahead and has been set back: keys that had expired by the wrong time alone are in force again.
    if (now < this.#lookedAt) this.reload();
    this.#lookedAt = now;
    for (const [hash, { caller, expiresAt }] of this.#live) if (now >= expiresAt) this.#forget(hash, caller.keyId);
  }

  /** Reads the keys in force again when another connection has committed since the last look. */
  #poll(): void {
    const found = this.#reads.version.values()[0]?.[0];
    if (found !== this.#version) {
      this.reload();
      this.#version = found;
    }
    this.#polledAt = this.#clock.monotonic();
  }

  /** Reads all keys in force, and calls the listeners of {@link onRevoked} for those that no longer are. */
  reload(): void {
    const live = new Map<string, LiveKey>();
    const capped = new Map<string, KeyCaps>();
    const now = this.#clock.now();
    for (const [hash, plan, ...columns] of this.#reads.load.values() as [string, string, ...LiveColumns][]) {
      const key = readLive(columns, plan);
      if (now >= key.expiresAt) continue;
      live.set(hash, key);
      if (key.caps) capped.set(key.caller.keyId, key.caps);
    }
    const before = this.#live;
    this.#live = live;
    this.#capped = capped;
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
