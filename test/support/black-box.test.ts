import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { PLAIN_CONFIG, type TestApp, vendorAt } from "./app.ts";
import { buildBinary } from "./binary.ts";
import { startOutside } from "./black-box.ts";
import { INSIDE_ONLY, InsideOnly, oneProcessOnly, sealed, writeConfigFile } from "./black-box-config.ts";
import { manualClock } from "./clock.ts";
import { json, neverAnswer, startUpstream, type Upstream } from "./upstream.ts";

// The executable may have to be built first.
setDefaultTimeout(60_000);

const PATH = "/v1/chat/completions";
const REPLY = {
  choices: [{ index: 0, message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
};

let upstream: Upstream;
let app: TestApp | undefined;
afterEach(async () => {
  await app?.stop().catch(() => undefined);
  app = undefined;
});

/** An executable in front of a scripted vendor, with a model that costs. */
async function start(more: { clock?: ReturnType<typeof manualClock> } = {}): Promise<TestApp> {
  upstream = startUpstream();
  const models = [{ id: "lab/m", pricing: { input: 1, output: 2 } }];
  const config = { ...PLAIN_CONFIG, models };
  app = await startOutside(buildBinary(), config, { vendors: [vendorAt(upstream, "chat", "lab")], ...more });
  return app;
}

describe("a gateway seen from outside", () => {
  test("answers, and shows its rows, its log, its figures and its books", async () => {
    const started = await start();
    const { app: parts, post, rows, accountId, stop, version } = started;
    upstream.always(PATH, json(REPLY));
    const response = await post(PATH, { model: "lab/m", messages: [{ role: "user", content: "Hi" }] });
    expect([response.status, upstream.calls.length]).toEqual([200, 1]);
    expect(rows()).toMatchObject([{ model: "lab/m", input: 11, output: 7, outcome: "completed" }]);
    expect(started.log.some(({ event }) => event === "generate")).toBe(true);
    expect(parts.running.count).toBe(0);
    expect(parts.book.balance(accountId)).toMatchObject({ postedNano: 0n, heldNano: 0n });
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
    await stop();
  });

  test("hears of a key that is made and revoked, and forgets trouble, as by an operator's hand", async () => {
    const { app: parts, accountId, call } = await start();
    const made = await parts.keys.create({ accountId, kind: "api", name: "second" });
    const list = () => call("/v1/account", { headers: { authorization: `Bearer ${made.key}` } });
    expect((await list()).status).toBe(200);
    await parts.keys.revoke(made.id);
    expect((await list()).status).toBe(401);
    parts.services.health.forgetTrouble();
    expect((await call("/healthz")).status).toBe(200);
  });

  test("leaves out what it does not have: parts, and a clock that is turned", async () => {
    const clock = manualClock();
    const { app: parts, post } = await start({ clock });
    expect(() => parts.services.ledger).toThrow(INSIDE_ONLY);
    expect(() => parts.catalog).toThrow(InsideOnly);
    parts.services.pause = () => Promise.resolve();
    upstream.always(PATH, neverAnswer());
    const asking = post(PATH, { model: "lab/m", messages: [{ role: "user", content: "Hi" }] });
    await upstream.called();
    await expect(clock.advance(1)).rejects.toThrow(INSIDE_ONLY);
    await expect(asking).rejects.toThrow(INSIDE_ONLY);
  });

  test.skipIf(process.platform !== "linux")(
    "is started with more flags; with workers, what each process knows by itself is not looked at",
    async () => {
      const before = process.env["SLUICE_TEST_FLAGS"];
      try {
        process.env["SLUICE_TEST_FLAGS"] = "";
        expect(() => oneProcessOnly("a breaker")).not.toThrow();
        process.env["SLUICE_TEST_FLAGS"] = "--workers 1";
        expect(() => oneProcessOnly("a breaker")).toThrow(`${INSIDE_ONLY}: one process, for a breaker`);
        const { call, stop } = await start();
        expect(await (await call("/metrics")).text()).toMatch(/^sluice_workers 1$/m);
        await stop();
      } finally {
        process.env["SLUICE_TEST_FLAGS"] = before ?? "";
      }
    },
  );

  test("is failed when it leaves books that are wrong", async () => {
    const { store, app: parts, accountId, stop } = await start();
    await parts.book.deposit({ accountId, amountNano: 5n, reference: "one" });
    // As a fault of the ledger would: an amount without its other side.
    const changed = store.database.run("UPDATE ledger_account SET posted = posted + 1 WHERE kind = 'wallet'");
    expect(changed.changes).toBeGreaterThan(0);
    await expect(stop()).rejects.toThrow("the books are not right");
  });
});

describe("the file that says a configuration", () => {
  test("says what the test's own gateway would have", () => {
    const upstreamless = { url: "http://127.0.0.1:9" } as Upstream;
    const vendors = [{ ...vendorAt(upstreamless, "messages", "m", { noAddedCacheMarks: true }), models: ["a"] }];
    const config = { ...PLAIN_CONFIG, limits: { blockingSeconds: 3 }, search: [{ engine: "fixture" as const }] };
    expect(writeConfigFile(config, vendors)).toMatchObject({
      vendors: [{ id: "m", api_key: "vendor-key-of-m", models: ["a"], quirks: { no_added_cache_marks: true } }],
      limits: { blocking_seconds: 3 },
      web: { search: { engine: ["fixture"] } },
      request_log: { enabled: false },
      local_discovery: false,
    });
    const own = { ...vendorAt(upstreamless, "chat"), serve: () => Promise.resolve(new Response()) };
    expect(() => writeConfigFile(config, [own])).toThrow("a vendor's serve");
    expect(() => writeConfigFile({ ...config, limits: { blockingSeconds: 0.2 } }, [])).toThrow(InsideOnly);
  });

  test("what is sealed gives what it has and refuses the rest", () => {
    const parts = sealed("parts", { here: 1 }, ["ignored"]) as { here: number; ignored?: number; gone?: number };
    expect(parts.here).toBe(1);
    parts.ignored = 2;
    expect(() => parts.gone).toThrow("parts.gone");
    expect(() => {
      parts.gone = 3;
    }).toThrow(InsideOnly);
  });
});
