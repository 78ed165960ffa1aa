import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { type App, createApp } from "../../src/app.ts";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Route } from "../../src/catalog/entry.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { JOB_MS } from "../../src/jobs/accept.ts";
import { VENDOR_PATIENCE_MS } from "../../src/jobs/recovery.ts";
import { DRAIN_MS, LEASE_MS, TICK_MS } from "../../src/jobs/scheduler.ts";
import { JobStore } from "../../src/jobs/store.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { DAY_MS } from "../../src/lib/spans.ts";
import { createLog } from "../../src/observe/log.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG } from "../support/app.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import { until, within } from "../support/wait.ts";
import { endHanging, hang, IMAGE, Painter, PNG, paintVendor } from "./lab.ts";

type Life = { app: App; store: Store; key: string; end(): Promise<void> };
type Row = {
  id: string;
  state: string;
  error_code: string | null;
  crashes: bigint;
  file: string | null;
  vendor_job: string | null;
  tries: bigint;
  run_after_ms: bigint;
};

/** The name of an image's file. */
const STORED = `${"0".repeat(32)}.png`;

const folders: string[] = [];
const lives: Life[] = [];
afterEach(async () => {
  endHanging();
  for (const life of lives.splice(0)) await life.end();
  for (const folder of folders.splice(0)) removeFolder(folder);
});

/** A gateway on a folder, like a process of its own: its boot is another one, and it takes over what an earlier one left. */
async function live(
  folder: string,
  vendors: readonly Vendor[],
  routes?: Route[],
  clock: Clock = systemClock,
  images: Config["images"] = PLAIN_CONFIG.images,
): Promise<Life> {
  const store = openStore(join(folder, "sluice.db"), { waitMs: 2_000 });
  const log = createLog({ level: "error", write: () => undefined });
  const config = {
    ...PLAIN_CONFIG,
    ...{ dataFolder: folder, images },
    models: [
      { id: "paint/a", modality: "image" as const, pricing: "free" as const, ...(routes && { routes }) },
      { id: "paint/priced", modality: "image" as const, pricing: { per_image: 0.02 } },
    ],
    // Whoever is on it pays for every image.
    plans: { pro: { images_per_day: 0 } },
  };
  const app = createApp({ config, vendors, store, clock, log, version: "0.0.0-test" });
  const writer = new Writer(store);
  const accounts = new Accounts(store, writer, app.keys);
  const made = await accounts.ensureLocal();
  const accountId = made?.account.id ?? accounts.list()[0]!.id;
  const { key } = await app.keys.create({ accountId, name: `k${lives.length}`, kind: "api" });
  await writer.close();
  const life = {
    ...{ app, store, key },
    async end() {
      await app.stop();
      store.close();
    },
  };
  lives.push(life);
  return life;
}

const newFolder = () => {
  const folder = makeFolder();
  folders.push(folder);
  return folder;
};

async function post(
  { app, key }: Pick<Life, "app" | "key">,
  model: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return app.gateway.answerRequest(
    new Request("http://localhost/v1/images/generations", {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify({ model, prompt: "a cat" }),
    }),
  );
}

async function create(life: Life): Promise<string> {
  const response = await post(life, "paint/a");
  expect(response.status).toBe(202);
  return ((await response.json()) as { id: string }).id;
}

const row = ({ store }: Life, id: string) =>
  store.database.query("SELECT * FROM image_job WHERE id = ?").get(id) as Row;
const claims = ({ store }: Life) =>
  (store.database.query("SELECT state FROM unit_claim").all() as { state: string }[]).map(({ state }) => state);
const ended = async (life: Life, id: string) => {
  await until(
    () =>
      row(life, id).state !== "queued" && row(life, id).state !== "dispatched" && row(life, id).state !== "fetching",
    "the end",
  );
  return row(life, id);
};

/** A first life that dies while its vendor works: it is not stopped, and what it does later counts for nothing. */
async function die(
  folder: string,
  painter: Painter,
): Promise<{ first: Life; id: string; late: ReturnType<typeof hang> }> {
  const late = hang();
  painter.create_ = [late.script];
  const first = await live(folder, [paintVendor("paint", painter)]);
  const id = await create(first);
  await until(() => painter.running === 1, "the call");
  return { first, id, late };
}

/** Four jobs at a vendor that never answers, and a fifth that waits for one of their slots; their ids. */
async function fillSlots(folder: string): Promise<string[]> {
  const painter = new Painter("none");
  painter.create_ = Array.from({ length: 5 }, () => hang().script);
  const first = await live(folder, [paintVendor("paint", painter)]);
  const ids: string[] = [];
  for (let at = 0; at < 5; at++) ids.push(await create(first));
  await until(() => painter.running === 4, "full slots");
  return ids;
}

/** A life on a clock of its own, in which the time is over that a vendor is waited for. */
async function liveWithout(
  folder: string,
  vendors: readonly Vendor[],
  routes?: Route[],
): Promise<Life & { clock: ManualClock }> {
  const clock = manualClock(Date.now());
  const life = await live(folder, vendors, routes, clock);
  await clock.armed(VENDOR_PATIENCE_MS);
  await clock.advance(VENDOR_PATIENCE_MS);
  return { ...life, clock };
}

describe("a job whose process died while its vendor worked", () => {
  test("fails uncharged where nobody can know, is never sent twice, and what comes late is dropped", async () => {
    const folder = newFolder();
    const { first, id, late } = await die(folder, new Painter("none"));
    const again = new Painter("none");
    const second = await live(folder, [paintVendor("paint", again)]);
    expect(await ended(second, id)).toMatchObject({ state: "failed", error_code: "interrupted" });
    expect(claims(second)).toEqual(["returned"]);
    late.end(IMAGE);
    for (let round = 0; round < 20; round++) await settle();
    expect(row(first, id)).toMatchObject({ state: "failed", error_code: "interrupted", file: null });
    expect(again.creates).toEqual([]);
    expect(second.app.book.verify()).toEqual([]);
  });

  test.each([
    ["of which nobody can know", "", { state: "failed", error_code: "interrupted" }, "returned"],
    ["at its second death", "crashes = 1", { state: "failed", error_code: "poisoned" }, "returned"],
    ["whose image is in its file", `state = 'fetching', file = '${STORED}'`, { state: "succeeded" }, "counted"],
  ])(
    "%s is looked after later where its end cannot be written at the start, and whoever waits is told",
    async (_name, left, end, claim) => {
      const folder = newFolder();
      const { first, id } = await die(folder, new Painter("none"));
      const { database } = first.store;
      if (left !== "") database.run(`UPDATE image_job SET ${left}`);
      if (end.state === "succeeded") await first.app.jobs.files.save(STORED, PNG);
      database.run(
        `CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = '${end.state}' BEGIN SELECT raise(ABORT, 'no'); END`,
      );
      const clock = manualClock(Date.now());
      const second = await live(folder, [paintVendor("paint", new Painter("none"))], undefined, clock);
      const asking = new Request(`http://localhost/v1/images/generations/${id}`, {
        headers: { authorization: `Bearer ${second.key}`, prefer: "wait=60" },
      });
      const waited = Promise.resolve(second.app.gateway.answerRequest(asking));
      for (let round = 0; round < 20; round++) await settle();
      second.store.database.run("DROP TRIGGER no");
      expect(["dispatched", "fetching"]).toContain(row(second, id).state);
      await clock.advance(LEASE_MS + 2 * TICK_MS);
      expect(await ended(second, id)).toMatchObject(end);
      expect(claims(second)).toEqual([claim]);
      const told = await within(waited, "the answer to whoever waits");
      expect(await told.json()).toMatchObject({ id, status: end.state });
    },
  );

  test("is sent again with the same key where its vendor knows it by that", async () => {
    const folder = newFolder();
    const painter = new Painter("resend");
    const { id } = await die(folder, painter);
    const again = new Painter("resend");
    const second = await live(folder, [paintVendor("paint", again)]);
    expect((await ended(second, id)).state).toBe("succeeded");
    expect(again.creates.map(({ key }) => key)).toEqual(painter.creates.map(({ key }) => key));
    expect(claims(second)).toEqual(["counted"]);
  });

  test("and whatever its first worker brings meanwhile is nobody's result", async () => {
    const folder = newFolder();
    const { first, id, late } = await die(folder, new Painter("resend"));
    const again = new Painter("resend");
    const result = hang();
    again.create_ = [result.script];
    const second = await live(folder, [paintVendor("paint", again)]);
    await until(() => again.running === 1, "the second call");
    let saved = "";
    const { files } = first.app.jobs;
    const remove = files.remove.bind(files);
    files.remove = async (name) => {
      await remove(name);
      saved = name;
    };
    late.end(IMAGE);
    await until(() => saved !== "", "the end of the late result");
    expect(row(second, id)).toMatchObject({ state: "dispatched", file: null });
    expect(claims(second)).toEqual(["claimed"]);
    result.end({ kind: "blocked", message: "No." });
    expect((await ended(second, id)).state).toBe("blocked");
    expect(await files.has(saved)).toBe(false);
  });

  test("is asked for by its name where its vendor gave one", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-7", pollAfterMs: 15_000 }];
    const first = await live(folder, [paintVendor("paint", painter)]);
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-7", "the name");
    const again = new Painter("resume");
    const second = await live(folder, [paintVendor("paint", again)]);
    expect((await ended(second, id)).state).toBe("succeeded");
    expect([again.creates.length, again.resumes]).toEqual([0, ["work-7"]]);
    expect(second.store.database.query("SELECT attempts FROM usage").get()).toEqual({ attempts: 1n });
  });

  test("waits for a vendor that gave it a name and is not there yet", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-9", pollAfterMs: 15_000 }];
    const first = await live(folder, [paintVendor("paint", painter)]);
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-9", "the name");
    const before = Date.now();
    const second = await live(folder, []);
    await until(() => row(second, id).state === "queued", "the wait");
    for (let round = 0; round < 20; round++) await settle();
    expect(row(second, id).state).toBe("queued");
    const { vendor_job: name, run_after_ms: runAfterMs } = row(second, id);
    expect([name, claims(second)]).toEqual(["work-9", ["claimed"]]);
    expect(Number(runAfterMs) - before).toBeGreaterThanOrEqual(10_000);
  });

  test.each([
    ["though the clock was set a day back meanwhile", -DAY_MS, { state: "succeeded" }],
    ["though less than that is left of its time", JOB_MS - VENDOR_PATIENCE_MS / 2, { error_code: "timeout" }],
  ])("waits for such a vendor %s", async (_what, laterMs, end) => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-8", pollAfterMs: 15_000 }];
    const createdMs = Date.now();
    const first = await live(folder, [paintVendor("paint", painter)], undefined, manualClock(createdMs));
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-8", "the name");
    const clock = manualClock(createdMs + laterMs);
    const second = await live(folder, [], undefined, clock);
    await clock.advance(VENDOR_PATIENCE_MS / 2 - 1);
    expect(row(second, id).state).toBe("queued");
    second.app.addVendor(paintVendor("paint", new Painter("resume")));
    await clock.advance(VENDOR_PATIENCE_MS);
    expect(await ended(second, id)).toMatchObject(end);
  });

  test("is not sent to another vendor of its model once its own has taken it on, and is gone", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-10", pollAfterMs: 15_000 }];
    const first = await live(folder, [paintVendor("paint", painter)]);
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-10", "the name");
    const second = await live(folder, []);
    await until(() => row(second, id).state === "queued", "the wait");
    second.store.database.run("UPDATE image_job SET run_after_ms = 0");
    const other = new Painter("none");
    const third = await liveWithout(folder, [paintVendor("paint2", other)], [{ vendor: "paint2", model: "b" }]);
    expect(await ended(third, id)).toMatchObject({ state: "failed", error_code: "vendor_not_configured" });
    expect([other.creates, claims(third)]).toEqual([[], ["returned"]]);
  });

  test.each([
    ["has its image when that is in its file already", true, { state: "succeeded" }, "counted"],
    ["has none when its file was not written, and pays nothing", false, { error_code: "interrupted" }, "returned"],
  ])("%s", async (_name, isWritten, end, claim) => {
    const folder = newFolder();
    const painter = new Painter("none");
    const first = await live(folder, [paintVendor("paint", painter)]);
    // The process dies before it can say that the file is there, or before it is.
    const { files } = first.app.jobs;
    const save = files.save.bind(files);
    let saved = "";
    files.save = async (name, bytes) => {
      if (isWritten) await save(name, bytes);
      saved = name;
      await new Promise(() => undefined);
    };
    const id = await create(first);
    await until(() => saved !== "" && row(first, id).state === "fetching", "the file");
    const again = new Painter("none");
    const second = await live(folder, [paintVendor("paint", again)]);
    expect(await ended(second, id)).toMatchObject(isWritten ? { ...end, file: saved } : end);
    expect(again.creates).toEqual([]);
    expect(claims(second)).toEqual([claim]);
    // It waits for its file for ever: it cannot be ended.
    lives.splice(0, 1);
  });

  test("twice is not run a third time", async () => {
    const folder = newFolder();
    const { id } = await die(folder, new Painter("resend"));
    const painter = new Painter("resend");
    painter.create_ = [hang().script];
    const second = await live(folder, [paintVendor("paint", painter)]);
    await until(() => painter.running === 1, "the second call");
    expect(row(second, id).crashes).toBe(1n);
    const last = new Painter("resend");
    const third = await live(folder, [paintVendor("paint", last)]);
    expect(await ended(third, id)).toMatchObject({ state: "failed", error_code: "poisoned", crashes: 2n });
    expect(last.creates).toEqual([]);
    expect(claims(third)).toEqual(["returned"]);
  });

  test("waits on when it had not begun, for a server of this machine that is found after the start", async () => {
    const folder = newFolder();
    const ids = await fillSlots(folder);
    const clock = manualClock(Date.now());
    const second = await live(folder, [], undefined, clock);
    await clock.armed(VENDOR_PATIENCE_MS);
    await clock.advance(VENDOR_PATIENCE_MS - 1);
    expect(row(second, ids[4]!).state).toBe("queued");
    const found = new Painter("none");
    second.app.addVendor(paintVendor("paint", found));
    await clock.advance(1);
    expect((await ended(second, ids[4]!)).state).toBe("succeeded");
    expect(found.creates.length).toBe(1);
  });

  test("has until five minutes after it was taken, however long nobody ran", async () => {
    const folder = newFolder();
    const { first, id } = await die(folder, new Painter("resend"));
    const clock = manualClock(Date.now());
    await clock.advance(10_000);
    first.store.database.run("UPDATE image_job SET deadline_ms = ?", [clock.now() + 50_000]);
    const again = new Painter("resend");
    again.create_ = [hang().script];
    const second = await live(folder, [paintVendor("paint", again)], undefined, clock);
    await until(() => again.running === 1, "the second call");
    await clock.advance(49_999);
    expect(row(second, id).state).toBe("dispatched");
    await clock.advance(1);
    expect(await ended(second, id)).toMatchObject({ state: "failed", error_code: "timeout" });
    expect(claims(second)).toEqual(["returned"]);
  });

  test("waits on where its vendor was busy, until it is to be asked again", async () => {
    const folder = newFolder();
    const painter = new Painter("none");
    painter.create_ = [new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 60 })];
    const clock = manualClock(Date.now());
    const first = await live(folder, [paintVendor("paint", painter)], undefined, clock);
    const id = await create(first);
    await until(() => painter.creates.length === 1 && row(first, id).state === "queued", "the wait");
    const again = new Painter("none");
    const later = manualClock(clock.now() + 10_000);
    const second = await live(folder, [paintVendor("paint", again)], undefined, later);
    await later.advance(49_999);
    expect([row(second, id).state, again.creates]).toEqual(["queued", []]);
    await later.advance(1);
    expect((await ended(second, id)).state).toBe("succeeded");
    expect(claims(second)).toEqual(["counted"]);
  });

  test.each([
    // What its vendor wants waited is counted from the job's own beginning.
    ["is set right, a day back, before the next start", 0, -DAY_MS, 20_000],
    ["stood three days ahead when it was put off", 3 * DAY_MS, 10_000, 0],
  ])("waits no longer for a clock that %s", async (_what, aheadMs, laterMs, waitMs) => {
    const folder = newFolder();
    const busy = hang();
    const painter = new Painter("none");
    painter.create_ = [busy.script];
    const clock = manualClock(Date.now());
    const right = clock.now();
    const first = await live(folder, [paintVendor("paint", painter)], undefined, clock);
    const id = await create(first);
    await until(() => painter.running === 1, "the call");
    clock.setWall(right + aheadMs);
    busy.end({ kind: "failed", message: "Busy.", ran: "no", retryAfterSeconds: 20 });
    await until(() => row(first, id).state === "queued", "the wait");
    const later = manualClock(right + laterMs);
    const again = new Painter("none");
    const second = await live(folder, [paintVendor("paint", again)], undefined, later);
    if (waitMs > 0) {
      await later.advance(waitMs - 1);
      expect([row(second, id).state, again.creates]).toEqual(["queued", []]);
      await later.advance(1);
    }
    await until(() => row(second, id).state !== "queued", "the second call");
    expect((await ended(second, id)).state).toBe("succeeded");
    expect(claims(second)).toEqual(["counted"]);
  });

  test("waits for a vendor that is not there yet where a clock that stood ahead put it off", async () => {
    const folder = newFolder();
    const painter = new Painter("none");
    painter.create_ = [{ kind: "failed", message: "Busy.", ran: "no" }];
    const now = Date.now();
    const first = await live(folder, [paintVendor("paint", painter)], undefined, manualClock(now));
    const id = await create(first);
    await until(() => row(first, id).state === "queued" && row(first, id).tries === 1n, "the wait");
    first.store.database.run(`UPDATE image_job SET run_after_ms = run_after_ms + ${DAY_MS}`);
    // The first life stands still: on the same clock it would try the job itself.
    const clock = manualClock(now);
    const second = await live(folder, [], undefined, clock);
    await clock.advance(VENDOR_PATIENCE_MS - 1);
    expect(row(second, id).state).toBe("queued");
    second.app.addVendor(paintVendor("paint", new Painter("none")));
    await clock.advance(1);
    expect((await ended(second, id)).state).toBe("succeeded");
  });

  test("is gone on with before those that waited, which are sent when it has ended", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    const names = ["w1", "w2", "w3", "w4"];
    painter.create_ = names.map((resumeId) => ({ kind: "pending", resumeId, pollAfterMs: 15_000 }));
    const first = await live(folder, [paintVendor("paint", painter)]);
    const ids: string[] = [];
    for (let at = 0; at < 6; at++) ids.push(await create(first));
    await until(() => ids.slice(0, 4).every((id) => row(first, id).vendor_job !== null), "the names");
    const again = new Painter("resume");
    const work = hang();
    again.resume_ = [work.script];
    const second = await live(folder, [paintVendor("paint", again)]);
    await until(() => again.running === 4, "full slots");
    expect([again.creates.length, again.resumes.toSorted()]).toEqual([0, names]);
    work.end(IMAGE);
    const states = await Promise.all(ids.map((id) => ended(second, id)));
    expect(states.map(({ state }) => state)).toEqual(Array(6).fill("succeeded"));
    expect(again.creates.length).toBe(2);
  });

  test("keeps nobody waiting while its file is looked for in a bucket that does not answer", async () => {
    const folder = newFolder();
    const [first, , , , waiting] = await fillSlots(folder);
    lives[0]!.store.database.run("UPDATE image_job SET state = 'fetching', file = ? WHERE id = ?", [STORED, first!]);
    using silent = Bun.serve({ port: 0, fetch: () => new Promise<Response>(() => undefined) });
    const bucket = { bucket: "b", endpoint: silent.url.href, accessKeyId: "id", secretAccessKey: "secret" };
    const again = new Painter("none");
    again.create_ = [{ kind: "blocked", message: "No." }];
    const second = await live(folder, [paintVendor("paint", again)], undefined, systemClock, { keepDays: 90, bucket });
    expect((await ended(second, waiting!)).state).toBe("blocked");
    expect(row(second, first!).state).toBe("fetching");
  });

  test("has its file looked for once at a time in a bucket that does not answer", async () => {
    const folder = newFolder();
    const [first] = await fillSlots(folder);
    const { database } = lives[0]!.store;
    database.run("DELETE FROM image_job WHERE id <> ?", [first!]);
    database.run("UPDATE image_job SET state = 'fetching', file = ? WHERE id = ?", [STORED, first!]);
    let asked = 0;
    const ask = () => {
      asked++;
      return new Promise<Response>(() => undefined);
    };
    using silent = Bun.serve({ port: 0, fetch: ask });
    const bucket = { bucket: "b", endpoint: silent.url.href, accessKeyId: "id", secretAccessKey: "secret" };
    const clock = manualClock();
    await live(folder, [paintVendor("paint", new Painter("none"))], undefined, clock, { keepDays: 90, bucket });
    await until(() => asked === 1, "the question of the start");
    await clock.advance(LEASE_MS + 5 * TICK_MS);
    await until(() => asked > 1, "the next question");
    expect(asked).toBe(2);
  });

  test("waits on when it had not begun, and its vendor is gone: it fails in words", async () => {
    const folder = newFolder();
    const ids = await fillSlots(folder);
    const second = await liveWithout(folder, []);
    const states = await Promise.all(ids.map((id) => ended(second, id)));
    expect(states.map(({ error_code }) => error_code)).toEqual([
      ...["interrupted", "interrupted", "interrupted", "interrupted", "vendor_not_configured"],
    ]);
  });

  test("goes to another vendor of its model when it had not begun, and its own is gone", async () => {
    const folder = newFolder();
    const ids = await fillSlots(folder);
    const other = new Painter("none");
    other.create_ = [IMAGE];
    const second = await liveWithout(folder, [paintVendor("paint2", other)], [{ vendor: "paint2", model: "b" }]);
    const asked = async () => {
      // The disk is asked for its room, in its own time, before the job goes on at once.
      await second.clock.advance(0);
      return other.creates.length > 0;
    };
    await until(asked, "the other vendor");
    const states = await Promise.all(ids.map((id) => ended(second, id)));
    expect(states.map(({ state }) => state)).toEqual(["failed", "failed", "failed", "failed", "succeeded"]);
    expect(other.creates.map(({ model }) => model)).toEqual(["b"]);
  });
});

test("a job of before counts on its key's cap from the start on, until it has ended", async () => {
  const folder = newFolder();
  const painter = new Painter("resend");
  painter.create_ = [hang().script];
  const first = await live(folder, [paintVendor("paint", painter)]);
  first.store.database.run("UPDATE account SET plan = 'pro'");
  first.app.keys.reload();
  const accountId = (first.store.database.query("SELECT id FROM account").get() as { id: string }).id;
  await first.app.book.deposit({ accountId, amountNano: 1_000_000_000n, reference: "payment" });
  // Of two images together the key may pay one.
  const { key } = await first.app.keys.create({ accountId, name: "capped", kind: "api", capTotalNano: 39_999_999n });
  const ask = async (app: App) => (await post({ app, key }, "paint/priced")).status;
  expect(await ask(first.app)).toBe(202);
  await until(() => painter.running === 1, "the call");
  const again = new Painter("resend");
  const work = hang();
  again.create_ = [work.script];
  const second = await live(folder, [paintVendor("paint", again)]);
  expect(await ask(second.app)).toBe(402);
  await until(() => again.running === 1, "the second call");
  work.end({ kind: "failed", message: "Broken.", ran: "maybe" });
  await until(() => claims(second).includes("returned"), "the end");
  expect(await ask(second.app)).toBe(202);
});

describe("a gateway that is told to stop", () => {
  test("lets go of work that is found again, and the next start goes on with it without a death to its name", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-8", pollAfterMs: 15_000 }];
    const first = await live(folder, [paintVendor("paint", painter)]);
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-8", "the name");
    await lives.splice(0, 1)[0]!.end();
    const again = new Painter("resume");
    const second = await live(folder, [paintVendor("paint", again)]);
    expect(await ended(second, id)).toMatchObject({ state: "succeeded", crashes: 0n });
    expect(painter.cancels).toEqual([]);
    expect(again.resumes).toEqual(["work-8"]);
  });

  test("keeps count of what its vendor was asked before, where it takes the work up in the moment in which it stops", async () => {
    const folder = newFolder();
    const painter = new Painter("resume");
    painter.create_ = [{ kind: "pending", resumeId: "work-11", pollAfterMs: 15_000 }];
    const first = await live(folder, [paintVendor("paint", painter)]);
    const id = await create(first);
    await until(() => row(first, id).vendor_job === "work-11", "the name");
    await lives.splice(0, 1)[0]!.end();
    // It is not time for it yet.
    const clock = manualClock(Date.now() - 5_000);
    const again = new Painter("resume");
    const second = await live(folder, [paintVendor("paint", again)], undefined, clock);
    expect(row(second, id)).toMatchObject({ state: "queued", tries: 1n });
    const { claim } = JobStore.prototype;
    const claiming = spyOn(JobStore.prototype, "claim").mockImplementation(function (this: JobStore, ...asked) {
      void second.app.jobs.stop();
      return claim.apply(this, asked);
    });
    try {
      await clock.advance(6_000);
      await until(() => claiming.mock.calls.length > 0 && row(second, id).state === "queued", "the job to wait again");
      expect([claiming.mock.calls.length, row(second, id).tries, again.resumes]).toEqual([1, 1n, []]);
    } finally {
      claiming.mockRestore();
    }
  });

  test("counts no try of a job that it takes up in the moment in which it stops", async () => {
    const painter = new Painter("none");
    const life = await live(newFolder(), [paintVendor("paint", painter)]);
    const { claim } = JobStore.prototype;
    const claiming = spyOn(JobStore.prototype, "claim").mockImplementation(function (this: JobStore, ...asked) {
      void life.app.jobs.stop();
      return claim.apply(this, asked);
    });
    try {
      const id = await create(life);
      await until(() => claiming.mock.calls.length > 0 && row(life, id).state === "queued", "the job to wait again");
      expect([row(life, id).tries, painter.creates]).toEqual([0n, []]);
    } finally {
      claiming.mockRestore();
    }
  });

  test("lets go of work that may have been done: with its vendor gone at the next start, no other one does it again", async () => {
    const folder = newFolder();
    const { id } = await die(folder, new Painter("resend"));
    await lives.splice(0, 1)[0]!.end();
    const other = new Painter("none");
    const second = await liveWithout(folder, [paintVendor("paint2", other)], [{ vendor: "paint2", model: "b" }]);
    expect(await ended(second, id)).toMatchObject({ state: "failed", error_code: "vendor_not_configured" });
    expect([other.creates, claims(second)]).toEqual([[], ["returned"]]);
  });

  test("has nobody wait for a job that it takes on while it stops: that is for the next start", async () => {
    const life = await live(newFolder(), [paintVendor("paint", new Painter())]);
    const stopped = life.app.jobs.stop();
    const answer = await within(post(life, "paint/a", { prefer: "wait=60" }), "the answer");
    expect(answer.status).toBe(202);
    expect(await answer.json()).toMatchObject({ status: "processing" });
    await stopped;
  });

  test.each([
    ["that is found again by nothing", "none"],
    ["that has no name yet", "resume"],
  ] as const)("waits for work that would be lost: such %s", async (_name, recovery) => {
    const folder = newFolder();
    const { first, id, late } = await die(folder, new Painter(recovery));
    const stopped = lives.splice(0, 1)[0]!.app.stop();
    await settle();
    late.end(IMAGE);
    await stopped;
    expect(row(first, id).state).toBe("succeeded");
    first.store.close();
  });

  test("ends such work after half a minute, uncharged, and the next start does not send it again", async () => {
    const folder = newFolder();
    const painter = new Painter("none");
    painter.create_ = [hang().script];
    const clock = manualClock();
    const first = await live(folder, [paintVendor("paint", painter)], undefined, clock);
    const id = await create(first);
    await until(() => painter.running === 1, "the call");
    const stopped = first.app.jobs.stop();
    await clock.advance(DRAIN_MS - 1);
    await settle();
    expect(row(first, id).state).toBe("dispatched");
    await clock.advance(1);
    await within(stopped, "the end of the work");
    expect(row(first, id)).toMatchObject({ state: "failed", error_code: "interrupted" });
    expect(claims(first)).toEqual(["returned"]);
    await lives.splice(0, 1)[0]!.end();
    const again = new Painter("none");
    const second = await live(folder, [paintVendor("paint", again)]);
    await settle();
    expect([again.creates, row(second, id).state]).toEqual([[], "failed"]);
  });
});
