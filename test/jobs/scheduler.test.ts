import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { JOB_MS } from "../../src/jobs/accept.ts";
import { Closing } from "../../src/jobs/closing.ts";
import { CREATE_MS } from "../../src/jobs/image-job.ts";
import { LEASE_MS, SLOTS, TICK_MS, VENDOR_SLOTS } from "../../src/jobs/scheduler.ts";
import { JobStore } from "../../src/jobs/store.ts";
import { ConnectionLost } from "../../src/vendors/http/faults.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import { until, within } from "../support/wait.ts";
import { hang, IMAGE, type ImageLab, Painter, paintVendor, startImageLab } from "./lab.ts";

let lab: ImageLab | undefined;
afterEach(async () => {
  await lab?.stop();
  lab = undefined;
});

async function start(
  painter = new Painter(),
  second = new Painter(),
): Promise<{ lab: ImageLab; clock: ManualClock; painter: Painter; second: Painter }> {
  const clock = manualClock();
  lab = await startImageLab({ clock, painter, second });
  return { lab, clock, painter, second };
}

const stateOf = (from: ImageLab, id: string) => from.stored().find((row) => row["id"] === id)?.["state"];
/** Turns the clock on, a second at a time, until `condition` holds; at most for ten minutes. */
async function turnUntil(clock: ManualClock, condition: () => boolean): Promise<void> {
  for (let second = 0; second < 600 && !condition(); second++) {
    await clock.advance(1_000);
    // The writer gathers by the real clock.
    await new Promise<void>((resolve) => setTimeout(resolve, 2));
  }
  expect(condition()).toBe(true);
}

const unreachable = () => new GatewayError("upstream_unreachable", "The vendor cannot be reached.");
const pending = (resumeId: string, pollAfterMs = 1_000) => ({ kind: "pending", resumeId, pollAfterMs }) as const;

describe("what may be tried again, and what never is", () => {
  test("nothing ran: tried three times, with pauses, and failed", async () => {
    const { lab, clock, painter } = await start();
    painter.create_ = [unreachable()];
    const { id } = await lab.create();
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect(clock.monotonic()).toBeGreaterThanOrEqual(2_000);
    expect(await lab.ended(id)).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
    expect(painter.creates).toHaveLength(3);
    expect(new Set(painter.creates.map(({ key }) => key)).size).toBe(1);
    expect(lab.claims()).toMatchObject([{ state: "returned" }]);
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject({ served: 0, failed: 3 });
  });

  test("a vendor that is busy is asked again when it says, and that is no attempt, nor a failing of its own", async () => {
    const { lab, clock, painter } = await start();
    const busy = new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 20 });
    const told = { kind: "failed", message: "Too fast.", ran: "no", limited: true, retryAfterSeconds: 20 } as const;
    painter.create_ = [busy, told, busy, told, IMAGE];
    const { id } = await lab.create();
    for (let at = 1; at <= 4; at++) {
      await until(() => painter.creates.length === at && stateOf(lab, id) === "queued", `refusal ${at}`);
      await settle();
      await clock.advance(19_000);
      expect(painter.creates).toHaveLength(at);
      await clock.advance(1_000);
    }
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect(lab.gateway.rows()).toMatchObject([{ attempts: 1 }]);
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject({ served: 1, failed: 0 });
  });

  test("a vendor that is busy between real attempts gives none of them back", async () => {
    const { lab, clock, painter } = await start();
    const busy = new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 1 });
    painter.create_ = [unreachable(), busy, unreachable()];
    const { id } = await lab.create();
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect(painter.creates).toHaveLength(4);
  });

  test("a vendor that stays busy is asked for as long as the job has time, and no longer", async () => {
    const { lab, clock, painter } = await start();
    painter.create_ = [new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 20 })];
    const { id } = await lab.create();
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect(clock.monotonic()).toBeLessThanOrEqual(JOB_MS + TICK_MS);
    const asked = painter.creates.length;
    expect(asked).toBeGreaterThan(5);
    await clock.advance(JOB_MS);
    expect([painter.creates.length, lab.claims()]).toMatchObject([asked, [{ state: "returned" }]]);
  });

  test.each([
    ["a connection that broke", new GatewayError("upstream_error", "Broken.", { cause: new ConnectionLost("reset") })],
    ["a 500", new GatewayError("upstream_error", "Broken.", { cause: { status: 500 } })],
    ["a refused key", new GatewayError("upstream_auth", "The vendor refused the gateway's key.")],
    ["an answer that is no image", { kind: "image", bytes: new TextEncoder().encode("<svg/>") } as const],
    ["a failure that may have run", { kind: "failed", message: "Broken.", ran: "maybe" } as const],
    ["a refusal", { kind: "blocked", message: "No." } as const],
    ["a fault of the request", { kind: "failed", message: "Bad.", ran: "no", fault: true } as const],
  ])("%s is never sent twice, nor to the model's next vendor what may have run", async (name, script) => {
    const { lab, clock, painter, second } = await start();
    painter.create_ = [script];
    for (const [at, model] of ["paint/priced", "paint/two"].entries()) {
      const { id } = await lab.create({ model });
      await turnUntil(clock, () => !["queued", "dispatched", "fetching"].includes(String(stateOf(lab, id))));
      await clock.advance(JOB_MS);
      expect(painter.creates).toHaveLength(at + 1);
    }
    expect(second.creates).toHaveLength(name === "a refused key" ? 1 : 0);
    const code = { "an answer that is no image": "invalid_result", "a refusal": "content_policy" }[name];
    if (code) expect(lab.stored().map((row) => row["error_code"])).toEqual([code, code]);
  });

  test("the model's next vendor is asked when the first surely did nothing, and never after a refusal", async () => {
    const { lab, clock, painter, second } = await start();
    painter.create_ = [unreachable()];
    second.create_ = [IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await turnUntil(clock, () => stateOf(lab, id) === "succeeded");
    expect(second.creates.map(({ model }) => model)).toEqual(["two-too"]);
    expect(lab.gateway.rows()).toMatchObject([{ vendor: "paint2", upstreamModel: "two-too" }]);
    painter.create_ = [{ kind: "blocked", message: "No." }];
    expect((await lab.ended((await lab.create({ model: "paint/two" })).id)).status).toBe("blocked");
    expect(second.creates).toHaveLength(1);
  });

  const limited = { kind: "failed", message: "Too fast.", ran: "no", limited: true, retryAfterSeconds: 3_600 } as const;

  const busyFor = (retryAfterSeconds: number) =>
    new GatewayError("upstream_overloaded", "Busy.", { retryAfterSeconds });

  test.each([
    ["the last one, where the first wants an hour", limited, 20, [1, 2]],
    ["the first one, where that wants less", busyFor(20), 40, [2, 1]],
    ["the first one, where both want as long", busyFor(20), 20, [2, 1]],
  ] as const)("when all vendors are busy, none is asked before it says so: %s", async (_name, first, wait, asked) => {
    const { lab, clock, painter, second } = await start();
    painter.create_ = [first, IMAGE];
    second.create_ = [busyFor(wait), IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await clock.armed(0);
    await clock.advance(0);
    await clock.armed(20_000);
    await clock.advance(19_000);
    expect([painter.creates.length, second.creates.length]).toEqual([1, 1]);
    await clock.advance(1_000);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect([painter.creates.length, second.creates.length]).toEqual([...asked]);
  });

  test("a busy vendor whose time has not come is not asked at once, though it stands behind the one that was asked again", async () => {
    const { lab, clock, painter, second } = await start();
    painter.create_ = [busyFor(30), busyFor(100)];
    second.create_ = [busyFor(60), IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await clock.armed(0);
    await clock.advance(0);
    await clock.armed(30_000);
    await clock.advance(30_000);
    await clock.armed(30_000);
    await clock.advance(29_000);
    expect([painter.creates.length, second.creates.length]).toEqual([2, 1]);
    await clock.advance(1_000);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect([painter.creates.length, second.creates.length]).toEqual([2, 2]);
  });

  test("a vendor that is busy with one model is asked for another one at once", async () => {
    const { lab, clock, painter } = await start();
    painter.create_ = [limited, IMAGE];
    const { id } = await lab.create({ model: "paint/twice" });
    await turnUntil(clock, () => ["succeeded", "failed"].includes(`${stateOf(lab, id)}`));
    expect(stateOf(lab, id)).toBe("succeeded");
    expect(painter.creates.map(({ model }) => model)).toEqual(["large", "small"]);
  });

  test("a vendor whose model takes no source is not asked for an image with one, and a busy one is waited for", async () => {
    const { lab, clock, painter, second } = await start();
    second.takesSource = false;
    painter.create_ = [IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await lab.ended(id);
    painter.create_ = [new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 20 }), IMAGE];
    const framed = await lab.create({ model: "paint/two", source_job_id: id, size: "1024x1536" });
    await turnUntil(clock, () => ["succeeded", "failed"].includes(`${stateOf(lab, framed.id)}`));
    expect(await lab.ended(framed.id)).toMatchObject({ status: "succeeded" });
    expect(second.creates).toEqual([]);
  });

  test("an image with a source goes to the first vendor whose model takes one", async () => {
    const { lab, painter, second } = await start();
    const { id } = await lab.create({ model: "paint/two" });
    await lab.ended(id);
    painter.takesSource = false;
    const framed = await lab.create({ model: "paint/two", source_job_id: id, size: "1024x1536" });
    expect(await lab.ended(framed.id)).toMatchObject({ status: "succeeded", aspect_ratio: "2:3" });
    expect([painter.creates.length, second.creates.length]).toEqual([1, 1]);
  });

  test("the next vendor draws the ratio that the first one was to draw, where no size was asked for", async () => {
    const { lab, clock, painter, second } = await start();
    painter.ratios = ["16:9"];
    second.ratios = ["1:1", "16:9"];
    painter.create_ = [unreachable()];
    const { id } = await lab.create({ model: "paint/two" });
    await turnUntil(clock, () => ["succeeded", "failed"].includes(`${stateOf(lab, id)}`));
    expect([...painter.creates, ...second.creates].map(({ ratio }) => ratio)).toEqual(["16:9", "16:9"]);
    expect(await lab.ended(id)).toMatchObject({ status: "succeeded", aspect_ratio: "16:9" });
  });

  test("a vendor that is asked again after another one is asked for its own ratio again", async () => {
    const { lab, clock, painter, second } = await start();
    second.ratios = ["1:1", "16:9"];
    painter.create_ = [unreachable(), IMAGE];
    second.create_ = [unreachable()];
    const { id } = await lab.create({ model: "paint/two", size: "1536x1024" });
    await turnUntil(clock, () => ["succeeded", "failed"].includes(`${stateOf(lab, id)}`));
    expect([...painter.creates, ...second.creates].map(({ ratio }) => ratio)).toEqual(["3:2", "3:2", "16:9"]);
    expect(await lab.ended(id)).toMatchObject({ status: "succeeded", aspect_ratio: "3:2" });
  });

  const refusesUs = { kind: "failed", message: "No credit.", ran: "no", fault: true, elsewhere: true } as const;

  // An attempt that its vendor was too busy for does not count, and one that limits its calls has not failed.
  test.each([
    ["refuses the gateway, by an answer", refusesUs, 2, 1],
    ["refuses it, by an error", new GatewayError("upstream_auth", "The vendor refused the gateway's key."), 2, 1],
    ["limits it for an hour, by an answer", limited, 1, 0],
    [
      "limits it, by an error",
      new GatewayError("rate_limit_exceeded", "Too fast.", { retryAfterSeconds: 3_600 }),
      1,
      0,
    ],
    ["is busy for half a minute", new GatewayError("upstream_overloaded", "Busy.", { retryAfterSeconds: 30 }), 1, 1],
    ["cannot be reached", unreachable(), 2, 1],
  ] as const)("a vendor that %s leaves the next one to be asked, at once", async (_name, script, attempts, failed) => {
    const { lab, clock, painter, second } = await start();
    painter.create_ = [script];
    second.create_ = [IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await clock.armed(0);
    await clock.advance(0);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect([painter.creates.length, second.creates.length]).toEqual([1, 1]);
    expect(lab.gateway.rows()).toMatchObject([{ vendor: "paint2", upstreamModel: "two-too", attempts }]);
    // Its operator is shown which one it was.
    const { health } = lab.gateway.app.services;
    expect([health?.of("paint"), health?.of("paint2")]).toMatchObject([
      { served: 0, failed },
      { served: 1, failed: 0 },
    ]);
  });

  test("the next one is asked though all places at the first are taken by others meanwhile", async () => {
    const { lab, clock, painter, second } = await start();
    const refused = hang();
    painter.create_ = [refused.script, hang().script];
    second.create_ = [IMAGE];
    const { id } = await lab.create({ model: "paint/two" });
    await until(() => painter.creates.length === 1, "the first call");
    for (let at = 0; at < VENDOR_SLOTS; at++) await lab.create();
    await until(() => painter.running === VENDOR_SLOTS, "all places taken");
    refused.end(refusesUs);
    await until(() => painter.creates.length === VENDOR_SLOTS + 1, "the one that waited");
    await clock.armed(0);
    await clock.advance(0);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect([painter.running, second.creates.length]).toEqual([VENDOR_SLOTS, 1]);
  });

  test.each([
    ["paint/two", ["two"], ["two-too"]],
    ["paint/twice", ["large", "small"], []],
    ["paint/same", ["same"], ["same"]],
  ])(
    "where every route of %s refuses the gateway each is asked once, and the job fails uncharged",
    async (model, first, next) => {
      const { lab, clock, painter, second } = await start();
      for (const each of [painter, second]) each.create_ = [refusesUs];
      const { id } = await lab.create({ model });
      await clock.armed(0);
      await clock.advance(0);
      expect(await lab.ended(id)).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
      await clock.advance(JOB_MS);
      expect([painter, second].map(({ creates }) => creates.map((request) => request.model))).toEqual([first, next]);
      expect(lab.gateway.rows()).toEqual([]);
    },
  );

  test("a vendor that refuses the gateway in the midst of its work keeps that work", async () => {
    const { lab, clock, painter, second } = await start(new Painter("resume"), new Painter("resume"));
    painter.create_ = [pending("work-1")];
    painter.resume_ = [refusesUs];
    const { id } = await lab.create({ model: "paint/two" });
    await clock.armed(1_000);
    await clock.advance(1_000);
    expect(await lab.ended(id)).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
    // Nor is the next one asked for what it has never heard of.
    expect([second.creates, second.resumes]).toEqual([[], []]);
  });

  test("what a fault of this program says is not shown", async () => {
    const { lab, painter } = await start();
    painter.create_ = [new Error("secret of the house")];
    const job = await lab.ended((await lab.create()).id);
    expect(job).toMatchObject({ status: "failed", error: { code: "internal_error" } });
    expect(JSON.stringify(job)).not.toContain("secret");
    expect(JSON.stringify(lab.gateway.log)).toContain("secret of the house");
  });
});

describe("work that a vendor does by name", () => {
  test("is asked for as often as the vendor says, its name kept before", async () => {
    const { lab, clock, painter } = await start(new Painter("resume"));
    painter.create_ = [pending("work-1")];
    painter.resume_ = [pending("work-1", 2_000), IMAGE];
    const { id } = await lab.create();
    await clock.armed(1_000);
    expect(lab.stored()[0]).toMatchObject({ vendor_job: "work-1", state: "dispatched" });
    await clock.advance(1_000);
    await clock.armed(2_000);
    expect(painter.resumes).toEqual(["work-1"]);
    await clock.advance(2_000);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect(painter.creates).toHaveLength(1);
  });

  test("goes on though looks at it fail, with a pause after each, but not without end", async () => {
    const { lab, clock, painter } = await start(new Painter("resume"));
    painter.create_ = [pending("work-1")];
    const busy = { kind: "failed", message: "Busy.", ran: "no", retryAfterSeconds: 7 } as const;
    painter.resume_ = [unreachable(), unreachable(), busy, IMAGE];
    // Nor is it taken to the next vendor, which does not know it.
    const { id } = await lab.create({ model: "paint/two" });
    // So many failed, and it waits so long: more each time, or as its vendor says.
    for (const [looks, waitMs] of [1_000, 1_000, 2_000, 7_000].entries()) {
      await clock.armed(waitMs);
      expect(painter.resumes).toHaveLength(looks);
      await clock.advance(waitMs);
    }
    expect((await lab.ended(id)).status).toBe("succeeded");
    painter.create_ = [pending("work-2")];
    painter.resume_ = [unreachable()];
    const never = await lab.create();
    await clock.armed(1_000);
    await clock.advance(120_000);
    expect(await lab.ended(never.id)).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
    expect(painter.resumes.filter((name) => name === "work-2").length).toBe(9);
    // They are counted from the last look that told something.
    painter.create_ = [pending("work-3")];
    const five = () => Array.from({ length: 5 }, unreachable);
    painter.resume_ = [...five(), pending("work-3"), ...five(), IMAGE];
    const flapping = await lab.create();
    await turnUntil(clock, () => stateOf(lab, flapping.id) === "succeeded");
  });
});

describe("time", () => {
  test("one call may take three minutes; then it is broken off and its vendor told", async () => {
    const { lab, clock, painter } = await start();
    const endless = hang();
    painter.create_ = [endless.script];
    const { id } = await lab.create();
    await clock.armed(CREATE_MS);
    await clock.advance(CREATE_MS - 1);
    expect((await lab.show(id)).status).toBe("processing");
    await clock.advance(1);
    await within(endless.aborted, "the end of the call");
    expect(await lab.ended(id)).toMatchObject({ status: "failed", error: { code: "timeout" } });
    expect(lab.claims()).toMatchObject([{ state: "returned", charged: 0n }]);
  });

  test("five minutes from acceptance are the end, for jobs that run, for jobs that wait and for who waits for them", async () => {
    const { lab, clock, painter } = await start(new Painter("resume"));
    painter.create_ = [pending("endless")];
    painter.resume_ = [pending("endless", 10_000)];
    const jobs = [];
    for (let at = 0; at < VENDOR_SLOTS + 2; at++) jobs.push(await lab.create());
    await until(() => lab.stored().filter((row) => row["vendor_job"] !== null).length === VENDOR_SLOTS, "all names");
    await settle();
    await clock.advance(JOB_MS - 1_000);
    for (const { id } of jobs) expect((await lab.show(id)).status).toBe("processing");
    // Of one that waits for a place.
    const asked = lab.get(`/${jobs.at(-1)!.id}`, { prefer: "wait=60" });
    await clock.armed(60_000);
    await clock.advance(1_000 + TICK_MS);
    for (const { id } of jobs) expect(await lab.ended(id)).toMatchObject({ error: { code: "timeout" } });
    expect(await (await within(asked, "the answer to whoever waits")).json()).toMatchObject({ status: "failed" });
    expect(painter.creates).toHaveLength(VENDOR_SLOTS);
    expect(painter.cancels).toEqual(Array.from({ length: VENDOR_SLOTS }, () => "endless"));
    expect(lab.claims().every(({ state }) => state === "returned")).toBe(true);
    expect(lab.gateway.app.book.verify()).toEqual([]);
  });

  test("a vendor that cannot be told that nobody waits any more has its job end all the same", async () => {
    const { lab, clock, painter } = await start(new Painter("resume"));
    painter.cancel = undefined as never;
    painter.create_ = [pending("endless", 10_000)];
    painter.resume_ = painter.create_;
    const { id } = await lab.create();
    await clock.armed(10_000);
    await clock.advance(JOB_MS);
    expect(await lab.ended(id)).toMatchObject({ status: "failed", error: { code: "timeout" } });
    expect(lab.claims()).toMatchObject([{ state: "returned", charged: 0n }]);
  });

  test("a job that waited too long, and whose end could not be written, is ended later, and gives its place back", async () => {
    const { lab, clock, painter } = await start();
    const { store } = lab.gateway;
    const idle = clock.pending;
    painter.create_ = [unreachable()];
    const { id } = await lab.create();
    await until(() => stateOf(lab, id) === "queued" && painter.creates.length === 1, "the wait for another attempt");
    await settle();
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN old.state = 'queued' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    await clock.advance(JOB_MS + TICK_MS);
    await until(() => lab.gateway.log.some(({ event }) => event === "image-jobs"), "an end that cannot be written");
    expect((await lab.show(id)).status).toBe("processing");
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect(await lab.show(id)).toMatchObject({ status: "failed", error: { code: "timeout" } });
    expect([lab.claims()[0]?.state, painter.creates.length]).toEqual(["returned", 1]);
    await clock.advance(TICK_MS);
    expect(clock.pending).toBe(idle);
  });

  test("a step of the wall clock ends nothing", async () => {
    const { lab, clock, painter } = await start();
    const waiting = hang();
    painter.create_ = [waiting.script];
    const { id } = await lab.create();
    await clock.armed(CREATE_MS);
    clock.setWall(clock.now() + 3_600_000);
    await clock.advance(TICK_MS * 2);
    expect((await lab.show(id)).status).toBe("processing");
    clock.setWall(clock.now() - 7_200_000);
    await clock.advance(TICK_MS * 2);
    waiting.end(IMAGE);
    expect((await lab.ended(id)).status).toBe("succeeded");
  });

  test("without jobs nothing keeps time", async () => {
    const { lab, clock } = await start();
    const idle = clock.pending;
    const { id } = await lab.create();
    await lab.ended(id);
    await clock.advance(TICK_MS * 3);
    expect(clock.pending).toBe(idle);
  });

  test("of many jobs all are looked after by one timer", async () => {
    const { lab, clock, painter } = await start();
    painter.create_ = Array.from({ length: 3 }, () => hang().script);
    const pending = [clock.pending];
    for (let at = 1; at <= 3; at++) {
      await lab.create();
      await until(() => painter.running === at, "the call");
      await settle();
      pending.push(clock.pending);
    }
    const [first, second, third] = pending.slice(1).map((now, at) => now - (pending[at] ?? 0));
    // Each has timers of its own for its time.
    expect([second, third]).toEqual([(first ?? 0) - 1, second]);
  });
});

describe("cancelling", () => {
  test("reaches the vendor and whoever waits, frees the slot, and what comes later counts for nothing", async () => {
    const { lab, clock, painter } = await start();
    const runs = Array.from({ length: VENDOR_SLOTS }, () => hang());
    painter.create_ = [...runs.map(({ script }) => script), IMAGE];
    const running = [];
    for (const _ of runs) running.push(await lab.create());
    const waiting = await lab.create();
    await until(() => painter.running === VENDOR_SLOTS, "full slots");
    const asked = lab.get(`/${running[0]!.id}`, { prefer: "wait=60" });
    await clock.armed(60_000);
    const job = await lab.cancel(running[0]!.id);
    expect(job).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    expect(await (await within(asked, "the answer to whoever waits")).json()).toEqual(job);
    await within(runs[0]!.aborted, "the end of the call");
    expect(painter.cancels).toStrictEqual([undefined]);
    expect((await lab.ended(waiting.id)).status).toBe("succeeded");
    for (const { end } of runs) end(IMAGE);
    for (const { id } of running.slice(1)) expect((await lab.ended(id)).status).toBe("succeeded");
    expect(await lab.show(job.id)).toEqual(job);
    expect(lab.gateway.rows()).toHaveLength(VENDOR_SLOTS);
  });

  test.each<[string, object]>([
    ["while the cancel is written", JobStore.prototype],
    ["in the turn in which it is asked for", Closing.prototype],
  ])("reaches a vendor that gives its name for the work %s", async (_name, parts) => {
    const { lab, painter } = await start(new Painter("resume"));
    const work = hang();
    painter.create_ = [work.script];
    const { id } = await lab.create();
    await until(() => painter.running === 1, "the call");
    const at = parts as { cancel(...asked: unknown[]): unknown };
    const { cancel } = at;
    const cancelling = spyOn(at, "cancel").mockImplementation(function (this: unknown, ...asked) {
      const answer = cancel.apply(this, asked);
      work.end(pending("late"));
      return answer;
    });
    try {
      expect(await lab.cancel(id)).toMatchObject({ error: { code: "cancelled" } });
    } finally {
      cancelling.mockRestore();
    }
    await until(() => painter.cancels.length > 0, "the vendor to be told");
    expect([painter.cancels, painter.resumes]).toEqual([["late"], []]);
  });

  test("counts though its vendor cannot be told", async () => {
    const { lab, painter } = await start();
    painter.create_ = [hang().script, IMAGE];
    painter.cancel = () => Promise.reject(new Error("It does not listen."));
    const { id } = await lab.create();
    await until(() => painter.running === 1, "the call");
    expect((await lab.cancel(id)).error?.code).toBe("cancelled");
    await until(() => lab.gateway.log.some(({ event }) => event === "image-cancel"), "the log");
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
  });

  test("a job that waits never reaches its vendor; one that has ended stays as it is", async () => {
    const { lab, painter } = await start();
    const runs = Array.from({ length: VENDOR_SLOTS }, () => hang());
    painter.create_ = [...runs.map(({ script }) => script), IMAGE];
    for (const _ of runs) await lab.create();
    const waiting = await lab.create();
    await until(() => painter.running === VENDOR_SLOTS, "full slots");
    expect((await lab.cancel(waiting.id)).error?.code).toBe("cancelled");
    const done = await lab.create();
    for (const { end } of runs) end(IMAGE);
    const ended = await lab.ended(done.id);
    expect(await lab.cancel(done.id)).toEqual(ended);
    expect(painter.creates).toHaveLength(VENDOR_SLOTS + 1);
  });

  test("a file that is never written holds no slot once its job has ended", async () => {
    const { lab, painter } = await start();
    const { files } = lab.gateway.app.jobs;
    const save = files.save.bind(files);
    let saving = 0;
    files.save = () => {
      saving++;
      return new Promise(() => {});
    };
    painter.create_ = Array.from({ length: VENDOR_SLOTS + 1 }, () => IMAGE);
    const stuck = [];
    for (let at = 0; at < VENDOR_SLOTS; at++) stuck.push(await lab.create());
    await until(() => saving === VENDOR_SLOTS, "the files");
    files.save = save;
    for (const { id } of stuck) expect((await lab.cancel(id)).error?.code).toBe("cancelled");
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
  });

  test("where no image could be stored none is asked for, and the same key has one as soon as there is room", async () => {
    const { lab, painter } = await start();
    const { files } = lab.gateway.app.jobs;
    files.hasRoom = () => Promise.resolve(false);
    const key = { "idempotency-key": "a cat" };
    const told = await lab.post({ model: "paint/priced", prompt: "a cat" }, key);
    expect([told.status, told.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await told.json()).toMatchObject({ error: { code: "upstream_overloaded", type: "server_error" } });
    expect([painter.creates, lab.claims(), lab.stored()]).toEqual([[], [], []]);
    files.hasRoom = () => Promise.resolve(true);
    expect((await lab.ended((await lab.create({}, key)).id)).status).toBe("succeeded");
  });

  test("one that waits when the disk fills waits on until there is room, and its vendor is not asked before", async () => {
    const { lab, clock, painter } = await start();
    const { files } = lab.gateway.app.jobs;
    let looks = 0;
    // There was room when it was taken on.
    files.hasRoom = () => Promise.resolve(++looks === 1);
    const { id } = await lab.create();
    await turnUntil(clock, () => looks > 3);
    expect([painter.creates, stateOf(lab, id)]).toEqual([[], "queued"]);
    files.hasRoom = () => Promise.resolve(true);
    await turnUntil(clock, () => stateOf(lab, id) !== "queued");
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect(lab.gateway.rows()).toMatchObject([{ attempts: 1 }]);
  });

  test("one for which no room comes in its time fails, uncharged, and its vendor was never asked", async () => {
    const { lab, clock, painter } = await start();
    const { files } = lab.gateway.app.jobs;
    let looks = 0;
    files.hasRoom = () => Promise.resolve(++looks === 1);
    const { id } = await lab.create();
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect((await lab.ended(id)).error?.code).toBe("timeout");
    expect([painter.creates, lab.claims()]).toMatchObject([[], [{ state: "returned", charged: 0n }]]);
  });

  test("an image that cannot be stored fails its job, uncharged, and is not asked for again", async () => {
    const { lab, painter } = await start();
    lab.gateway.app.jobs.files.save = () => Promise.reject(new Error("The disk is full."));
    const { id } = await lab.create();
    expect(await lab.ended(id)).toMatchObject({
      status: "failed",
      error: { code: "internal_error", message: "The image could not be stored. Nothing was charged." },
    });
    expect([painter.creates.length, lab.claims()]).toMatchObject([1, [{ state: "returned", charged: 0n }]]);
    // No doing of the vendor's.
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject({ failed: 0 });
  });

  test("a source that cannot be read fails its job at once, and says so", async () => {
    const { lab, painter } = await start();
    painter.create_ = [IMAGE, IMAGE];
    const source = await lab.ended((await lab.create()).id);
    const { files } = lab.gateway.app.jobs;
    files.read = () => Promise.reject(new Error("The disk is broken."));
    const { id } = await lab.create({ source_job_id: source.id, size: "1024x1536" });
    expect((await lab.ended(id)).error).toMatchObject({
      code: "internal_error",
      message: "The source image could not be read. Nothing was charged.",
    });
    expect(painter.creates).toHaveLength(1);
    // No doing of the vendor's, who was not asked.
    const facts = { served: 1, failed: 0, failingSince: undefined };
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject(facts);
  });

  test.each([
    [
      "that its vendor will not have",
      { kind: "failed", message: "Too long.", ran: "no", fault: true },
      "upstream_error",
    ],
    ["that its vendor blocks", { kind: "blocked", message: "Too long." }, "content_policy"],
  ] as const)("a request %s is no failing of the vendor's", async (_name, step, code) => {
    const { lab, painter } = await start();
    painter.create_ = [step];
    const { id } = await lab.create();
    expect((await lab.ended(id)).error).toMatchObject({ code, message: "Too long." });
    const facts = { failed: 0, failingSince: undefined };
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject(facts);
  });

  test.each(["while its file is written", "when its file is there"])(
    "a job cancelled %s leaves no image",
    async (when) => {
      const { lab, painter } = await start();
      const waiting = hang();
      painter.create_ = [waiting.script];
      const { id } = await lab.create();
      await until(() => painter.running === 1, "the call");
      const { files } = lab.gateway.app.jobs;
      const save = files.save.bind(files);
      const saved: string[] = [];
      files.save = async (name, bytes) => {
        await save(name, bytes);
        saved.push(name);
        if (when === "while its file is written") await lab.cancel(id);
      };
      const { succeed } = Closing.prototype;
      const succeeding = spyOn(Closing.prototype, "succeed").mockImplementation(async function (this: Closing, job) {
        await lab.cancel(id);
        return succeed.call(this, job);
      });
      waiting.end(IMAGE);
      expect((await lab.ended(id)).error?.code).toBe("cancelled");
      let there = true;
      const look = () => {
        files.has(saved[0] ?? "").then((has) => {
          there = has;
        });
        return !there;
      };
      await until(look, "the end of the file");
      succeeding.mockRestore();
      expect([lab.gateway.rows(), saved.length]).toEqual([[], 1]);
    },
  );
});

describe("slots and turns", () => {
  test("four at a vendor, eight in all", async () => {
    const { lab, painter, second } = await start();
    const third = new Painter();
    lab.gateway.app.addVendor(paintVendor("paint3", third));
    const held: { end(step: typeof IMAGE): void }[] = [];
    const holding = (at: Painter) => {
      at.create_ = Array.from({ length: 30 }, () => {
        const each = hang();
        held.push(each);
        return each.script;
      });
    };
    for (const each of [painter, second, third]) holding(each);
    const jobs = [];
    for (let at = 0; at < 12; at++) jobs.push(await lab.create());
    for (let at = 0; at < 3; at++) jobs.push(await lab.create({ model: "paint2/any" }));
    for (let at = 0; at < 2; at++) jobs.push(await lab.create({ model: "paint3/any" }));
    await until(() => painter.running === VENDOR_SLOTS && second.running === 3, "full slots");
    for (let round = 0; round < 20; round++) await settle();
    expect([painter.running, second.running, third.running]).toEqual([VENDOR_SLOTS, 3, SLOTS - VENDOR_SLOTS - 3]);
    for (const { end } of held) end(IMAGE);
    for (const { id } of jobs) await lab.ended(id);
    expect([painter.most, second.most]).toEqual([VENDOR_SLOTS, 3]);
  });

  test("an account with many jobs delays another's first by one slot at the most", async () => {
    const { lab, painter } = await start();
    const held: ReturnType<typeof hang>[] = [];
    painter.create_ = Array.from({ length: 200 }, () => {
      const each = hang();
      held.push(each);
      return each.script;
    });
    for (let at = 0; at < 100; at++) await lab.create({ prompt: `many ${at}` });
    await until(() => painter.running === VENDOR_SLOTS, "full slots");
    const other = await lab.account("other");
    expect((await lab.post({ model: "paint/priced", prompt: "the other's" }, {}, other.key)).status).toBe(202);
    const started = () => painter.creates.map(({ prompt }) => prompt);
    for (let slot = 0; slot < 2; slot++) {
      held[slot]!.end(IMAGE);
      await until(() => painter.creates.length === VENDOR_SLOTS + slot + 1, "the next start");
    }
    expect(started().slice(VENDOR_SLOTS)).toContain("the other's");
    for (const each of held) each.end(IMAGE);
    await until(() => lab.stored().every((row) => row["ended_ms"] !== null), "the end of all jobs");
  });
});

describe("leases", () => {
  test("a job whose end could not be written is found again, with its image", async () => {
    const { lab, clock } = await start();
    const { store } = lab.gateway;
    // The disk says no at the very end.
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'succeeded' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    const { id } = await lab.create();
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "the fault");
    expect(lab.claims()).toMatchObject([{ state: "claimed" }]);
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, id) === "succeeded");
    expect(clock.monotonic()).toBeGreaterThan(LEASE_MS);
    expect(lab.painter.creates).toHaveLength(1);
    expect(lab.claims()).toMatchObject([{ state: "counted" }]);
  });

  test("a job whose end could not be written, and that its caller cancels, is looked for no more", async () => {
    const { lab, clock } = await start();
    const { store } = lab.gateway;
    const idle = clock.pending;
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'succeeded' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    const { id } = await lab.create();
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "the fault");
    expect((await lab.cancel(id)).error?.code).toBe("cancelled");
    expect(lab.claims()).toMatchObject([{ state: "returned" }]);
    await clock.advance(2 * TICK_MS);
    expect(clock.pending).toBe(idle);
  });

  test("a job whose end can never be written leaves the others to be found", async () => {
    const { lab, clock } = await start();
    const { store } = lab.gateway;
    const refuseEnds = (when: string) =>
      store.database.run(
        `CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'succeeded' ${when} BEGIN SELECT raise(ABORT, 'no'); END`,
      );
    refuseEnds("");
    const [first, second] = [await lab.create(), await lab.create()];
    const faults = () => lab.gateway.log.filter(({ event }) => event === "image-job").length;
    await until(() => faults() === 2, "both faults");
    store.database.run("DROP TRIGGER no");
    refuseEnds(`AND new.id = '${first.id}'`);
    await turnUntil(clock, () => stateOf(lab, second.id) === "succeeded");
    expect(stateOf(lab, first.id)).toBe("fetching");
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, first.id) === "succeeded");
    expect(lab.painter.creates).toHaveLength(2);
  });

  test("a job that was to wait again, which could not be written, is found again and not sent twice", async () => {
    const { lab, clock, painter } = await start();
    const { store } = lab.gateway;
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'queued' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    painter.create_ = [unreachable(), IMAGE];
    const { id } = await lab.create();
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "the fault");
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect((await lab.show(id)).error?.code).toBe("interrupted");
    expect([painter.creates.length, lab.claims()[0]?.state]).toEqual([1, "returned"]);
  });

  test("an image whose name could not be written into its job's row is found again, uncharged, and not drawn twice", async () => {
    const { lab, clock, painter } = await start();
    const { store } = lab.gateway;
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'fetching' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    const { id } = await lab.create();
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "the fault");
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, id) === "failed");
    expect((await lab.show(id)).error?.code).toBe("interrupted");
    expect([painter.creates.length, lab.claims()[0]?.state]).toEqual([1, "returned"]);
  });

  test("a claim that could not be written is made again", async () => {
    const { lab, clock } = await start();
    const { store } = lab.gateway;
    store.database.run("CREATE TRIGGER no BEFORE UPDATE ON image_job BEGIN SELECT raise(ABORT, 'no'); END");
    const { id } = await lab.create();
    await until(() => lab.gateway.log.some(({ event }) => event === "image-claim"), "the fault");
    expect(lab.painter.creates).toEqual([]);
    store.database.run("DROP TRIGGER no");
    await turnUntil(clock, () => stateOf(lab, id) === "succeeded");
    expect(lab.painter.creates).toHaveLength(1);
  });

  test("a job keeps its worker beyond its lease; where its end cannot be written then, it is found with the next look", async () => {
    const { lab, clock, painter } = await start();
    const { store } = lab.gateway;
    const waiting = hang();
    painter.create_ = [waiting.script];
    const { id } = await lab.create();
    await until(() => painter.running === 1, "the call");
    await clock.advance(LEASE_MS * 3);
    expect((await lab.show(id)).status).toBe("processing");
    store.database.run(
      "CREATE TRIGGER no BEFORE UPDATE ON image_job WHEN new.state = 'succeeded' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    waiting.end(IMAGE);
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "the fault");
    store.database.run("DROP TRIGGER no");
    await clock.advance(TICK_MS);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect(painter.creates).toHaveLength(1);
  });
});
