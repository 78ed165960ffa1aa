import { afterEach, describe, expect, test } from "bun:test";
import { createPlans } from "../../src/accounts/plans.ts";
import { Writer } from "../../src/db/writer.ts";
import { Acceptance, MAX_WAITING } from "../../src/jobs/accept.ts";
import { Closing } from "../../src/jobs/closing.ts";
import { KeyHolds } from "../../src/jobs/key-holds.ts";
import { JobStore } from "../../src/jobs/store.ts";
import { KeySpend } from "../../src/limits/key-spend.ts";
import { silentLog } from "../../src/observe/log.ts";
import { manualClock } from "../support/clock.ts";
import { until } from "../support/wait.ts";
import { hang, IMAGE, type ImageLab, Painter, PRICE_NANO, startImageLab } from "./lab.ts";

const DAY_MS = 24 * 60 * 60_000;

let lab: ImageLab | undefined;
afterEach(async () => {
  await lab?.stop();
  lab = undefined;
});

type Fault = { error: Record<string, unknown> & { code: string } };

async function start(plan: string) {
  const painter = new Painter();
  const clock = manualClock(Date.UTC(2026, 4, 1, 10));
  const made = await startImageLab({
    clock,
    painter,
    plans: { house: { metered: false, requests_per_minute: 1_000, web_calls_per_minute: 1_000 } },
  });
  lab = made;
  made.join(plan);
  const { book } = made.gateway.app;
  const { accountId } = made.gateway;
  return {
    ...{ lab: made, clock, painter, book, accountId },
    deposit: (amountNano: bigint) => book.deposit({ accountId, amountNano, reference: crypto.randomUUID() }),
    balance: () => book.balance(accountId),
  };
}

const refuse = async (from: ImageLab, body: Record<string, unknown> = {}, headers: Record<string, string> = {}) => {
  const response = await from.post({ model: "paint/priced", prompt: "a cat", ...body }, headers);
  return { status: response.status, error: ((await response.json()) as Fault).error, headers: response.headers };
};

describe("what images cost", () => {
  test("whoever was cancelled in the last moment pays nothing for what came of it", async () => {
    const { lab, painter, book, clock, deposit, balance } = await start("fast");
    await deposit(100_000_000n);
    painter.create_ = [hang().script];
    const { id } = await lab.create();
    await until(() => painter.running === 1, "the call");
    const { store } = lab.gateway;
    const jobs = new JobStore(store);
    const writer = new Writer(store, clock);
    const spend = new KeySpend(store, writer, () => undefined, clock);
    const closing = new Closing({ jobs, writer, book, clock, spend, holds: new KeyHolds(spend), log: silentLog });
    const job = jobs.find(id);
    if (!job) throw new Error("it is there");
    const blocked = { code: "content_policy", message: "No." } as const;
    expect(await closing.cancel(id)).toBe(true);
    for (const end of [
      () => closing.succeed(job),
      () => closing.block(job, blocked),
      () => closing.fail(job, blocked),
    ]) {
      expect(await end()).toBe(false);
    }
    expect([await closing.cancel(id), lab.claims().map(({ state }) => state)]).toEqual([false, ["returned"]]);
    expect([balance().postedNano, lab.gateway.rows()]).toEqual([100_000_000n, []]);
    expect(book.verify()).toEqual([]);
  });

  test("each end is a line of the log, under the job's id: what it came to, who drew it, what it cost, and why it came to nothing", async () => {
    const { lab, painter, clock, deposit } = await start("fast");
    await deposit(100_000_000n);
    painter.create_ = [
      ...Array.from({ length: 4 }, () => IMAGE),
      { kind: "blocked", message: "Not this." },
      { kind: "failed", message: "The vendor is out of paint.", ran: "maybe" },
      hang().script,
    ];
    const ids: string[] = [];
    for (let at = 0; at < 6; at++) {
      const { id } = await lab.create();
      await lab.ended(id);
      ids.push(id);
    }
    const { id: unwanted } = await lab.create();
    await until(() => painter.running === 1, "the call");
    await clock.advance(250);
    await lab.cancel(unwanted);
    const lines = lab.gateway.log.filter(({ event }) => event === "image");
    const { accountId } = lab.gateway;
    const same = { account: accountId, dialect: "images", model: "paint/priced", vendor: "paint", attempts: 1 };
    expect(lines.map(({ request_id: id }) => id)).toEqual([...ids, unwanted]);
    for (const line of lines) expect(line).toMatchObject(same);
    expect(lines.map(({ level, outcome, error, cause, cost_usd }) => [level, outcome, error, cause, cost_usd])).toEqual(
      [
        // Three of a day are free.
        ["info", "completed", undefined, undefined, "0.000000000"],
        ["info", "completed", undefined, undefined, "0.000000000"],
        ["info", "completed", undefined, undefined, "0.000000000"],
        ["info", "completed", undefined, undefined, "0.020000000"],
        ["warn", "blocked", "content_policy", "Not this.", "0.000000000"],
        ["warn", "failed", "upstream_error", "The vendor is out of paint.", "0.000000000"],
        ["info", "cancelled", undefined, undefined, "0.000000000"],
      ],
    );
    expect(lines.at(-1)).toMatchObject({ duration_ms: 250 });
    expect(JSON.stringify(lines)).not.toContain("a cat");
  });

  test("where the plan bounds none, an image costs its price, as tokens do, and nobody pays it", async () => {
    const { lab, painter, book, balance } = await start("local");
    painter.create_ = [IMAGE, { kind: "blocked", message: "Not this." }];
    for (let at = 0; at < 2; at++) await lab.ended((await lab.create()).id);
    expect(lab.gateway.rows().map(({ costNano, chargedNano }) => [costNano, chargedNano])).toEqual([
      [PRICE_NANO, 0n],
      [0n, 0n],
    ]);
    const costs = lab.gateway.log.filter(({ event }) => event === "image").map(({ cost_usd }) => cost_usd);
    expect(costs).toEqual(["0.020000000", "0.000000000"]);
    expect([balance().postedNano, book.verify()]).toEqual([0n, []]);
  });

  test("a wish that came to no job is a line of the log as well, with the request's id; one without a key is none", async () => {
    const { lab } = await start("fast");
    const { accountId } = lab.gateway;
    const asked = [
      { body: { model: "nobody/nothing" }, line: { model: "nobody/nothing", status: 404, error: "model_not_found" } },
      { body: { model: "paint/premium" }, line: { model: "paint/premium", status: 403, error: "deposit_required" } },
      { body: { prompt: 7 }, line: { model: "paint/priced", status: 400, error: "invalid_request" } },
      { body: { model: 7 }, line: { status: 400, error: "invalid_request" } },
    ];
    for (const { body, line } of asked) {
      const { headers } = await refuse(lab, body);
      expect(lab.gateway.log.filter(({ event }) => event === "image").at(-1)).toMatchObject({
        ...{ level: "info", request_id: headers.get("x-request-id"), account: accountId, dialect: "images" },
        ...{ outcome: "refused", ...line },
      });
    }
    expect((await lab.post({ model: "paint/priced", prompt: "a cat" }, {}, "sk-wrong")).status).toBe(401);
    expect(lab.gateway.log.filter(({ event }) => event === "image").length).toBe(asked.length);
  });

  test("a clock that is set back under a job has its image paid once all the same", async () => {
    const { lab, painter, clock, book } = await start("fast");
    const late = hang();
    painter.create_ = [late.script];
    const { id } = await lab.create();
    await until(() => painter.running === 1, "the call");
    clock.setWall(clock.now() - DAY_MS);
    late.end(IMAGE);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect([lab.claims(), lab.gateway.rows()]).toMatchObject([[{ state: "counted" }], [{ durationMs: 0 }]]);
    expect(book.verify()).toEqual([]);
  });

  test("the worked timeline: three a day, then the wallet, and they come back after exactly 24 hours", async () => {
    const { lab, clock, painter, book, accountId, deposit, balance } = await start("fast");
    await deposit(100_000_000n);
    const used = () => book.allowance(accountId, "image", 3).used;
    const make = async (step: typeof IMAGE | { kind: "blocked" | "failed"; message: string; ran: "maybe" }) => {
      painter.create_ = [step as typeof IMAGE];
      return lab.ended((await lab.create()).id);
    };
    const blocked = { kind: "blocked", message: "No.", ran: "maybe" } as const;
    await make(IMAGE);
    expect(used()).toBe(1);
    await clock.advance(5 * 60_000);
    await make({ kind: "failed", message: "Broken.", ran: "maybe" });
    expect(used()).toBe(1);
    await clock.advance(60_000);
    await make(blocked);
    expect(used()).toBe(2);
    await clock.advance(60_000);
    painter.create_ = [hang().script];
    await lab.cancel((await lab.create()).id);
    expect(used()).toBe(2);
    await clock.advance(60_000);
    await make(IMAGE);
    expect([used(), balance().postedNano]).toEqual([3, 100_000_000n]);
    await clock.advance(60_000);
    await make(IMAGE);
    expect([used(), balance().postedNano]).toEqual([3, 80_000_000n]);
    await clock.advance(60_000);
    await make(blocked);
    expect([used(), balance().postedNano, balance().heldNano]).toEqual([4, 80_000_000n, 0n]);
    // The first falls out to the millisecond, the blocked one of 10:06 six minutes later: one is free.
    // The wall clock alone is turned: a day of the program's own timers says nothing here, and takes long.
    const pass = (ms: number) => clock.setWall(clock.now() + ms);
    pass(DAY_MS - 10 * 60_000 - 1);
    expect(used()).toBe(4);
    pass(1);
    expect(used()).toBe(3);
    pass(6 * 60_000);
    expect(used()).toBe(2);
    await make(IMAGE);
    expect([used(), balance().postedNano]).toEqual([3, 80_000_000n]);
    expect(book.verify()).toEqual([]);
  }, 20_000);

  test("held on the wallet while it runs, never taken from the plan's window, and given back when it fails", async () => {
    const { lab, painter, book, accountId, deposit, balance } = await start("pro_window");
    await deposit(PRICE_NANO);
    const waiting = hang();
    painter.create_ = [waiting.script];
    const job = await lab.create();
    expect(balance()).toEqual({ postedNano: PRICE_NANO, heldNano: PRICE_NANO, availableNano: 0n });
    const second = await refuse(lab);
    expect([second.status, second.error.code]).toEqual([402, "insufficient_quota"]);
    waiting.end({ kind: "failed", message: "Broken.", ran: "maybe" });
    await lab.ended(job.id);
    expect(balance()).toEqual({ postedNano: PRICE_NANO, heldNano: 0n, availableNano: PRICE_NANO });
    expect(book.window(accountId, 5_000_000_000n)?.startedAtMs).toBeUndefined();
  });

  test("an account that cannot pay is told before anything is asked of a vendor, and before its body's faults", async () => {
    const { lab } = await start("fast");
    for (let at = 0; at < 3; at++) await lab.ended((await lab.create()).id);
    const told = await refuse(lab, { n: 7 });
    expect([told.status, told.error.code, told.headers.get("x-should-retry")]).toEqual([
      402,
      "insufficient_quota",
      "false",
    ]);
    expect(told.error["reset_at"]).toBe("2026-05-02T10:00:00.000Z");
    expect(lab.painter.creates).toHaveLength(3);
    expect(lab.stored()).toHaveLength(3);
    // A model without a price is given as often as the plan gives images.
    const free = await refuse(lab, { model: "paint/free" });
    expect([free.status, free.error.code, free.headers.get("x-should-retry")]).toEqual([
      429,
      "allowance_exhausted",
      "false",
    ]);
    expect(free.headers.get("retry-after")).toBeNull();
    expect(free.error["reset_at"]).toBe("2026-05-02T10:00:00.000Z");
  });

  test("no known price and no deposit", async () => {
    const { lab, deposit } = await start("fast");
    // What a token costs, though it were nothing one way, says nothing of an image.
    for (const model of ["paint/unpriced", "paint/by-token"]) {
      const unpriced = await refuse(lab, { model });
      expect([unpriced.status, unpriced.error.code]).toEqual([503, "model_unpriced"]);
    }
    expect((await lab.ended((await lab.create({ model: "paint/gratis" })).id)).status).toBe("succeeded");
    const premium = await refuse(lab, { model: "paint/premium" });
    expect([premium.status, premium.error.code]).toEqual([403, "deposit_required"]);
    await deposit(PRICE_NANO);
    expect((await lab.ended((await lab.create({ model: "paint/premium" })).id)).status).toBe("succeeded");
    lab.join("local");
    expect((await lab.ended((await lab.create({ model: "paint/unpriced" })).id)).status).toBe("succeeded");
    expect((await lab.ended((await lab.create({ model: "paint/premium" })).id)).status).toBe("succeeded");
  });

  test("plan local counts and charges nothing", async () => {
    const { lab, balance } = await start("local");
    for (let at = 0; at < 6; at++) await lab.ended((await lab.create()).id);
    expect(balance().postedNano).toBe(0n);
    expect(lab.gateway.rows().map(({ units, chargedNano }) => [units, chargedNano])).toEqual(Array(6).fill([1, 0n]));
  });

  test("a plan that charges nothing gives more images than the plan `free`, whose figures it has taken over", async () => {
    const { lab, balance } = await start("house");
    for (let at = 0; at < 6; at++) await lab.ended((await lab.create()).id);
    expect([lab.claims().length, balance().postedNano]).toEqual([6, 0n]);
  });
});

describe("what an account may have at a time", () => {
  test("the plan's jobs in flight, counted in the store and not in memory", async () => {
    const { lab, painter } = await start("pro");
    const runs = [hang(), hang()];
    painter.create_ = [...runs.map(({ script }) => script), IMAGE];
    const first = await lab.create();
    await lab.create();
    const told = await refuse(lab);
    expect([told.status, told.error.code, told.headers.get("retry-after")]).toEqual([
      429,
      "too_many_inflight_jobs",
      "5",
    ]);
    runs[0]!.end(IMAGE);
    await lab.ended(first.id);
    await lab.create();
    expect(lab.stored()).toHaveLength(3);
  });

  test.each([
    ["", () => ({})],
    [", with an Idempotency-Key too", (at: number) => ({ "idempotency-key": `key-${at}` })],
  ] as const)(
    "a refusal for want of a place takes nothing of the rate, and tells how it stands%s",
    async (_, keyed) => {
      // Ten may be created a minute.
      const { lab, clock, painter } = await start("pro");
      const runs = [hang(), hang()];
      painter.create_ = [...runs.map(({ script }) => script), IMAGE];
      const first = await lab.create();
      await lab.create();
      for (let at = 0; at < 12; at++) {
        const told = await refuse(lab, {}, keyed(at));
        expect([told.error.code, told.headers.get("x-ratelimit-remaining-requests")]).toEqual([
          "too_many_inflight_jobs",
          "8",
        ]);
      }
      runs[0]!.end(IMAGE);
      await lab.ended(first.id);
      for (let at = 0; at < 8; at++) {
        const response = await lab.post({ model: "paint/priced", prompt: "a cat" }, keyed(at));
        expect([response.status, response.headers.get("x-ratelimit-remaining-requests")]).toEqual([202, `${7 - at}`]);
        await lab.ended(((await response.json()) as { id: string }).id);
      }
      expect((await refuse(lab, {}, keyed(12))).error.code).toBe("rate_limit_exceeded");
      await clock.advance(6_000);
      await lab.create();
    },
  );

  test("many at once cannot pass the cap together", async () => {
    const { lab, painter } = await start("pro");
    painter.create_ = [hang().script];
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => lab.post({ model: "paint/priced", prompt: "a cat" })),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 202)).toHaveLength(2);
    expect(statuses.filter((status) => status === 429)).toHaveLength(8);
    expect(lab.claims()).toHaveLength(2);
  });

  test.each([
    ["paint/priced", 402, "insufficient_quota"],
    ["paint/free", 429, "allowance_exhausted"],
  ])("many at once cannot pass the day's images together, and are told so: %s", async (model, status, code) => {
    const { lab, balance } = await start("fast");
    const answers = await Promise.all(Array.from({ length: 6 }, () => lab.post({ model, prompt: "a cat" })));
    const refused = answers.filter((answer) => answer.status !== 202);
    expect(refused.map((answer) => answer.status)).toEqual([status, status, status]);
    for (const answer of refused) expect(((await answer.json()) as Fault).error.code).toBe(code);
    expect([lab.stored().length, balance().heldNano]).toEqual([3, 0n]);
  });

  test("ten blocked prompts in an hour, and there are no more until the first is an hour old", async () => {
    const { lab, clock, painter, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    painter.create_ = [{ kind: "blocked", message: "No." }];
    for (let at = 0; at < 10; at++) {
      await lab.ended((await lab.create()).id);
      await clock.advance(60_000);
    }
    const told = await refuse(lab);
    expect([told.status, told.error.code, told.headers.get("x-should-retry")]).toEqual([
      429,
      "allowance_exhausted",
      "false",
    ]);
    expect(told.error).toMatchObject({ reason: "too_many_blocked", reset_at: "2026-05-01T11:00:00.000Z" });
    await clock.advance(50 * 60_000 - 1);
    expect((await refuse(lab)).status).toBe(429);
    painter.create_ = [IMAGE];
    // On plan `local` they are the operator's own.
    lab.join("local");
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
    lab.join("fast");
    await clock.advance(1);
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
  }, 20_000);

  test("what was asked for while the wall clock stood a year ahead counts for nothing once that is right", async () => {
    const { lab, clock, painter, book, accountId, deposit, balance } = await start("fast");
    await deposit(1_000_000_000n);
    const right = clock.now();
    clock.setWall(right + 365 * DAY_MS);
    painter.create_ = [{ kind: "blocked", message: "No." }];
    for (let at = 0; at < 10; at++) await lab.ended((await lab.create()).id);
    expect((await refuse(lab)).status).toBe(429);
    clock.setWall(right);
    expect(book.allowance(accountId, "image", 3)).toEqual({ limit: 3, used: 0, remaining: 3, resetsAtMs: undefined });
    painter.create_ = [IMAGE];
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
    expect(balance().postedNano).toBe(1_000_000_000n);
    // A clock that is put back by less than a day gives nobody a day's images twice.
    clock.setWall(right - DAY_MS + 1);
    expect(book.allowance(accountId, "image", 3)).toMatchObject({ used: 1, resetsAtMs: right + DAY_MS });
    expect(book.verify()).toEqual([]);
  });

  test("where too many jobs of all accounts wait, no more of them are taken", () => {
    const parts = { jobs: { inFlight: () => 0 }, plans: createPlans(), waiting: () => MAX_WAITING };
    const acceptance = new Acceptance(parts as object as ConstructorParameters<typeof Acceptance>[0]);
    const check = () => acceptance.checkFlight({ accountId: "acct_1", plan: "local", keyId: "key_1" });
    expect(check).toThrow("The gateway has too many jobs waiting.");
    parts.waiting = () => MAX_WAITING - 1;
    expect(check).not.toThrow();
  });

  test("where jobs that were under way made them more than ten, the time is told at which there are images again", async () => {
    const { lab, clock, painter, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    const blocked = { kind: "blocked", message: "No." } as const;
    const late = [hang(), hang()];
    painter.create_ = [...late.map(({ script }) => script), blocked];
    const waiting = [await lab.create(), await lab.create()];
    await until(() => painter.running === 2, "the calls");
    for (let at = 0; at < 9; at++) {
      await lab.ended((await lab.create()).id);
      await clock.advance(10_000);
    }
    for (const { end } of late) end(blocked);
    for (const { id } of waiting) expect((await lab.ended(id)).status).toBe("blocked");
    // The first of eleven will have left the hour, and the second is still in it.
    expect((await refuse(lab)).error).toMatchObject({ reset_at: "2026-05-01T11:00:10.000Z" });
    await clock.advance(3_600_000 - 90_000);
    expect((await refuse(lab)).status).toBe(429);
    await clock.advance(10_000);
    painter.create_ = [IMAGE];
    expect((await lab.ended((await lab.create()).id)).status).toBe("succeeded");
  }, 20_000);
});

describe("keys with caps of their own", () => {
  test("requests of a day are counted, and what images cost", async () => {
    const { lab, accountId, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    const { keys } = lab.gateway.app;
    const { key } = await keys.create({ accountId, name: "capped", kind: "api", capRequestsDay: 2 });
    const ask = () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    expect([(await ask()).status, (await ask()).status]).toEqual([202, 202]);
    const told = (await (await ask()).json()) as Fault;
    expect(told.error.code).toBe("allowance_exhausted");
    const spender = await keys.create({ accountId, name: "spender", kind: "api", capTotalNano: PRICE_NANO });
    await until(() => lab.stored().every((row) => row["ended_ms"] !== null), "the end of all jobs");
    await lab.ended((await lab.create()).id);
    const paid = () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, spender.key);
    const job = (await (await paid()).json()) as { id: string };
    await lab.ended(job.id);
    const over = await paid();
    expect([over.status, ((await over.json()) as Fault).error.code]).toEqual([402, "insufficient_quota"]);
  });

  test("an image that is taken on is told of, though its key's count of it cannot be written down", async () => {
    const { lab, accountId } = await start("fast");
    const { key } = await lab.gateway.app.keys.create({ accountId, name: "capped", kind: "api", capRequestsDay: 2 });
    lab.gateway.store.database.run(
      "CREATE TRIGGER full BEFORE INSERT ON key_spend BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    const answer = await lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    expect(answer.status).toBe(202);
    const { id } = (await answer.json()) as { id: string };
    expect(await lab.ended(id)).toMatchObject({ status: "succeeded" });
    expect(lab.stored()).toHaveLength(1);
    expect(lab.gateway.log.some(({ event, job }) => event === "image-key-cap" && job === id)).toBe(true);
  });

  test("images under way are set aside: several at a time never pass a cap in money together; one that fails gives it back", async () => {
    const { lab, painter, accountId, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    for (let free = 0; free < 3; free++) await lab.ended((await lab.create()).id);
    const { keys } = lab.gateway.app;
    const { key } = await keys.create({ accountId, name: "capped", kind: "api", capTotalNano: PRICE_NANO * 2n - 1n });
    const ask = () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    const under = hang();
    painter.create_ = [under.script];
    const statuses = (await Promise.all([ask(), ask(), ask()])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([202, 402, 402]);
    expect(lab.stored()).toHaveLength(4);
    under.end({ kind: "failed", message: "Broken.", ran: "maybe" });
    await until(() => lab.stored().every((row) => row["ended_ms"] !== null), "the end of the job");
    painter.create_ = [IMAGE];
    const again = await ask();
    expect(again.status).toBe(202);
    await lab.ended(((await again.json()) as { id: string }).id);
    // One is paid for, and what is left is a nano-dollar less than another costs.
    expect((await ask()).status).toBe(402);
  });

  test("an image that a key's cap refused leaves nothing under way: caps that are taken away and set again count from nothing", async () => {
    const { lab, accountId, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    for (let free = 0; free < 3; free++) await lab.ended((await lab.create()).id);
    const { keys } = lab.gateway.app;
    // A nano-dollar less than two cost.
    const cap = { capTotalNano: PRICE_NANO * 2n - 1n };
    const { key, id } = await keys.create({ accountId, name: "capped", kind: "api", ...cap });
    const ask = () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    await lab.ended(((await (await ask()).json()) as { id: string }).id);
    expect((await ask()).status).toBe(402);
    await keys.change(id, { capTotalNano: null });
    await keys.change(id, cap);
    expect((await ask()).status).toBe(202);
  });

  test("an image that a key's cap for a day refuses is told of that cap, and not of the plan's images", async () => {
    const { lab, accountId, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    for (let free = 0; free < 3; free++) await lab.ended((await lab.create()).id);
    const { keys } = lab.gateway.app;
    const { key } = await keys.create({ accountId, name: "capped", kind: "api", capDayNano: PRICE_NANO - 1n });
    const told = await lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    expect([told.status, ((await told.json()) as Fault).error]).toMatchObject([
      429,
      {
        code: "allowance_exhausted",
        message: expect.stringContaining("what this key may cost in a day"),
        reset_at: "2026-05-02T00:00:00.000Z",
      },
    ]);
  });

  test("an image is charged and counted on its key in one: whose count cannot be written down has not ended, and is charged once later", async () => {
    const { lab, clock, accountId, deposit, balance } = await start("fast");
    await deposit(1_000_000_000n);
    for (let free = 0; free < 3; free++) await lab.ended((await lab.create()).id);
    const { database } = lab.gateway.store;
    const { keys, book } = lab.gateway.app;
    const { key } = await keys.create({ accountId, name: "capped", kind: "api", capTotalNano: PRICE_NANO });
    database.run(
      "CREATE TRIGGER full BEFORE INSERT ON key_spend WHEN NEW.nano > 0 BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    const ask = () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    const { id } = (await (await ask()).json()) as { id: string };
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "an end that cannot be written");
    expect([(await lab.show(id)).status, balance().postedNano]).toEqual(["processing", 1_000_000_000n]);
    database.run("DROP TRIGGER full");
    for (let at = 0; at < 8; at++) await clock.advance(5_000);
    expect((await lab.ended(id)).status).toBe("succeeded");
    expect(database.query("SELECT sum(nano) FROM key_spend").values()).toEqual([[PRICE_NANO]]);
    expect([balance().postedNano, lab.painter.creates.length]).toEqual([1_000_000_000n - PRICE_NANO, 4]);
    expect((await ask()).status).toBe(402);
    expect(book.verify()).toEqual([]);
  });

  test("an end that the store took back and that is written later counts once", async () => {
    const { lab, clock, accountId, deposit } = await start("fast");
    await deposit(1_000_000_000n);
    for (let free = 0; free < 3; free++) await lab.ended((await lab.create()).id);
    const { database } = lab.gateway.store;
    const { keys } = lab.gateway.app;
    const { key } = await keys.create({ accountId, name: "capped", kind: "api", capTotalNano: PRICE_NANO * 2n });
    // Every row of usage breaks the transaction that it is in, and not before its commit.
    database.run("CREATE TABLE nobody (id TEXT PRIMARY KEY)");
    database.run("CREATE TABLE broken (id TEXT REFERENCES nobody (id) DEFERRABLE INITIALLY DEFERRED)");
    database.run(
      "CREATE TRIGGER break_usage AFTER INSERT ON usage BEGIN INSERT INTO broken VALUES (NEW.request_id); END",
    );
    const ask = async () => lab.post({ model: "paint/priced", prompt: "a cat" }, {}, key);
    const { id } = (await (await ask()).json()) as { id: string };
    await until(() => lab.gateway.log.some(({ event }) => event === "image-job"), "an end that cannot be written");
    database.run("DROP TRIGGER break_usage");
    for (let at = 0; at < 8; at++) await clock.advance(5_000);
    expect((await lab.ended(id)).status).toBe("succeeded");
    const spent = () => (database.query("SELECT sum(nano) AS nano FROM key_spend").get() as { nano: bigint }).nano;
    // In the commit of the end itself.
    expect(spent()).toBe(PRICE_NANO);
    const more = await ask();
    expect(more.status).toBe(202);
    await lab.ended(((await more.json()) as { id: string }).id);
    expect(spent()).toBe(PRICE_NANO * 2n);
    expect((await ask()).status).toBe(402);
    expect(lab.gateway.app.book.verify()).toEqual([]);
  });
});
