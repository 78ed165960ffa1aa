import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Caller } from "../../src/accounts/caller.ts";
import { createPlans } from "../../src/accounts/plans.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { Room } from "../../src/limits/buckets.ts";
import type { RequestClass } from "../../src/limits/classes.ts";
import { type Limiter, type Permit, RateLimited, SpeedLimiter, type Weight } from "../../src/limits/limiter.ts";

const WALL = Date.UTC(2026, 0, 2);

function handClock(): Clock & { at: number } {
  const clock = { at: 0, now: () => WALL + clock.at, monotonic: () => clock.at, after: () => () => {} };
  return clock;
}

const caller = (plan: string, accountId = `acct_${plan}`, keyId = "key_1"): Caller => ({ accountId, plan, keyId });

function refusalOf(limiter: Limiter, who: Caller, of: RequestClass, weight?: Weight): RateLimited | undefined {
  try {
    limiter.take(who, of, weight);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof RateLimited) return thrown;
    throw thrown;
  }
}

/** Takes without ever ending what it took, until refused; how many passed. */
function drain(limiter: Limiter, who: Caller, of: RequestClass): number {
  for (let passed = 0; passed < 10_000; passed++) {
    try {
      limiter.take(who, of).release();
    } catch {
      return passed;
    }
  }
  return Number.POSITIVE_INFINITY;
}

describe("speed limits by plan (contract 4, reliability 4)", () => {
  test.each([
    ["free", 5, 15, 5, 5, 20],
    ["pro", 15, 30, 10, 10, 60],
    ["pro_plus", 30, 60, 15, 15, 120],
    ["max", 60, 120, 20, 20, 240],
    ["ultra", 150, 300, 30, 30, 600],
    ["power", 300, 600, 60, 60, 1_200],
  ])("%s: what comes at once of each class", (plan, generate, count, web, image, perMinute) => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    expect(drain(limiter, caller(plan), "generate")).toBe(generate);
    // The classes have buckets of their own.
    expect(drain(limiter, caller(plan), "count-tokens")).toBe(count);
    expect(drain(limiter, caller(plan), "web")).toBe(web);
    expect(drain(limiter, caller(plan), "image-create")).toBe(image);
    expect(drain(limiter, caller(plan), "image-poll")).toBe(30);
    // And in the minute after it, as many as the plan says.
    let passed = 0;
    for (let ms = 0; ms < 60_000; ms += 10) {
      clock.at += 10;
      if (!refusalOf(limiter, caller(plan), "generate")) passed++;
      // Nothing stays under way in this test.
      limiter.take(caller("local"), "generate");
    }
    expect(passed).toBeLessThanOrEqual(perMinute);
  });

  test("plan local is bounded nowhere, and nothing is kept of it", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    const first = limiter.take(caller("local"), "generate");
    expect(first.state).toBeUndefined();
    for (const of of ["generate", "count-tokens", "image-create", "image-poll", "web", "catalog", "admin"] as const) {
      expect(drain(limiter, caller("local"), of)).toBe(Number.POSITIVE_INFINITY);
      expect(limiter.peek("acct_local", "local", of)).toBeUndefined();
    }
  });

  test("a plan that nobody knows is bounded as free is", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    expect(drain(limiter, caller("gone"), "generate")).toBe(5);
  });

  test("a plan of the configuration counts by its own figures", () => {
    const plans = createPlans({ team: { requests_per_minute: 8, concurrent_generations: 1 } });
    const limiter = new SpeedLimiter({ plans, clock: handClock() });
    const place = limiter.take(caller("team"), "generate");
    expect(refusalOf(limiter, caller("team"), "generate")?.code).toBe("concurrency_exceeded");
    place.release();
    expect(drain(limiter, caller("team"), "generate")).toBe(1);
  });

  test("a class that bounds only what runs at once tells of no rate", () => {
    const plans = createPlans({ local: { concurrent_generations: 1 } });
    const limiter = new SpeedLimiter({ plans, clock: handClock() });
    const bounds: unknown[] = [];
    const place = limiter.take(caller("local"), "generate", { bound: (state) => bounds.push(state) });
    expect([place.state, bounds, limiter.peek("acct_local", "local", "generate")]).toEqual([
      undefined,
      [undefined],
      undefined,
    ]);
    expect(refusalOf(limiter, caller("local"), "generate")).toMatchObject({
      ...{ code: "concurrency_exceeded", retryAfterSeconds: 1, state: undefined },
    });
  });

  test("how a bucket stands is told without using it, and to a bound that may yet refuse, which then takes nothing", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    const peek = () => limiter.peek("acct_free", "free", "generate");
    const untouched = { limit: 20, remaining: 5, resetMs: 0, resetAt: WALL };
    expect([peek(), peek()]).toEqual([untouched, untouched]);
    const refusing = (state: unknown) => {
      throw new Error(JSON.stringify(state));
    };
    for (const _ of [1, 2]) {
      expect(() => limiter.take(caller("free"), "generate", { bound: refusing })).toThrow(JSON.stringify(untouched));
    }
    limiter.take(caller("free"), "generate").release();
    expect(peek()).toEqual({ limit: 20, remaining: 4, resetMs: 3_000, resetAt: WALL + 3_000 });
    // Whoever is bounded nowhere is asked all the same.
    expect(() => limiter.take(caller("local"), "generate", { bound: refusing })).toThrow(Error);
  });

  test("the keys of an account share its bucket; another account has its own", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    const keys = ["key_1", "key_2", "key_3"].map((key) => caller("free", "acct_a", key));
    let passed = 0;
    for (let turn = 0; turn < 30; turn++) {
      try {
        limiter.take(keys[turn % 3]!, "generate").release();
        passed++;
      } catch {}
    }
    expect(passed).toBe(5);
    expect(drain(limiter, caller("free", "acct_b"), "generate")).toBe(5);
  });

  test("what is left is told with every place: limit, remaining, reset", () => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    const states = Array.from({ length: 5 }, () => {
      const permit = limiter.take(caller("free"), "generate");
      permit.release();
      return permit.state;
    });
    expect(states.map((state) => state?.remaining)).toEqual([4, 3, 2, 1, 0]);
    expect(states[1]).toEqual({ limit: 20, remaining: 3, resetMs: 6_000, resetAt: WALL + 6_000 });
    const refused = refusalOf(limiter, caller("free"), "generate");
    expect(refused).toMatchObject({ code: "rate_limit_exceeded", retryAfterSeconds: 3, retry: true });
    expect(refused?.state).toEqual({ limit: 20, remaining: 0, resetMs: 15_000, resetAt: WALL + 15_000 });
    // A part of a millisecond is told as a whole one: whoever waits as told is served.
    clock.at += 0.5;
    expect(refusalOf(limiter, caller("free"), "generate")?.state).toMatchObject({ remaining: 0, resetMs: 15_000 });
    clock.at += 2_999.5;
    expect(refusalOf(limiter, caller("free"), "generate")).toBeUndefined();
  });

  test("where there is no room the bucket of a job is none that takes its account's place", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock(), room: new Room(1) });
    const who = caller("pro");
    for (const jobId of ["a", "b", "c"]) limiter.take(who, "image-poll", { jobId }).release();
    expect(limiter.peek(who.accountId, who.plan, "image-poll")?.remaining).toBe(27);
  });

  test.each(["generate", "count-tokens", "image-create", "image-poll", "web", "catalog", "admin"] as const)(
    "no more is left than the limit: %s",
    (requests) => {
      const clock = handClock();
      const limiter = new SpeedLimiter({ plans: createPlans(), clock });
      const { state } = limiter.take(caller("free"), requests);
      expect(state?.remaining).toBeLessThan(state?.limit ?? 0);
    },
  );

  test("no wait is ever told above a minute, whatever was taken", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("free", "pro", "max", "power"),
        fc.constantFrom<RequestClass>("generate", "count-tokens", "web", "image-create", "image-poll"),
        fc.array(fc.record({ ms: fc.nat(20_000), count: fc.integer({ min: 1, max: 10 }) }), { maxLength: 60 }),
        (plan, of, path) => {
          const clock = handClock();
          const limiter = new SpeedLimiter({ plans: createPlans(), clock });
          for (const { ms, count } of path) {
            clock.at += ms;
            const refused = refusalOf(limiter, caller(plan), of, { count });
            if (refused?.code !== "rate_limit_exceeded") continue;
            expect(refused.retryAfterSeconds).toBeGreaterThan(0);
            expect(refused.retryAfterSeconds).toBeLessThanOrEqual(60);
          }
        },
      ),
    );
  });

  test("a fetch of ten addresses counts as ten, also where a minute has fewer", () => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    limiter.take(caller("pro"), "web", { count: 7 }).release();
    expect(refusalOf(limiter, caller("pro"), "web", { count: 4 })?.retryAfterSeconds).toBe(6);
    // The refusal took nothing: the three that were left are there.
    limiter.take(caller("pro"), "web", { count: 3 }).release();
    limiter.take(caller("free"), "web", { count: 10 }).release();
    expect(refusalOf(limiter, caller("free"), "web")).toBeDefined();
  });
});

describe("what runs at the same time", () => {
  test.each([
    ["free", 3],
    ["pro", 10],
    ["power", 80],
  ])("%s: %p generations", (plan, most) => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    const places: Permit[] = [];
    for (let taken = 0; taken < most; taken++) {
      places.push(limiter.take(caller(plan), "generate"));
      clock.at += 3_000;
    }
    clock.at += 600_000;
    const refused = refusalOf(limiter, caller(plan), "generate");
    expect(refused).toMatchObject({ code: "concurrency_exceeded", retry: true });
    expect(refused?.retryAfterSeconds).toBeLessThanOrEqual(60);
    // The denial took nothing of the minute's requests: the whole burst is there.
    expect(refused?.state?.remaining).toBe(Math.ceil((refused?.state?.limit ?? 0) / 4));
    places[0]?.release();
    // Given back twice is given back once.
    places[0]?.release();
    limiter.take(caller(plan), "generate");
    expect(refusalOf(limiter, caller(plan), "generate")?.code).toBe("concurrency_exceeded");
    // Counting tokens has bounds of its own.
    expect(refusalOf(limiter, caller(plan), "count-tokens")).toBeUndefined();
  });

  test("five counts of tokens, and web calls by the plan", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    for (let taken = 0; taken < 5; taken++) limiter.take(caller("pro"), "count-tokens");
    expect(refusalOf(limiter, caller("pro"), "count-tokens")?.code).toBe("concurrency_exceeded");
    for (let taken = 0; taken < 3; taken++) limiter.take(caller("pro"), "web");
    expect(refusalOf(limiter, caller("pro"), "web")?.code).toBe("concurrency_exceeded");
  });
});

describe("a denial takes nothing", () => {
  test("whatever refuses, every bucket is as it was (random)", () => {
    const classes = ["generate", "count-tokens", "image-create", "image-poll", "web"] as const;
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            of: fc.constantFrom(...classes),
            ms: fc.oneof(fc.constant(0), fc.nat(4_000)),
            count: fc.integer({ min: 1, max: 4 }),
            jobId: fc.option(fc.constantFrom("job_1", "job_2"), { nil: undefined }),
            ends: fc.boolean(),
          }),
          { maxLength: 150, size: "max" },
        ),
        (path) => {
          const clock = handClock();
          const limiter = new SpeedLimiter({ plans: createPlans(), clock });
          // Beside it one that is asked only what the first one granted: a denial that took anything would part them.
          const honest = new SpeedLimiter({ plans: createPlans(), clock });
          const places: (readonly [Permit, Permit])[] = [];
          for (const { of, ms, count, jobId, ends } of path) {
            clock.at += ms;
            const weight: Weight = { count, ...(jobId !== undefined && { jobId }) };
            const before = limiter.peek("acct_free", "free", of);
            let permit: Permit | undefined;
            try {
              permit = limiter.take(caller("free"), of, weight);
            } catch (thrown) {
              expect(thrown).toBeInstanceOf(RateLimited);
              expect(limiter.peek("acct_free", "free", of)).toEqual(before);
            }
            if (permit) {
              const twin = honest.take(caller("free"), of, weight);
              expect(twin.state).toEqual(permit.state);
              if (ends) {
                permit.release();
                twin.release();
              } else places.push([permit, twin]);
            }
            if (places.length > 2) {
              const [first, second] = places.shift()!;
              first.release();
              second.release();
            }
            for (const each of classes) {
              expect(limiter.peek("acct_free", "free", each)).toEqual(honest.peek("acct_free", "free", each));
            }
          }
        },
      ),
    );
  });
});

describe("a start after a stop that was none", () => {
  test("everyone has half a burst, which grows to a whole one as time goes", () => {
    const clock = handClock();
    clock.at = 5_000;
    const limiter = new SpeedLimiter({ plans: createPlans(), clock, startHalf: true });
    // 15 at once on pro; half of it, rounded down.
    expect(drain(limiter, caller("pro", "acct_a"), "generate")).toBe(7);
    clock.at += 8_000;
    expect(drain(limiter, caller("pro", "acct_b"), "generate")).toBe(15);
  });
});
