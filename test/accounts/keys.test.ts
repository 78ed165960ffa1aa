import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { AccountError } from "../../src/accounts/account-error.ts";
import { Accounts } from "../../src/accounts/accounts.ts";
import { hashKey, makeKey } from "../../src/accounts/key-form.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { manualClock } from "../support/clock.ts";
import { planOf } from "../support/query-plans.ts";
import { statementsSeen } from "../support/statements.ts";

const folder = temporaryFolders();

/** One process's view of a store. */
function open(path: string) {
  const store = openStore(path, path === ":memory:" ? {} : { waitMs: 2_000 });
  const writer = new Writer(store);
  const clock = manualClock();
  const faults: unknown[] = [];
  const keys = new Keys(store, writer, { clock, onFault: (thrown) => faults.push(thrown) });
  return { store, writer, clock, keys, faults, accounts: new Accounts(store, writer, keys, clock) };
}

async function withLocal(path = ":memory:") {
  const side = open(path);
  const made = await side.accounts.ensureLocal();
  if (!made) throw new Error("the store was not empty");
  // What is made next is a later row, whatever its random id.
  await side.clock.advance(1);
  return { ...side, local: made.account, first: made.key };
}

describe("accounts", () => {
  test("the first start makes one account and one key; every later start makes nothing", async () => {
    const { accounts, keys, local, first } = await withLocal();
    expect(local).toMatchObject({ name: "local", plan: "local" });
    expect(await accounts.ensureLocal()).toBeUndefined();
    expect(await Promise.all([accounts.ensureLocal(), accounts.ensureLocal()])).toStrictEqual([undefined, undefined]);
    expect(accounts.list()).toEqual([local]);
    expect(keys.list()).toHaveLength(1);
    expect(keys.find(first.key)).toEqual({ accountId: local.id, plan: "local", keyId: first.id });
  });

  test("accounts are found by id and by name; a name is taken once; an empty one is none", async () => {
    const { accounts, local } = await withLocal();
    const team = await accounts.create({ name: " team ", plan: "pro" });
    expect(accounts.find(team.id)).toEqual(team);
    expect(accounts.find("team")).toEqual(team);
    expect(accounts.find("nobody")).toBeUndefined();
    await expect(accounts.create({ name: "team", plan: "pro" })).rejects.toThrow("already is an account team");
    await expect(accounts.create({ name: "  ", plan: "pro" })).rejects.toBeInstanceOf(AccountError);
    expect(accounts.list().map(({ id }) => id)).toEqual([local.id, team.id]);
  });

  test("another plan counts on the next request", async () => {
    const { accounts, keys, first } = await withLocal();
    await accounts.setPlan("local", "max");
    expect(keys.find(first.key)?.plan).toBe("max");
    await expect(accounts.setPlan("nobody", "max")).rejects.toThrow("no account nobody");
  });
});

describe("keys", () => {
  test("the key is nowhere in the store, and what is there is no key", async () => {
    const { store, keys, first } = await withLocal(join(folder(), "sluice.db"));
    store.database.query("PRAGMA wal_checkpoint(TRUNCATE)").all();
    const bytes = Buffer.from(await Bun.file(store.path).arrayBuffer());
    expect(bytes.includes(Buffer.from(hashKey(first.key), "hex"))).toBe(true);
    expect(bytes.includes(first.key)).toBe(false);
    expect(bytes.includes(first.key.slice(14, -4))).toBe(false);
    for (const stolen of [
      hashKey(first.key),
      Buffer.from(hashKey(first.key), "hex").toString("latin1"),
      `sk-sluice-${hashKey(first.key)}`,
    ])
      expect(keys.find(stolen)).toBeUndefined();
    expect(JSON.stringify(keys.list())).not.toContain(first.key);
    store.close();
  });

  test("an admin key is no key for models, and the other way round", async () => {
    const { keys, local, first } = await withLocal();
    const admin = await keys.create({ accountId: local.id, name: "root", kind: "admin" });
    expect(keys.find(admin.key)).toBeUndefined();
    expect(keys.find(admin.key, "admin")?.keyId).toBe(admin.id);
    expect(keys.find(first.key, "admin")).toBeUndefined();
  });

  test("a key of an unknown account or without a name is not made", async () => {
    const { accounts, keys, local } = await withLocal();
    await expect(keys.create({ accountId: "acct_none", name: "x", kind: "api" })).rejects.toThrow(
      "no account acct_none",
    );
    await expect(keys.create({ accountId: local.id, name: " ", kind: "api" })).rejects.toThrow("1 to 100 characters");
    // A name is shown in lists and sentences: what it does to a terminal is nobody's wish.
    for (const name of ["a\u001b[31mb", "a\nb", "a\u202eb"]) {
      await expect(keys.create({ accountId: local.id, name, kind: "api" })).rejects.toThrow("no control characters");
      await expect(accounts.create({ name, plan: "free" })).rejects.toThrow("no control characters");
    }
    expect(keys.list()).toHaveLength(1);
  });

  test("a list is read by pages, each by an index: every key of it once, in its order, though many share a millisecond", async () => {
    const { store, accounts, keys } = await withLocal();
    const owners = [accounts.list()[0]?.id, (await accounts.create({ name: "team", plan: "free" })).id];
    const insert = store.database.prepare(
      `INSERT INTO api_key (hash, id, account_id, kind, name, prefix, last4, created_at, expires_at, endpoints)
       VALUES (randomblob(32), ?, ?, ?, 'k', 'sk', 'last', ?, 9e15, '["web"]')`,
    );
    const kinds = ["api", "token", "admin"];
    for (let at = 0; at < 90; at++) {
      // Ids in another order than times: a clock was set back.
      insert.run(`key_${(at * 37) % 90}`, owners[at % 7 === 0 ? 1 : 0] ?? "", kinds[at % 3] ?? "", Math.floor(at / 8));
    }
    for (const list of ["keys", "tokens"] as const) {
      for (const accountId of [undefined, ...owners]) {
        const all = list === "keys" ? keys.list() : keys.listTokens();
        const whole = all.filter((row) => accountId === undefined || row.accountId === accountId);
        const inOrder = whole.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
        expect(whole).toEqual(inOrder);
        expect(whole.every(({ kind }) => (kind === "token") === (list === "tokens"))).toBe(true);
        const paged: typeof whole = [];
        for (let after: string | undefined; paged.length < whole.length; after = paged.at(-1)?.id) {
          const page = keys.page(list, { accountId, after, limit: 7 });
          expect(page?.length).toBe(Math.min(7, whole.length - paged.length));
          paged.push(...(page ?? []));
        }
        expect(paged).toEqual(whole);
        expect(keys.page(list, { accountId, after: whole.at(-1)?.id, limit: 7 })).toEqual([]);
      }
    }
    const [token] = keys.listTokens();
    const team = keys.list().find((row) => row.accountId === owners[1]);
    for (const after of ["key_none", token?.id]) expect(keys.page("keys", { after, limit: 7 })).toBeUndefined();
    expect(keys.page("keys", { accountId: owners[0], after: team?.id, limit: 7 })).toBeUndefined();
    const read = statementsSeen().filter(({ sql }) => /from "api_key" where .*order by .*limit/.test(sql));
    expect(read.length).toBeGreaterThanOrEqual(4);
    for (const { sql } of read)
      expect(planOf(store.database, sql)).toEqual([expect.stringMatching(/^SEARCH api_key USING INDEX/)]);
  });

  test("revoking counts at once, is told once, keeps its date, and touches no other key", async () => {
    const { keys, clock, local, first } = await withLocal();
    const second = await keys.create({ accountId: local.id, name: "second", kind: "api" });
    const told: string[] = [];
    keys.onRevoked(() => {
      throw new Error("a bad listener");
    });
    keys.onRevoked((id) => told.push(id));
    const row = await keys.revoke(first.id);
    expect(row.revokedAt).toBe(clock.now());
    expect(keys.find(first.key)).toBeUndefined();
    expect(keys.find(second.key)?.keyId).toBe(second.id);
    await clock.advance(1_000);
    expect(await keys.revoke(first.id)).toEqual(row);
    keys.reload();
    expect(told).toEqual([first.id]);
    expect(keys.list().map(({ revokedAt }) => revokedAt)).toEqual([row.revokedAt, null]);
  });

  test("a key is meant by its id, itself, or a beginning that fits one alone; a wrong name is not repeated", async () => {
    const { keys, local, first } = await withLocal();
    const made = [];
    for (const name of ["a", "b", "c"]) made.push(await keys.create({ accountId: local.id, name, kind: "api" }));
    const [a, b, c] = made;
    if (!a || !b || !c) throw new Error("three keys");
    expect((await keys.revoke(a.key)).id).toBe(a.id);
    expect((await keys.revoke(b.prefix)).id).toBe(b.id);
    expect((await keys.revoke(c.id.slice(0, 20))).id).toBe(c.id);
    await expect(keys.revoke("sk-sluice-")).rejects.toThrow("4 keys fit");
    await expect(keys.revoke("key_")).rejects.toThrow("No key or token fits");
    const unknown = makeKey("api");
    const thrown: unknown = await keys.revoke(unknown).catch((reason: unknown) => reason);
    expect(String(thrown)).toContain("No key or token fits");
    expect(String(thrown)).not.toContain(unknown.slice(10));
    expect(keys.find(first.key)?.keyId).toBe(first.id);
  });

  test("another process's key is seen at once, whenever others were looked for", async () => {
    const path = join(folder(), "sluice.db");
    const server = await withLocal(path);
    const command = open(path);
    expect(server.keys.find(server.first.key)).toBeDefined();
    const { key, id } = await command.keys.create({ accountId: server.local.id, name: "new", kind: "api" });
    expect(server.keys.find(key)?.keyId).toBe(id);
    command.store.close();
    server.store.close();
  });

  test("another process's keys and revocations are seen within 500 ms, on the look-up itself", async () => {
    const path = join(folder(), "sluice.db");
    const server = await withLocal(path);
    const command = open(path);
    const added = await command.keys.create({ accountId: server.local.id, name: "added", kind: "api" });
    await command.keys.revoke(server.first.id);
    const told: string[] = [];
    server.keys.onRevoked((id) => told.push(id));
    await server.clock.advance(500);
    expect(server.keys.find(server.first.key)).toBeUndefined();
    expect(server.keys.find(added.key)?.keyId).toBe(added.id);
    expect(told).toEqual([server.first.id]);
    command.store.close();
    server.store.close();
  });

  test("without any look-up the watch sees a revocation, for the streams that run; its end ends the timer", async () => {
    const path = join(folder(), "sluice.db");
    const server = await withLocal(path);
    const command = open(path);
    const told: string[] = [];
    server.keys.onRevoked((id) => told.push(id));
    const stop = server.keys.watch();
    await command.keys.revoke(server.first.id);
    await server.clock.advance(500);
    expect(told).toEqual([server.first.id]);
    stop();
    expect(server.clock.pending).toBe(0);
    expect(server.faults).toEqual([]);
    command.store.close();
    server.store.close();
  });

  test("all last uses are written at the end, however soon that comes", async () => {
    const { keys, clock, local, first, faults } = await withLocal();
    const many = [first.key];
    for (let at = 0; at < 299; at++)
      many.push((await keys.create({ accountId: local.id, name: `k${at}`, kind: "api" })).key);
    for (const key of many) keys.find(key);
    await keys.close();
    expect(keys.list().map(({ lastUsedAt }) => lastUsedAt)).toEqual(many.map(() => clock.now()));
    expect(faults).toEqual([]);
  });

  test("the last use is written once a minute, 256 keys at a time, and not per request", async () => {
    const { keys, store, clock, local, first, faults } = await withLocal();
    const many = [first.key];
    for (let at = 0; at < 299; at++)
      many.push((await keys.create({ accountId: local.id, name: `k${at}`, kind: "api" })).key);
    const stop = keys.watch();
    const used = () => keys.list().filter(({ lastUsedAt }) => lastUsedAt !== null).length;
    await clock.advance(59_000);
    const at = clock.now();
    for (let round = 0; round < 5; round++) for (const key of many) keys.find(key);
    expect(used()).toBe(0);
    await clock.advance(1_000);
    expect(used()).toBe(256);
    await clock.advance(500);
    expect(used()).toBe(300);
    expect(keys.list()[0]?.lastUsedAt).toBe(at);
    const changes = () => store.database.query("SELECT total_changes() AS n").get();
    const before = changes();
    await clock.advance(120_000);
    expect(changes()).toEqual(before);
    expect(faults).toEqual([]);
    stop();
  });

  test("the hot statements search, they do not scan", async () => {
    const { store } = await withLocal();
    const plan = (text: string) =>
      (store.database.query(`EXPLAIN QUERY PLAN ${text}`).all() as { detail: string }[]).map(({ detail }) => detail);
    for (const text of [
      "UPDATE api_key SET last_used_at = 1 WHERE id = 'x'",
      "SELECT * FROM api_key WHERE hash = x'00'",
      "SELECT * FROM api_key WHERE (kind = 'token') = 0 AND (created_at, id) > (1, 'x') ORDER BY created_at, id",
      "SELECT * FROM api_key WHERE account_id = 'x' AND (kind = 'token') = 1 AND (created_at, id) > (1, 'x') ORDER BY created_at, id",
      "SELECT * FROM account WHERE id = 'x' OR name = 'x'",
    ]) {
      const steps = plan(text);
      expect(steps.join("; ")).toContain("SEARCH");
      expect(steps.join("; ")).not.toMatch(/SCAN|TEMP B-TREE/);
    }
  });
});
