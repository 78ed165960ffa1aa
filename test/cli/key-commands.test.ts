import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { NO_LIMITS } from "../../src/accounts/key-wish.ts";
import { describeLimits, describeState, readCount, readExpiry, readLimits, readUsd } from "../../src/cli/key-limits.ts";
import { WrongUsage } from "../../src/cli/output.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { serve, sluice } from "./support.ts";

// Every command is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

const NOW = Date.UTC(2026, 0, 1);

describe("what the options say", () => {
  test.each([
    ["5", 5_000_000_000n],
    ["0.25", 250_000_000n],
    ["0.000000001", 1n],
    ["234567.123456789", 234_567_123_456_789n],
    ["1000000", 1_000_000_000_000_000n],
  ])("%s USD, to the nano", (text, nano) => {
    expect(readUsd("--cap-usd", text)).toBe(nano);
  });
  test.each(["0", "-1", "1e3", "0.0000000001", "5 USD", "", "1,5", "1000000.1", "12345678"])(
    "%p is no amount",
    (text) => {
      expect(() => readUsd("--cap-usd", text)).toThrow(WrongUsage);
    },
  );
  test.each(["0", "1.5", "-1", "x", "1e3", ""])("%p is no count", (text) => {
    expect(() => readCount("--cap-requests-day", text)).toThrow(WrongUsage);
  });
  test("times lie ahead", () => {
    expect(readExpiry("12h", NOW)).toBe(NOW + 43_200_000);
    expect(readExpiry("30d", NOW)).toBe(NOW + 30 * 86_400_000);
    expect(readExpiry("2027-01-31", NOW)).toBe(Date.UTC(2027, 0, 31));
    for (const text of ["0d", "2025-12-31", "yesterday", "30", "-1d"]) {
      expect(() => readExpiry(text, NOW)).toThrow(WrongUsage);
    }
  });
  test("none takes a limit away; what is not given is not there", () => {
    expect(readLimits({ expires: "none", models: "a/*, b/c", capUsd: "1" }, NOW)).toEqual({
      expiresAt: null,
      models: ["a/*", "b/c"],
      capTotalNano: 1_000_000_000n,
    });
    expect(readLimits({}, NOW)).toEqual({});
    for (const endpoints of ["chat,chats", ","]) expect(() => readLimits({ endpoints }, NOW)).toThrow(WrongUsage);
  });
  test("in words", () => {
    expect(describeLimits(NO_LIMITS)).toBe("-");
    expect(describeLimits({ ...NO_LIMITS, models: ["a/*"], capDayNano: 250_000_000n, capRequestsDay: 3 })).toBe(
      "a/*; 0.25 USD a day; 3 requests a day",
    );
    expect(describeLimits({ ...NO_LIMITS, endpoints: ["chat", "web"], capTotalNano: 5_000_000_000n })).toBe(
      "chat,web; 5 USD in all",
    );
    const row = { ...NO_LIMITS, revokedAt: null } as Parameters<typeof describeState>[0];
    expect(describeState(row, NOW)).toBe("in force");
    expect(describeState({ ...row, revokedAt: NOW, expiresAt: NOW }, NOW)).toBe("revoked 2026-01-01 00:00 UTC");
    expect(describeState({ ...row, expiresAt: NOW }, NOW)).toBe("expired 2026-01-01 00:00 UTC");
    expect(describeState({ ...row, expiresAt: NOW + 1 }, NOW)).toBe("until 2026-01-01 00:00 UTC");
  });
});

const json = async (words: string[]) => JSON.parse((await sluice(folder, [...words, "--json"])).stdout);

describe("keys and tokens on the command line", () => {
  test("a key with limits is made, changed and renamed; wrong wishes change nothing", async () => {
    const made = await json([
      "keys",
      "create",
      "--models",
      "a/*",
      "--endpoints",
      "chat",
      "--cap-usd",
      "5",
      "--expires",
      "7d",
    ]);
    expect(Object.keys(made)).toEqual(["id", "key", "name", "account"]);
    const [row] = await json(["keys", "list"]);
    expect(row).toMatchObject({ models: ["a/*"], endpoints: ["chat"], cap_total_usd: 5, cap_requests_day: null });
    expect(Date.parse(row.expires_at) - Date.parse(row.created_at)).toBeGreaterThan(6.9 * 86_400_000);
    const changed = await sluice(folder, [
      ...["keys", "change", made.id, "--models", "none", "--cap-requests-day", "9", "--name", "tower"],
    ]);
    expect([changed.code, changed.stdout.includes("9 requests a day")]).toEqual([0, true]);
    expect(changed.stdout).toStartWith(`${made.id} (tower): until `);
    const renamed = await json(["keys", "rename", made.id, "laptop"]);
    expect(renamed).toMatchObject({ id: made.id, name: "laptop", account_name: "local", cap_requests_day: 9 });
    expect((await sluice(folder, ["keys", "change", made.id])).code).toBe(2);
    expect((await sluice(folder, ["keys", "change", made.id, "--cap-usd", "0"])).code).toBe(2);
    expect((await sluice(folder, ["keys", "create", "--admin", "--cap-usd", "1"])).code).toBe(2);
    const rows = await json(["keys", "list"]);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ name: "laptop", models: null, endpoints: ["chat"], cap_requests_day: 9 });
  });

  test("a wish that is refused before the first start leaves that its key to show", async () => {
    for (const wish of [
      ["keys", "create", "--models", "no vendor"],
      ["keys", "create", "--admin", "--cap-usd", "1"],
      ["tokens", "create", "--expires", "91d"],
    ])
      expect((await sluice(folder, wish)).code).toBe(2);
    expect(await json(["accounts", "list"])).toEqual([]);
    const { key, stop } = await serve(folder, ["--port", "0"]);
    await stop();
    expect(key).toStartWith("sk-sluice-");
  });

  test("a token or an admin key made before the first start leaves that its key to show, once", async () => {
    expect((await sluice(folder, ["tokens", "create"])).code).toBe(0);
    expect((await sluice(folder, ["keys", "create", "--admin"])).code).toBe(0);
    const first = await serve(folder, ["--port", "0"]);
    await first.stop();
    expect(first.key).toStartWith("sk-sluice-");
    const second = await serve(folder, ["--port", "0"]);
    await second.stop();
    expect(second.key).toBe("");
    expect(await json(["accounts", "list"])).toMatchObject([{ name: "local", plan: "local" }]);
    expect(await json(["keys", "list"])).toMatchObject([{ kind: "admin" }, { kind: "api", account_name: "local" }]);
  });

  test("a key for an account of a store that is not there yet makes none: the accounts made next would be without local, and the first start without a key", async () => {
    for (const words of [
      ["keys", "create", "--account", "team"],
      ["tokens", "create", "--account", "team"],
    ]) {
      const { code, stderr } = await sluice(folder, words);
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("there is no store in") });
    }
    expect((await sluice(folder, ["accounts", "create", "team"])).code).toBe(1);
    expect((await sluice(folder, ["keys", "create", "--account", "local"])).code).toBe(0);
  });

  test("a token is made, listed apart from the keys, and revoked", async () => {
    const made = await json(["tokens", "create", "--name", "browser"]);
    expect(Object.keys(made)).toEqual(["id", "token", "name", "account", "expires_at"]);
    expect(made.token).toMatch(/^slt-[0-9A-Za-z]{38}$/);
    expect(Date.parse(made.expires_at) - Date.now()).toBeGreaterThan(29.9 * 86_400_000);
    const wish = ["--expires", "7d", "--scopes", "web,images:read", "--cap-requests-day", "5"];
    const wished = await sluice(folder, ["tokens", "create", ...wish]);
    expect(wished.stdout).toMatch(/^slt-[0-9A-Za-z]{38}\n$/);
    expect(wished.stderr).toMatch(/^Token tok_\w+ of account local, until 20.* UTC\. It is not shown again\.$/m);
    expect((await sluice(folder, ["tokens", "create", "--expires", "91d"])).code).toBe(2);
    expect((await sluice(folder, ["tokens", "create", "--scopes", "chat"])).code).toBe(2);
    expect((await sluice(folder, ["tokens", "revoke", made.id])).code).toBe(0);
    const rows = await json(["tokens", "list"]);
    expect(rows).toMatchObject([
      { id: made.id, kind: "token", endpoints: ["web"], cap_requests_day: 1000 },
      { name: "token", endpoints: ["web", "images:read"], cap_requests_day: 5, revoked_at: null },
    ]);
    expect((Date.parse(rows[1].expires_at) - Date.parse(rows[1].created_at)) / 86_400_000).toBeCloseTo(7, 2);
    expect(rows[0].revoked_at).not.toBeNull();
    expect(JSON.stringify(rows)).not.toContain(made.token);
    expect(await json(["keys", "list"])).toEqual([]);
  });
});
