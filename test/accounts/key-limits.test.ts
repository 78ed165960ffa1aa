import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { AccountError } from "../../src/accounts/account-error.ts";
import { Accounts } from "../../src/accounts/accounts.ts";
import { hashKey, parseKey } from "../../src/accounts/key-form.ts";
import { type KeyChange, Keys } from "../../src/accounts/keys.ts";
import { matchesPattern, requireEndpoint, requireModel, scopesOf } from "../../src/accounts/scopes.ts";
import { type NewToken, toKey } from "../../src/accounts/tokens.ts";
import { GatewayError } from "../../src/canon/errors.ts";
import { migrate, migrationsFolder } from "../../src/db/migrations.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { SCOPES } from "../../src/wire/scopes.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { manualClock } from "../support/clock.ts";
import { countWork } from "../support/wait.ts";

const DAY_MS = 86_400_000;
const folder = temporaryFolders();

async function open() {
  const store = openStore(":memory:");
  const clock = manualClock();
  const writer = new Writer(store);
  const keys = new Keys(store, writer, { clock });
  const made = await new Accounts(store, writer, keys, clock).ensureLocal();
  if (!made) throw new Error("the store was not empty");
  // What is made next is a later row, whatever its random id.
  await clock.advance(1);
  const accountId = made.account.id;
  const make = (more: KeyChange = {}) => keys.create({ accountId, name: "k", kind: "api", ...more });
  const makeToken = (wish: NewToken) => keys.create({ accountId, ...toKey(wish, clock.now()) });
  return { store, clock, writer, keys, accountId, make, makeToken };
}

describe("keys that expire", () => {
  test("to the millisecond, on the look-up itself; the wall clock counts", async () => {
    const { clock, keys, make } = await open();
    const { key, id } = await make({ expiresAt: clock.now() + 1_000 });
    await clock.advance(999);
    expect(keys.find(key)?.keyId).toBe(id);
    await clock.advance(1);
    expect(keys.find(key)).toBeUndefined();
    // It is listed still, and neither revoked nor forgotten.
    expect(keys.list().find((row) => row.id === id)).toMatchObject({ revokedAt: null });
  });

  test("one that ended by a clock that stood ahead counts again once the clock is set right, also where it was so at the start", async () => {
    const { clock, store, writer, keys, make } = await open();
    const right = clock.now();
    const { key, id } = await make({ expiresAt: right + DAY_MS });
    const stop = keys.watch();
    clock.setWall(right + 2 * DAY_MS);
    await clock.advance(600);
    expect(keys.find(key)).toBeUndefined();
    const later = new Keys(store, writer, { clock });
    const stopLater = later.watch();
    await clock.advance(600);
    clock.setWall(right);
    await clock.advance(600);
    expect([keys, later].map((each) => each.find(key)?.keyId)).toEqual([id, id]);
    stop();
    stopLater();
  });

  test("whoever listens is told once, within half a second, without any look-up", async () => {
    const { clock, keys, make } = await open();
    const { id } = await make({ expiresAt: clock.now() + 1_000 });
    const { id: forever } = await make();
    const told: string[] = [];
    keys.onRevoked((keyId) => told.push(keyId));
    const stop = keys.watch();
    await clock.advance(999);
    expect(told).toEqual([]);
    await clock.advance(501);
    expect(told).toEqual([id]);
    await clock.advance(10_000);
    expect(told).not.toContain(forever);
    expect(told).toHaveLength(1);
    stop();
  });

  test("ten thousand of one end are ended in one look, and not each by a look at all", async () => {
    const { clock, keys, writer, accountId } = await open();
    const expiresAt = clock.now() + 1_000;
    await writer.run(() => {
      for (let made = 0; made < 10_000; made++) keys.insert({ accountId, name: "k", kind: "api", expiresAt });
    });
    keys.reload();
    let told = 0;
    keys.onRevoked(() => told++);
    const stop = keys.watch();
    const work = countWork();
    await clock.advance(1_000);
    // Nobody is served meanwhile: it was 2,500.
    expect(work()).toBeLessThan(500);
    expect(told).toBe(10_000);
    stop();
  });

  test("one that has expired is not there after a restart, and can be given a new end", async () => {
    const { store, clock, writer, keys, make } = await open();
    const { key, id } = await make({ expiresAt: clock.now() + 1_000 });
    await clock.advance(2_000);
    const later = new Keys(store, writer, { clock });
    expect(later.find(key)).toBeUndefined();
    await keys.change(id, { name: "renamed while expired" });
    // Not one that is over as well, be it later than its own.
    await expect(keys.change(id, { expiresAt: clock.now() })).rejects.toBeInstanceOf(AccountError);
    expect(keys.find(key)).toBeUndefined();
    await keys.change(id, { expiresAt: clock.now() + 5_000 });
    expect(keys.find(key)?.keyId).toBe(id);
    await keys.change(id, { expiresAt: null });
    await clock.advance(DAY_MS);
    expect(keys.find(key)?.keyId).toBe(id);
  });
});

describe("renaming and changing", () => {
  test("what is named changes, counts at once, and nothing else does", async () => {
    const { keys, make } = await open();
    const { key, id, ...made } = await make({ models: ["a/*"] });
    const renamed = await keys.change(id, { name: " laptop " });
    expect(renamed).toEqual({ ...made, id, name: "laptop" });
    expect(keys.find(key)?.narrow).toEqual({ models: ["a/*"] });
    await keys.change(id, { models: null, endpoints: ["chat"], capRequestsDay: 5 });
    expect(keys.find(key)?.narrow).toEqual({ endpoints: ["chat"], capped: true });
    expect(keys.capsOf(id)).toEqual({ capDayNano: null, capTotalNano: null, capRequestsDay: 5 });
    await keys.change(id, { endpoints: null, capRequestsDay: null });
    expect(keys.find(key)?.narrow).toBeUndefined();
    expect(keys.capsOf(id)).toBeUndefined();
    expect(keys.list().find((row) => row.id === id)?.name).toBe("laptop");
  });

  test("a revoked key is not changed; a key is meant as for revoking", async () => {
    const { keys, make } = await open();
    const { key, id } = await make();
    await keys.change(key, { name: "by the key itself" });
    await keys.revoke(id);
    await expect(keys.change(id, { name: "x" })).rejects.toThrow("revoked");
    await expect(keys.change("key_none", { name: "x" })).rejects.toBeInstanceOf(AccountError);
    expect(keys.list().find((row) => row.id === id)?.name).toBe("by the key itself");
  });

  test.each<[string, KeyChange]>([
    ["an empty name", { name: " " }],
    ["an end in the past", { expiresAt: 1 }],
    ["an end that is no number", { expiresAt: Number.NaN }],
    ["no models", { models: [] }],
    ["a model with a space", { models: ["a/ b"] }],
    ["a vendor's name alone, which no ID is like", { models: ["a/*", "openai"] }],
    ["a pattern too long", { models: [`a/${"b".repeat(199)}`] }],
    ["too many patterns", { models: Array.from({ length: 101 }, (_, at) => `a/${at}`) }],
    ["no endpoints", { endpoints: [] }],
    ["an endpoint that is none", { endpoints: ["chats" as "chat"] }],
    ["a cap of nothing", { capDayNano: 0n }],
    ["a cap below nothing", { capTotalNano: -1n }],
    ["a cap beyond a million USD", { capTotalNano: 1_000_000_000_000_001n }],
    ["a cap of half a request", { capRequestsDay: 0.5 }],
    ["a cap of no request", { capRequestsDay: 0 }],
  ])("%s is refused, and nothing is written", async (_name, change) => {
    const { keys, make } = await open();
    const before = await make();
    await expect(keys.change(before.id, change)).rejects.toBeInstanceOf(AccountError);
    if (change.name === undefined) await expect(make(change)).rejects.toBeInstanceOf(AccountError);
    const { key: _key, ...row } = before;
    expect(keys.list().slice(1)).toEqual([row]);
  });

  test("the most of each there may be is taken", async () => {
    const { keys, make } = await open();
    const models = Array.from({ length: 100 }, (_, at) => `lab/${at}`.padEnd(200, "x"));
    const most = { models, capDayNano: 10n ** 15n, capTotalNano: 10n ** 15n, capRequestsDay: 1_000_000_000 };
    const { id } = await make(most);
    expect(keys.list().find((row) => row.id === id)).toMatchObject(most);
  });

  test("an admin key can expire, and has no other limits", async () => {
    const { keys, accountId, clock } = await open();
    const admin = { accountId, name: "root", kind: "admin" as const };
    await expect(keys.create({ ...admin, models: ["a/*"] })).rejects.toThrow("admin key");
    await expect(keys.create({ ...admin, capTotalNano: 1n })).rejects.toThrow("admin key");
    const { key } = await keys.create({ ...admin, expiresAt: clock.now() + 1 });
    expect(keys.find(key, "admin")).toBeDefined();
    await clock.advance(1);
    expect(keys.find(key, "admin")).toBeUndefined();
  });
});

describe("narrow tokens (contract 4)", () => {
  test("their form, their defaults, and what is known of them", async () => {
    const { makeToken, keys, store, clock, accountId } = await open();
    const { key, ...row } = await makeToken({ name: "browser" });
    expect(key).toMatch(/^slt-[0-9A-Za-z]{38}$/);
    expect(parseKey(key)).toBe("token");
    expect(row).toMatchObject({ kind: "token", endpoints: ["web"], capRequestsDay: 1_000 });
    expect(row.id).toStartWith("tok_");
    expect(row.expiresAt).toBe(clock.now() + 30 * DAY_MS);
    expect(keys.find(key, "token")).toEqual({
      accountId,
      plan: "local",
      keyId: row.id,
      narrow: { endpoints: ["web"], capped: true },
    });
    // It is no key, in no list of keys, and only its hash is kept.
    expect(keys.find(key)).toBeUndefined();
    expect(keys.find(key, "admin")).toBeUndefined();
    expect(keys.list().map(({ id }) => id)).not.toContain(row.id);
    expect(keys.listTokens()).toEqual([row]);
    expect(
      store.database.query("SELECT count(*) FROM api_key WHERE hex(hash) = ?").values(hashKey(key).toUpperCase()),
    ).toEqual([[1n]]);
  });

  test("90 days at the most, only their scopes, a cap of their own or none", async () => {
    const { makeToken, keys, accountId } = await open();
    const wish = { name: "t" };
    expect((await makeToken({ ...wish, days: 90 })).expiresAt).not.toBeNull();
    for (const days of [91, 90.01, 0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(makeToken({ ...wish, days })).rejects.toBeInstanceOf(AccountError);
    }
    await expect(makeToken({ ...wish, scopes: [] })).rejects.toBeInstanceOf(AccountError);
    await expect(makeToken({ ...wish, scopes: ["chat" as "web"] })).rejects.toBeInstanceOf(AccountError);
    await expect(
      keys.create({
        ...wish,
        accountId,
        kind: "token",
        endpoints: ["web"],
        models: ["a/*"],
        expiresAt: Date.now() + DAY_MS,
      }),
    ).rejects.toBeInstanceOf(AccountError);
    const uncapped = await makeToken({ ...wish, scopes: ["images:read", "web"], callsPerDay: null });
    expect([uncapped.endpoints, uncapped.capRequestsDay]).toEqual([["images:read", "web"], null]);
    // Not even by changing it later.
    await expect(keys.change(uncapped.id, { expiresAt: null })).rejects.toBeInstanceOf(AccountError);
    await expect(keys.change(uncapped.id, { endpoints: ["chat"] })).rejects.toBeInstanceOf(AccountError);
  });

  test("revoking counts at once", async () => {
    const { makeToken, keys } = await open();
    const { key, id } = await makeToken({ name: "t" });
    await keys.revoke(id);
    expect(keys.find(key, "token")).toBeUndefined();
  });
});

describe("models and endpoints", () => {
  test("patterns fit as a regular expression of the same meaning does (random)", () => {
    const letters = fc.constantFrom("a", "b", "/", ".", "-");
    const text = fc.array(letters, { maxLength: 12 }).map((parts) => parts.join(""));
    const pattern = fc.array(fc.oneof(letters, fc.constant("*")), { maxLength: 8 }).map((parts) => parts.join(""));
    let fits = 0;
    fc.assert(
      fc.property(pattern, text, (wanted, id) => {
        const source = wanted.replace(/[.]/g, "\\.").replace(/\*/g, ".*");
        const expected = new RegExp(`^${source}$`).test(id);
        if (expected) fits++;
        expect(matchesPattern(wanted, id)).toBe(expected);
      }),
      { numRuns: 5_000 },
    );
    expect(fits).toBeGreaterThan(50);
  });

  test("a pattern made to be slow is not", () => {
    const work = countWork();
    expect(matchesPattern(`${"*a".repeat(99)}b`, "a".repeat(10_000))).toBe(false);
    expect(work()).toBeLessThan(500);
  });

  test("a model outside of a key's patterns is refused by name", () => {
    const caller = { accountId: "a", plan: "local", keyId: "k", narrow: { models: ["openai/*", "sluice/echo"] } };
    expect(() => requireModel(caller, "openai/gpt-5")).not.toThrow();
    expect(() => requireModel(caller, "sluice/echo")).not.toThrow();
    for (const id of ["anthropic/claude", "sluice/echo2", "xopenai/gpt"]) {
      expect(() => requireModel(caller, id)).toThrow(GatewayError);
    }
    expect(() => requireModel({ ...caller, narrow: {} }, "anything/else")).not.toThrow();
  });

  test("each scope opens its paths, reading images is less than making them, and unknown paths are closed", () => {
    expect(scopesOf("POST", "/v1/chat/completions")).toEqual(["chat"]);
    expect(scopesOf("POST", "/v1/messages/count_tokens")).toEqual(["messages"]);
    expect(scopesOf("GET", "/v1/images/generations/x")).toEqual(["images", "images:read"]);
    expect(scopesOf("POST", "/v1/images/generations")).toEqual(["images"]);
    expect(scopesOf("DELETE", "/v1/images/generations/x")).toEqual(["images"]);
    expect(scopesOf("POST", "/mcp/web/t/slt-x")).toEqual(["web"]);
    expect(scopesOf("POST", "/v1/chatter")).toEqual([]);
    expect(scopesOf("POST", "/admin/v1/keys")).toEqual([]);
    const all = { accountId: "a", plan: "local", keyId: "k", narrow: { endpoints: SCOPES } };
    expect(() => requireEndpoint(all, "POST", "/v1/something/new")).toThrow(GatewayError);
  });
});

test("a store of before has its keys after the step, unlimited", async () => {
  const copy = join(folder(), "drizzle");
  cpSync(migrationsFolder(), copy, { recursive: true });
  const path = join(copy, "meta/_journal.json");
  const journal = JSON.parse(readFileSync(path, "utf8")) as { entries: { tag: string }[] };
  const only = journal.entries.filter(({ tag }) => tag === "0000_start");
  writeFileSync(path, JSON.stringify({ ...journal, entries: only }));
  const file = join(folder(), "sluice.db");
  const before = new Database(file, { create: true, safeIntegers: true });
  migrate(before, copy);
  const key = "sk-sluice-00000000000000000000000000000000000000";
  before.run("INSERT INTO account VALUES ('acct_1', 'local', 'local', 1)");
  before.run(
    `INSERT INTO api_key VALUES (x'${hashKey(key)}', 'key_1', 'acct_1', 'api', 'old', 'sk-sluice-0000', '0000', 1, 2, NULL),
      (x'${"ab".repeat(32)}', 'key_2', 'acct_1', 'admin', 'gone', 'p', 'l', 1, NULL, 3)`,
  );
  before.close();
  const store = openStore(file);
  const keys = new Keys(store, new Writer(store));
  expect(keys.list()).toMatchObject([
    { id: "key_1", name: "old", lastUsedAt: 2, revokedAt: null, expiresAt: null, models: null, capRequestsDay: null },
    { id: "key_2", kind: "admin", revokedAt: 3 },
  ]);
  expect(
    store.database.query("SELECT count(*) FROM sqlite_schema WHERE name IN ('api_key_id', 'api_key_account')").values(),
  ).toEqual([[2n]]);
  store.close();
});
