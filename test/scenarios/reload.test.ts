import { afterAll, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LOOK_MS, watchFiles } from "../../src/config/watch.ts";
import { OPEN_AFTER } from "../../src/vendors/breakers.ts";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { manualClock, settle } from "../support/clock.ts";
import { chatReply, json, startUpstream } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";

const PATH = "/v1/chat/completions";
const upstream = startUpstream();
const apps: TestApp[] = [];
const vendor = vendorAt(upstream, "chat", "lab");

async function appWith(...options: Parameters<typeof startApp>): Promise<TestApp> {
  const app = await startApp(...options);
  apps.push(app);
  return app;
}
const toRoute = ({ id }: { id: string }) => ({ vendor: id, model: "m" });
const listed = async (app: TestApp) => {
  const list = (await (await app.call("/v1/models")).json()) as { data: { id: string }[] };
  return list.data.map(({ id }) => id).filter((id) => !id.startsWith("sluice/"));
};

beforeEach(() => upstream.reset());
afterAll(async () => {
  for (const app of apps) await app.stop();
  upstream.close();
});

test("vendors, models, plans and limits are others; what was found after the start stays", async () => {
  const app = await appWith({ vendors: [{ ...vendor, models: "catalog" }], models: [{ id: "lab/old" }] });
  app.app.addVendor({ ...vendor, id: "found", models: ["near"] });
  const { plans } = app.app;
  const pro = plans.get("pro");
  const config = {
    ...PLAIN_CONFIG,
    models: [{ id: "lab/new" }],
    plans: { team: { requests_per_minute: 7 }, max: { requests_per_minute: 9 } },
    limits: { blockingSeconds: 5 },
  };
  app.app.reload({
    config,
    vendors: [
      { ...vendor, models: "catalog" },
      { ...vendor, id: "second", models: ["x"] },
    ],
  });
  expect(await listed(app)).toEqual(["lab/new", "second/x", "found/near"]);
  expect([plans.get("team")?.requestsPerMinute, plans.get("max")?.requestsPerMinute]).toEqual([7, 9]);
  expect(plans.get("pro")).toBe(pro!);
  expect(app.app.services.blockingMs).toBe(5_000);
  app.app.reload({ config: PLAIN_CONFIG, vendors: [] });
  expect(await listed(app)).toEqual(["found/near"]);
  expect([plans.has("team"), plans.get("max")?.requestsPerMinute]).toEqual([false, 240]);
});

test("a list that a vendor has told is kept while it is asked anew, and forgotten with the vendor", async () => {
  const discovering = { ...vendor, models: "discover" as const };
  const app = await appWith({ vendors: [discovering] });
  app.app.catalog.setDiscovered("lab", [{ name: "told" }]);
  app.app.reload({ config: PLAIN_CONFIG, vendors: [{ ...discovering, apiKey: "another-key" }] });
  expect(await listed(app)).toEqual(["lab/told"]);
  app.app.reload({ config: PLAIN_CONFIG, vendors: [] });
  app.app.reload({ config: PLAIN_CONFIG, vendors: [discovering] });
  expect(await listed(app)).toEqual([]);
});

test("what a vendor lists is there though another one takes its time", async () => {
  const slow = startUpstream();
  const { promise, resolve } = Promise.withResolvers<void>();
  slow.answer("/v1/models", async () => {
    await promise;
    return json({ data: [{ id: "late" }] });
  });
  upstream.always("/v1/models", json({ data: [{ id: "soon" }] }));
  try {
    const app = await appWith({
      vendors: [
        { ...vendorAt(slow, "chat", "slow"), models: "discover" },
        { ...vendor, models: "discover" },
      ],
    });
    let changes = 0;
    app.app.onChange(() => changes++);
    const all = app.app.discovery.askAll();
    await until(async () => (await listed(app)).includes("lab/soon"), "the models of the vendor that has answered");
    // Processes that work for this one are told as soon.
    expect(changes).toBe(1);
    resolve();
    expect(await all).toBe(true);
    expect(await listed(app)).toEqual(["slow/late", "lab/soon"]);
  } finally {
    resolve();
    slow.close();
  }
});

test("a list that was asked for before the vendor was changed is not taken for that of the changed one, however late it comes", async () => {
  const discovering = { ...vendor, models: "discover" as const };
  const app = await appWith({ vendors: [discovering] });
  const { promise, resolve } = Promise.withResolvers<void>();
  upstream.answer("/v1/models", async () => {
    await promise;
    return json({ data: [{ id: "old" }] });
  });
  upstream.always("/v1/models", json({ data: [{ id: "new" }] }));
  const late = app.app.discovery.askAll();
  await upstream.called();
  app.app.reload({ config: PLAIN_CONFIG, vendors: [{ ...discovering, apiKey: "another-key" }] });
  expect(await app.app.discovery.askAll()).toBe(true);
  resolve();
  await late;
  expect(await listed(app)).toEqual(["lab/new"]);
  expect([...app.app.standing().discovered.values()]).toEqual([[{ name: "new" }]]);
});

test("a key that was changed is used at once, though the old one had been given up", async () => {
  const app = await appWith({ vendors: [vendor] });
  app.app.services.pause = () => Promise.resolve();
  upstream.always(PATH, ({ headers }) =>
    headers["authorization"] === "Bearer mended"
      ? json({
          choices: [{ index: 0, message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }],
          usage: { prompt_tokens: 1, completion_tokens: 1 },
        })
      : json({ error: { message: "No" } }, { status: 401 }),
  );
  const ask = () => app.post(PATH, { model: "lab/any", messages: [{ role: "user", content: "Hi" }] });
  for (let count = 0; count < 6; count++) expect((await ask()).status).toBe(502);
  expect(app.app.services.health.calm).toBe(false);
  app.app.reload({ config: PLAIN_CONFIG, vendors: [{ ...vendor, apiKey: "mended" }] });
  expect(app.app.services.health.calm).toBe(true);
  expect((await ask()).status).toBe(200);
});

test.each([
  ["its old key is refused", 401, 1, "mended", "as new"],
  ["its old address is overloaded", 503, OPEN_AFTER, "mended", "as new"],
  ["another one was changed, and it stayed as it was", 503, OPEN_AFTER, vendor.apiKey, "elsewhere"],
])("requests under way while a vendor is changed tell of what it was: %s", async (_name, status, count, key, said) => {
  insideOnly("a configuration that is changed");
  const other = startUpstream();
  const models = [{ id: "lab/m", pricing: "free" as const, routes: [vendor, { id: "other" }].map(toRoute) }];
  const vendors = [vendor, vendorAt(other, "chat", "other")] as const;
  const app = await appWith({ vendors, models });
  const held = gate();
  upstream.always(PATH, ({ headers }) =>
    headers["authorization"] === "Bearer mended"
      ? json(chatReply("as new"))
      : { ...json({ error: { message: "No" } }, { status }), headersAfter: held.opened },
  );
  other.always(PATH, json(chatReply("elsewhere")));
  const ask = () => app.post(PATH, { model: "lab/m", messages: [{ role: "user", content: "Hi" }] });
  const before = Array.from({ length: count }, ask);
  await upstream.called(count - 1);
  app.app.reload({
    config: { ...PLAIN_CONFIG, models },
    vendors: [
      { ...vendor, apiKey: key },
      { ...vendors[1], apiKey: "other" },
    ],
  });
  held.open();
  for (const response of await Promise.all(before)) expect(await response.text()).toContain("elsewhere");
  expect(await (await ask()).text()).toContain(said);
  expect(upstream.calls.length - count).toBe(said === "as new" ? 1 : 0);
  other.close();
});

test("a file is taken when it stands still, once, and when it comes or goes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-watch-"));
  const file = join(folder, "sluice.yaml");
  const clock = manualClock();
  let changes = 0;
  const watch = await watchFiles([file, join(folder, "other.yaml")], clock, () => changes++);
  const look = async (times: number) => {
    for (let count = 0; count < times; count++) {
      await clock.advance(LOOK_MS);
      await until(() => clock.pending === 1, "the next look");
    }
  };
  await look(3);
  expect(changes).toBe(0);
  writeFileSync(file, "a");
  await look(1);
  writeFileSync(file, "ab");
  await look(1);
  // It has just changed again: nobody was told of the half.
  expect(changes).toBe(0);
  await look(4);
  expect(changes).toBe(1);
  rmSync(file);
  await look(4);
  expect(changes).toBe(2);
  writeFileSync(file, "abc");
  await watch.skip();
  await look(4);
  // Somebody else has read that.
  expect(changes).toBe(2);
  watch.stop();
  expect(clock.pending).toBe(0);
  rmSync(folder, { recursive: true });
});

test("who stops the watch in the midst of a look is told of nothing any more", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-watch-"));
  const file = join(folder, "sluice.yaml");
  const rounds: (() => void)[] = [];
  const after = (_ms: number, work: () => void) => {
    rounds.push(work);
    return () => {};
  };
  let changes = 0;
  const watch = await watchFiles([file], { ...manualClock(), after }, () => changes++);
  writeFileSync(file, "a");
  rounds[0]?.();
  await until(() => rounds.length === 2, "the next look");
  // This look would tell: the file has stood still.
  rounds[1]?.();
  watch.stop();
  await watch.skip();
  await settle();
  expect([changes, rounds.length]).toEqual([0, 2]);
  rmSync(folder, { recursive: true });
});
