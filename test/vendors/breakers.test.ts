import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { failureOf } from "../../src/dialects/gemini/finish.ts";
import { upstreamError } from "../../src/dialects/refusals/upstream-error.ts";
import { Breakers, OPEN_AFTER, OPEN_MS } from "../../src/vendors/breakers.ts";
import { VendorHealth, type Way } from "../../src/vendors/health.ts";
import { keysOf } from "../../src/vendors/keys.ts";
import { Rests } from "../../src/vendors/rests.ts";
import { PLAIN, type Repeat, RetryBudget } from "../../src/vendors/retry-budget.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { manualClock } from "../support/clock.ts";

/** Without jitter: the middle of its range. */
function opened(times = OPEN_AFTER) {
  const clock = manualClock();
  const breakers = new Breakers(clock, () => 0.5);
  const told = Array.from({ length: times }, () => breakers.failed("way"));
  return { clock, breakers, told };
}

describe("a way whose breaker is open", () => {
  const WAY = { vendor: "lab", key: 0, keys: 1, model: "m" };

  test.each([
    ["a limit", new GatewayError("rate_limit_exceeded", "Slow down.", { retryAfterSeconds: 7 })],
    ["a fault of the request", new GatewayError("invalid_request", "No.")],
    ["a refused key", new GatewayError("upstream_auth", "No.")],
  ])("asked to find out, answers with %s: another call goes out, at the latest a second later", async (_, error) => {
    const clock = manualClock();
    const health = new VendorHealth(clock, () => 0.5);
    for (let count = 0; count < OPEN_AFTER; count++) {
      health.wentWrong(WAY, new GatewayError("upstream_overloaded", "Busy."), clock.monotonic());
    }
    expect([health.isFree(WAY), health.enter(WAY), health.enter(WAY)]).toEqual([false, true, false]);
    health.wentWrong(WAY, error, clock.monotonic());
    await clock.advance(1_000);
    expect(health.enter(WAY)).toBe(true);
  });
});

describe("replies that their model brought to a bad end", () => {
  test("close their way to nobody, and tell that it is open", async () => {
    const way = { vendor: "lab", key: 0, keys: 1, model: "m" };
    const clock = manualClock();
    const health = new VendorHealth(clock, () => 0.5);
    const spoiled = failureOf("MALFORMED_FUNCTION_CALL", undefined) as GatewayError;
    for (let count = 0; count < OPEN_AFTER * 2; count++) health.wentWrong(way, spoiled, clock.monotonic());
    expect([health.isFree(way), health.of("lab").failed]).toEqual([true, OPEN_AFTER * 2]);
    const broken = new GatewayError("stream_truncated", "It ended early.");
    for (let count = 0; count < OPEN_AFTER; count++) health.wentWrong(way, broken, clock.monotonic());
    await clock.advance(OPEN_MS * 2);
    expect(health.enter(way)).toBe(true);
    health.wentWrong(way, spoiled, clock.monotonic());
    expect(health.isFree(way)).toBe(true);
  });
});

describe("a stream, which tells at its end how its way fared", () => {
  const WAY = { vendor: "lab", key: 0, keys: 1, model: "m" };
  const broken = new GatewayError("stream_truncated", "It ended early.");

  test("changes nothing of what was learnt since it began: a limit, a refused key, an open breaker", () => {
    const clock = manualClock();
    const learnt = [
      new GatewayError("rate_limit_exceeded", "Slow down.", { retryAfterSeconds: 60 }),
      new GatewayError("upstream_auth", "No."),
      ...Array.from({ length: OPEN_AFTER }, () => new GatewayError("upstream_overloaded", "Busy.")),
    ];
    for (const errors of [learnt.slice(0, 1), learnt.slice(1, 2), learnt.slice(2)]) {
      const health = new VendorHealth(clock, () => 0.5);
      health.began(WAY, clock.monotonic());
      for (const error of errors) health.wentWrong(WAY, error, clock.monotonic());
      expect(health.isFree(WAY)).toBe(false);
      health.endedWell(WAY);
      expect(health.isFree(WAY)).toBe(false);
    }
  });

  test("sent to find out, opens the breaker again when it breaks off, and closes it for good when it does not", async () => {
    for (const endsWell of [false, true]) {
      const clock = manualClock();
      const health = new VendorHealth(clock, () => 0.5);
      for (let count = 0; count < OPEN_AFTER; count++) health.wentWrong(WAY, broken, clock.monotonic());
      await clock.advance(OPEN_MS * 2);
      expect(health.enter(WAY)).toBe(true);
      health.began(WAY, clock.monotonic());
      expect(health.isFree(WAY)).toBe(true);
      if (endsWell) health.endedWell(WAY);
      health.wentWrong(WAY, broken, clock.monotonic());
      expect(health.isFree(WAY)).toBe(endsWell);
    }
  });
});

describe("what a failure does to its way, from a tenth of a second after the start", () => {
  const WAY: Way = { vendor: "lab", key: 0, keys: 2, model: "m" };
  const answer = (status: number) => upstreamError(status, { message: "No.", type: "", code: "" });
  const limit = (seconds?: number) =>
    new GatewayError("rate_limit_exceeded", "Slow down.", { ...(seconds && { retryAfterSeconds: seconds }) });
  const rested = (name: string, restMs: number) => ({ kind: "rested", name, restMs }) as const;
  const busy = new GatewayError("upstream_overloaded", "Busy.");
  const FREE = { free: true, model: true, key: true, ofUse: true, refused: false, held: false, limited: 0, freeAt: 0 };
  const KEY = { ...FREE, free: false, model: false, ofUse: false, refused: true, freeAt: 600_100 };

  test.each([
    ["a refused key", WAY, answer(401), 1, rested("lab#1", 600_000), { ...KEY, failed: 1 }],
    ["an empty account", WAY, answer(402), 1, rested("lab#1", 600_000), { ...KEY, failed: 1 }],
    ["a refused model", WAY, answer(403), 1, rested("lab#1/m", 600_000), { ...KEY, model: true, failed: 1 }],
    [
      ...["a limit of a named time", WAY, limit(7), 1, rested("lab#1/m", 7_000)],
      { ...FREE, free: false, held: true, limited: 7_100, freeAt: 7_100, failed: 0 },
    ],
    [
      ...["a limit", WAY, limit(), 1, rested("lab#1/m", 1_000)],
      { ...FREE, free: false, limited: 1_100, freeAt: 1_100, failed: 0 },
    ],
    ["what could not be told", WAY, new GatewayError("invalid_request", "No."), 9, undefined, { ...FREE, failed: 0 }],
    ["the request's own fault", WAY, answer(400), 9, undefined, { ...FREE, failed: 0 }],
    ["a busy vendor, three times", WAY, busy, 3, undefined, { ...FREE, failed: 3 }],
    [
      ...["a busy vendor, five times", WAY, busy, 5, { kind: "opened", name: "lab#1/m" }],
      { ...FREE, free: false, ofUse: false, freeAt: 30_100, failed: 5 },
    ],
    ["a vendor inside, whatever it does", { ...WAY, inside: true }, busy, 9, undefined, { ...FREE, failed: 9 }],
    ["a vendor inside, and a limit", { ...WAY, inside: true }, limit(7), 1, undefined, { ...FREE, failed: 0 }],
  ] as [string, Way, GatewayError, number, unknown, unknown][])("%s", async (_what, way, error, times, done, state) => {
    const clock = manualClock();
    await clock.advance(100);
    const health = new VendorHealth(clock, () => 0.5);
    const all = Array.from({ length: times }, () => health.wentWrong(way, error, clock.monotonic()));
    expect(all.at(-1)).toEqual(done as never);
    expect({
      ...{ free: health.isFree(way), model: health.isFree({ ...way, model: "other" }) },
      ...{ key: health.isFree({ ...way, key: 1 }), ofUse: health.isOfUse(way) },
      ...{ refused: health.isRefused(way), held: health.isHeld(way) },
      ...{ limited: health.limitedUntil(way), freeAt: health.freeAt(way), failed: health.of("lab").failed },
    }).toEqual(state as never);
    // It is told once.
    expect(health.wentWrong(way, error, clock.monotonic())).toBeUndefined();
    const trouble = (done as { name: string } | undefined)?.name;
    expect([health.troubles("lab"), health.troubles("la")]).toEqual([trouble ? [trouble] : [], []]);
    health.forgetTrouble();
    expect([health.calm, health.isFree(way), health.freeAt(way)]).toEqual([true, true, 0]);
  });

  test.each([
    ["an answer that begins", (health: VendorHealth, askedAt: number) => health.began(WAY, askedAt)],
    ["an answer", (health: VendorHealth, askedAt: number) => health.wentWell(WAY, askedAt)],
  ])("is undone for key and way by %s to what was asked since", async (_what, tell) => {
    const clock = manualClock();
    const health = new VendorHealth(clock, () => 0.5);
    await clock.advance(100);
    health.wentWrong(WAY, answer(401), 100);
    health.wentWrong(WAY, limit(7), 99);
    tell(health, 99);
    expect([health.isRefused(WAY), health.isHeld(WAY)]).toEqual([true, true]);
    tell(health, 100);
    expect([health.isFree(WAY), health.calm]).toEqual([true, true]);
    // Whoever is limited is let in: its key is not refused any more.
    health.wentWrong(WAY, answer(401), 100);
    health.wentWrong(WAY, limit(7), 100);
    expect([health.isRefused(WAY), health.limitedUntil(WAY)]).toEqual([false, 7_100]);
  });

  test.each([
    ["an answer closes it", (health: VendorHealth) => health.wentWell(WAY, 30_000), true],
    [
      "so does a fault of the request, which is an answer",
      (health: VendorHealth) => health.wentWrong(WAY, answer(400), 0),
      true,
    ],
    [
      "what could not be told says nothing",
      (health: VendorHealth) => health.wentWrong(WAY, new GatewayError("invalid_request", "No."), 0),
      false,
    ],
  ])("its breaker is open, and a call finds out: %s", async (_what, tell, closes) => {
    const clock = manualClock();
    const health = new VendorHealth(clock, () => 0.5);
    for (let count = 0; count < 5; count++) health.wentWrong(WAY, busy, 0);
    await clock.advance(30_000);
    expect(health.enter(WAY)).toBe(true);
    tell(health);
    expect([health.calm, health.freeAt(WAY)]).toEqual([closes, closes ? 0 : 30_000]);
    // Whoever comes next goes along it, be it to find out.
    expect(health.enter(WAY)).toBe(true);
  });

  test("its vendor's record, and what counts for the repeats it may be burdened with", async () => {
    const clock = manualClock();
    const health = new VendorHealth(clock, () => 0.5);
    const start = clock.now();
    health.wentWell(WAY, 0);
    await clock.advance(1);
    health.wentWrong(WAY, busy, 1);
    await clock.advance(1);
    health.wentWrong(WAY, answer(401), 2);
    const record = { served: 1, failed: 2, lastServedAt: start, lastFailedAt: start + 2, lastError: "upstream_auth" };
    expect(health.of("lab")).toMatchObject({ ...record, failingSince: start + 1 });
    health.endedWell(WAY);
    expect(health.of("lab")).toMatchObject({ ...record, served: 2, lastServedAt: start + 2, failingSince: undefined });
    for (const tell of [
      () => health.endedWell({ ...WAY, vendor: "one" }),
      () => health.wentWrong({ ...WAY, vendor: "one" }, busy, 2),
      () => health.wentWrong({ ...WAY, vendor: "one" }, limit(1), 2),
    ])
      for (let count = 0; count < 50; count++) tell();
    const { budget } = health.of("one");
    expect(Array.from({ length: 99 }, () => budget.take(clock.now(), PLAIN)).filter(Boolean)).toHaveLength(30);
  });
});

describe("a breaker (reliability 6.2)", () => {
  test("opens at the fifth failure in a row, not before, and an answer in between begins the row anew", () => {
    expect(opened().told).toEqual([false, false, false, false, true]);
    const { breakers } = opened(OPEN_AFTER - 1);
    breakers.succeeded("way");
    for (let count = 1; count < OPEN_AFTER; count++) expect(breakers.failed("way")).toBe(false);
    expect(breakers.allows("way")).toBe(true);
    expect(breakers.failed("way")).toBe(true);
    expect([breakers.allows("way"), breakers.allows("other")]).toEqual([false, true]);
  });

  test("opens when more than half of at least twenty calls fail, though never five in a row", () => {
    const breakers = new Breakers(manualClock(), () => 0.5);
    const told: boolean[] = [];
    for (let count = 0; count < 7; count++) {
      told.push(breakers.failed("way"), breakers.failed("way"));
      breakers.succeeded("way");
    }
    // The 20th call is the second failure of the seventh round.
    expect(told.indexOf(true)).toBe(13);
  });

  test.each(["succeeded", "endedWell"] as const)("half of the calls failing is not enough, one more is: %s", (good) => {
    const breakers = new Breakers(manualClock(), () => 0.5);
    // The 20th call is the tenth failure.
    const calls = [..."FSSFSFSFSFSFSFSFSFSFF"];
    const told = calls.map((call) => (call === "F" ? breakers.failed("way") : breakers[good]("way")) === true);
    expect(told.indexOf(true)).toBe(20);
  });

  test.each([
    [30_000, true],
    [30_001, false],
  ])("%d ms after the first of them, calls are added up: %p", async (ms, opens) => {
    const clock = manualClock();
    const breakers = new Breakers(clock, () => 0.5);
    for (let count = 0; count < 9; count++) {
      breakers.failed("way");
      breakers.succeeded("way");
    }
    breakers.failed("way");
    await clock.advance(ms);
    expect(breakers.failed("way")).toBe(opens);
    if (opens) return;
    // A new span of time, which needs its own twenty calls.
    for (let count = 0; count < 6; count++) {
      breakers.succeeded("way");
      expect([breakers.failed("way"), breakers.failed("way")]).toEqual([false, false]);
    }
    breakers.succeeded("way");
    expect([breakers.failed("way"), breakers.allows("way")]).toEqual([true, false]);
  });

  test("one that is closed keeps nobody away and begins its row anew with each good end", async () => {
    const { clock, breakers } = opened(OPEN_AFTER - 1);
    expect(["way", "way", "other"].map((way) => breakers.enter(way))).toEqual([true, true, true]);
    expect(breakers.states()).toEqual([{ id: "way", open: false, failures: 4 }]);
    breakers.endedWell("way");
    breakers.failed("way");
    // An answer that has only begun says nothing of the row.
    breakers.began("way");
    expect(Array.from({ length: 4 }, () => breakers.failed("way"))).toEqual([false, false, false, true]);
    for (const tell of ["began", "endedWell", "succeeded", "left"] as const) breakers[tell]("unknown");
    breakers.clear();
    expect([breakers.idle, breakers.allows("way")]).toEqual([true, true]);
    breakers.failed("way");
    await clock.advance(30_001);
    breakers.endedWell("way");
    expect(breakers.idle).toBe(true);
  });

  test.each([
    ["least", 0, 24_000],
    ["most", 1, 36_000],
  ])("opens for half a minute, give or take a fifth: at the %s", (_what, drawn, ms) => {
    const breakers = new Breakers(manualClock(), () => drawn);
    for (let count = 0; count < 5; count++) breakers.failed("way");
    expect([Math.round(breakers.opensAt("way")), breakers.opensAt("other")]).toEqual([ms, 0]);
  });

  test("a call from before it opened tells nothing of it, and one that did well closes it", async () => {
    const { clock, breakers } = opened();
    breakers.failed("way");
    expect([breakers.enter("way"), breakers.failed("way")]).toEqual([true, false]);
    await clock.advance(OPEN_MS);
    expect([breakers.failed("way"), breakers.allows("way"), breakers.enter("way")]).toEqual([false, true, true]);
    breakers.succeeded("way");
    expect([breakers.allows("way"), breakers.opensAt("way")]).toEqual([true, 0]);
  });

  test("one that closes again is as if it had never been", async () => {
    const { clock, breakers } = opened();
    await clock.advance(OPEN_MS);
    breakers.succeeded("way");
    expect(breakers.idle).toBe(true);
  });

  test("is due at its time also where a call that went out before it has just failed", async () => {
    const { clock, breakers } = opened();
    await clock.advance(OPEN_MS - 500);
    expect([breakers.enter("way"), breakers.failed("way")]).toEqual([true, false]);
    await clock.advance(500);
    expect(breakers.enter("way")).toBe(true);
    // Half a minute later the call that is to find out is no longer waited for.
    await clock.advance(29_999);
    expect(breakers.allows("way")).toBe(false);
    await clock.advance(1);
    expect([breakers.allows("way"), breakers.enter("way")]).toEqual([true, true]);
  });

  test("lets one call through when its time is over: an answer closes it, a failure opens it for twice as long", async () => {
    const { clock, breakers } = opened();
    await clock.advance(OPEN_MS - 1);
    expect(breakers.allows("way")).toBe(false);
    await clock.advance(1);
    expect([breakers.allows("way"), breakers.enter("way"), breakers.allows("way")]).toEqual([true, true, false]);
    expect(breakers.failed("way")).toBe(true);
    await clock.advance(2 * OPEN_MS - 1);
    expect(breakers.allows("way")).toBe(false);
    await clock.advance(1);
    expect(breakers.enter("way")).toBe(true);
    breakers.succeeded("way");
    expect([breakers.allows("way"), breakers.idle]).toEqual([true, true]);
  });

  test("never stays open for more than five minutes, and a probe that tells nothing makes room for another", async () => {
    const { clock, breakers } = opened();
    for (let round = 0; round < 20; round++) {
      await clock.advance(300_000);
      expect(breakers.enter("way")).toBe(true);
      expect(breakers.failed("way")).toBe(true);
    }
    await clock.advance(299_999);
    expect(breakers.allows("way")).toBe(false);
    await clock.advance(1);
    expect([breakers.enter("way"), breakers.allows("way")]).toEqual([true, false]);
    breakers.left("way");
    expect(breakers.allows("way")).toBe(true);
  });

  test("as the last one left it lets one call through at a time, and each tenth beside it", () => {
    const { breakers } = opened();
    const entered = Array.from({ length: 21 }, () => breakers.enter("way"));
    expect(entered.flatMap((let_, at) => (let_ ? [at] : []))).toEqual([0, 10, 20]);
    breakers.left("way");
    expect(breakers.enter("way")).toBe(true);
  });

  test("a call that finds out too early that nothing is better: the next one after a second, and the rest no longer for it", async () => {
    const { clock, breakers } = opened();
    expect(breakers.enter("way")).toBe(true);
    expect(breakers.failed("way")).toBe(false);
    expect(breakers.enter("way")).toBe(false);
    await clock.advance(999);
    expect(breakers.enter("way")).toBe(false);
    await clock.advance(1);
    expect(breakers.enter("way")).toBe(true);
    expect(breakers.failed("way")).toBe(false);
    // As long as if nobody had asked in between.
    await clock.advance(OPEN_MS - 1_001);
    expect(breakers.allows("way")).toBe(false);
    await clock.advance(1);
    expect(breakers.allows("way")).toBe(true);
    expect([breakers.enter("way"), breakers.failed("way")]).toEqual([true, true]);
  });

  test("a vendor that fails at once is asked by few: a thousand calls a second, a tenth of them and one more", async () => {
    const { clock, breakers } = opened();
    let asked = 0;
    for (let count = 0; count < 10_000; count++) {
      if (breakers.enter("way")) {
        asked++;
        breakers.failed("way");
      }
      if (count % 1_000 === 999) await clock.advance(1_000);
    }
    expect(asked).toBeLessThanOrEqual(1_010);
    expect(asked).toBeGreaterThan(900);
  });

  test("remembers a bounded number", () => {
    const breakers = new Breakers(manualClock());
    for (let count = 0; count < 12_000; count++) breakers.failed(`way ${count}`);
    expect(breakers.states()).toHaveLength(10_000);
    expect(breakers.states().at(-1)?.id).toBe("way 11999");
  });
});

test("a key rests as long as it was told, and a longer rest is not shortened", async () => {
  const clock = manualClock();
  const rests = new Rests(clock);
  rests.rest("a", 10_000);
  rests.rest("a", 1_000);
  await clock.advance(9_999);
  expect([rests.until("a") > 0, rests.until("b"), rests.names()]).toEqual([true, 0, ["a"]]);
  await clock.advance(1);
  expect([rests.until("a"), rests.idle]).toEqual([0, true]);
});

test.each([
  ["a shorter refusal", "refused", "refused", 1_000, [10_000, "refused"]],
  ["a longer refusal", "refused", "refused", 11_000, [11_000, "refused"]],
  ["a limit after a refusal: it is let in again", "refused", "limited", 1_000, [1_000, "limited"]],
  ["a shorter limit", "held", "limited", 1_000, [10_000, "held"]],
  ["a longer limit", "limited", "held", 11_000, [11_000, "held"]],
  ["a shorter refusal after a limit", "held", "refused", 1_000, [10_000, "held"]],
] as const)("of two rests: %s", (_what, first, second, ms, rest) => {
  const rests = new Rests(manualClock());
  rests.rest("a", 10_000, first);
  rests.rest("a", ms, second);
  expect([rests.until("a"), rests.why("a")]).toEqual([...rest]);
});

test("remembers a bounded number of rests, the oldest makes room; those that are over are told no more", async () => {
  const clock = manualClock();
  const rests = new Rests(clock);
  for (let count = 0; count < 10_000; count++) rests.rest(`${count}`, 10_000);
  rests.rest("1", 20_000);
  expect(rests.until("0")).toBe(10_000);
  rests.rest("new", 20_000);
  expect([rests.until("0"), rests.until("1"), rests.names().length]).toEqual([0, 20_000, 10_000]);
  await clock.advance(10_000);
  expect(rests.names()).toEqual(["1", "new"]);
  rests.clear();
  expect([rests.idle, rests.names()]).toEqual([true, []]);
});

test("what began to rest after a call was made is not woken by its answer", async () => {
  const clock = manualClock();
  const rests = new Rests(clock);
  const askedAt = clock.monotonic();
  await clock.advance(1);
  rests.rest("a", 10_000);
  rests.wake("a", askedAt);
  expect(rests.until("a")).toBeGreaterThan(0);
  rests.wake("a", clock.monotonic());
  expect(rests.idle).toBe(true);
});

test("a vendor of several keys is several vendors of one, always the same objects", () => {
  const vendor: Vendor = {
    ...{
      id: "lab",
      name: "lab",
      dialect: "chat",
      baseUrl: "http://lab.test",
      auth: "bearer",
      models: "any",
      quirks: {},
    },
    ...{ apiKey: "one", apiKeys: ["one", "two"] },
  };
  expect(keysOf(vendor).map(({ apiKey, apiKeys }) => [apiKey, apiKeys])).toEqual([
    ["one", undefined],
    ["two", undefined],
  ]);
  expect(keysOf(vendor)[1]).toBe(keysOf(vendor)[1]!);
  const { apiKeys: _keys, ...single } = vendor;
  expect(keysOf(single)).toEqual([single]);
});

describe("a retry budget (reliability 6.2)", () => {
  const DOUBTFUL: Repeat = { doubtful: true, elsewhere: false };

  test("three repeats at a time are always allowed, and no fourth on a quiet gateway", () => {
    const budget = new RetryBudget();
    expect(Array.from({ length: 5 }, () => budget.take(1_000, PLAIN))).toEqual([true, true, true, false, false]);
    budget.give(PLAIN);
    expect([budget.take(1_000, PLAIN), budget.take(1_000, PLAIN)]).toEqual([true, false]);
  });

  test("a fifth of the calls of the last ten seconds, a fiftieth of what may have run", () => {
    const budget = new RetryBudget();
    for (let count = 0; count < 1_000; count++) budget.note(100_000);
    const doubtful = Array.from({ length: 30 }, () => budget.take(100_001, DOUBTFUL)).filter(Boolean);
    expect(doubtful).toHaveLength(20);
    const plain = Array.from({ length: 300 }, () => budget.take(100_001, PLAIN)).filter(Boolean);
    expect(plain).toHaveLength(180);
    for (const _ of doubtful) budget.give(DOUBTFUL);
    for (const _ of plain) budget.give(PLAIN);
    // Eleven seconds later those calls are no longer lately.
    expect(Array.from({ length: 5 }, () => budget.take(111_001, PLAIN)).filter(Boolean)).toHaveLength(3);
  });

  test.each([
    ["plain", PLAIN, 0.2],
    ["elsewhere", { ...PLAIN, elsewhere: true }, 0.2],
    ["of what may have run", DOUBTFUL, 0.02],
  ])("repeats that are over count too, and are no requests: %s", (_what, repeat, share) => {
    const budget = new RetryBudget();
    let repeats = 0;
    // A hundred requests a second fail at once, for a minute; a repeat lasts no longer.
    for (let at = 0; at < 6_000; at++) {
      const now = 100_000 + at * 10;
      budget.note(now);
      // Those that go on, so that none is allowed only because so few are under way.
      if (at < 3) expect(budget.take(now, repeat)).toBe(true);
      else if (budget.take(now, repeat)) {
        repeats++;
        budget.give(repeat);
        if (!repeat.elsewhere) budget.note(now);
      }
    }
    expect(repeats / 6_000).toBeLessThanOrEqual(share);
    expect(repeats / 6_000).toBeGreaterThan(share * 0.9);
  });

  test.each([
    ["in the next span", 104_999 + 5_000, 200],
    ["ten seconds later", 110_000, 3],
    ["by a clock that was set back", 99_999, 3],
  ])("calls count for ten seconds: %s", (_what, now, allowed) => {
    const budget = new RetryBudget();
    for (let count = 0; count < 1_000; count++) budget.note(100_000);
    expect(Array.from({ length: 300 }, () => budget.take(now, PLAIN)).filter(Boolean)).toHaveLength(allowed);
  });

  test("repeats that go on count however long ago they began, and plain ones are not counted as doubtful", () => {
    const budget = new RetryBudget();
    const takes = (now: number, repeat: Repeat) =>
      Array.from({ length: 100 }, () => budget.take(now, repeat)).filter(Boolean).length;
    for (let count = 0; count < 1_000; count++) budget.note(100_000);
    expect(takes(100_000, PLAIN)).toBe(100);
    expect(takes(100_000, DOUBTFUL)).toBe(20);
    for (let count = 0; count < 60; count++) budget.give(PLAIN);
    for (let count = 0; count < 250; count++) budget.note(120_000);
    // Forty plain ones and twenty doubtful ones are still under way.
    expect([takes(120_000, DOUBTFUL), takes(120_000, PLAIN)]).toEqual([0, 0]);
    for (let count = 0; count < 20; count++) budget.give(DOUBTFUL);
    expect(takes(120_000, DOUBTFUL)).toBe(5);
  });

  test("after a storm of repeats the budget is whole again ten seconds later", () => {
    const budget = new RetryBudget();
    const takes = (now: number) => Array.from({ length: 100 }, () => budget.take(now, PLAIN)).filter(Boolean).length;
    for (let count = 0; count < 100; count++) budget.note(100_000);
    expect(takes(100_000)).toBe(20);
    for (let count = 0; count < 20; count++) budget.give(PLAIN);
    expect(takes(104_000)).toBe(3);
    for (let count = 0; count < 3; count++) budget.give(PLAIN);
    for (let count = 0; count < 100; count++) budget.note(115_000);
    expect(takes(115_000)).toBe(20);
  });
});
