import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Rate, rateOf, remaining, resetAfter, spend, waitFor } from "../../src/limits/gcra.ts";

/** A token bucket as everybody knows it, in whole micro-units so that nothing is rounded: one token is `intervalUs` of them. */
function tokenBucket({ intervalUs, burst }: Rate) {
  const full = burst * intervalUs;
  let level = full;
  let at = 0;
  return (now: number, count: number): boolean => {
    level = Math.min(full, level + (now - at));
    at = now;
    const cost = Math.min(count, burst) * intervalUs;
    if (cost > level) return false;
    level -= cost;
    return true;
  };
}

const rates = fc
  .record({
    limit: fc.integer({ min: 1, max: 5_000 }),
    burst: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 400 })),
  })
  .map(({ limit, burst }) => rateOf(limit, 60_000, burst));

/** Pauses between requests: none, a few µs, about an interval, and long ones. */
const steps = fc.array(
  fc.record({
    pauseUs: fc.oneof(fc.constant(0), fc.nat(50), fc.nat(100_000), fc.nat(120_000_000)),
    count: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 12 })),
  }),
  { minLength: 1, maxLength: 120, size: "max" },
);

describe("laws of the generic cell rate algorithm (reliability 4)", () => {
  test("it decides as a token bucket does, every time", () => {
    let decisions = 0;
    let refused = 0;
    fc.assert(
      fc.property(rates, steps, (rate, path) => {
        const bucket = tokenBucket(rate);
        let tat = 0;
        let now = 0;
        for (const { pauseUs, count } of path) {
          now += pauseUs;
          const passes = waitFor(tat, now, rate, count) === 0;
          // Not by `expect`, which takes far longer than the decision.
          if (passes !== bucket(now, count)) throw new Error(`${passes} at ${now} for ${count}`);
          if (passes) tat = spend(tat, now, rate, count);
          else refused++;
          decisions++;
        }
      }),
      { numRuns: 20_000 },
    );
    // Both answers were seen in number, or the law says nothing (reliability 8.1, G8).
    expect(decisions).toBeGreaterThan(1_000_000);
    expect(refused).toBeGreaterThan(decisions / 50);
  });

  test("a refused request passes after exactly the wait it was told, and not a microsecond before", () => {
    fc.assert(
      fc.property(rates, steps, (rate, path) => {
        let tat = 0;
        let now = 0;
        for (const { pauseUs, count } of path) {
          now += pauseUs;
          const wait = waitFor(tat, now, rate, count);
          if (wait > 0) {
            expect(waitFor(tat, now + wait - 1, rate, count)).toBe(1);
            expect(waitFor(tat, now + wait, rate, count)).toBe(0);
            now += wait;
          }
          tat = spend(tat, now, rate, count);
        }
      }),
    );
  });

  test("what remains is what passes at once; after the reset it is the whole burst", () => {
    fc.assert(
      fc.property(rates, steps, (rate, path) => {
        let tat = 0;
        let now = 0;
        for (const { pauseUs, count } of path) {
          now += pauseUs;
          if (waitFor(tat, now, rate, count) === 0) tat = spend(tat, now, rate, count);
          const left = remaining(tat, now, rate);
          let after = tat;
          for (let taken = 0; taken < left; taken++) {
            expect(waitFor(after, now, rate)).toBe(0);
            after = spend(after, now, rate);
          }
          expect(waitFor(after, now, rate)).toBeGreaterThan(0);
          expect(remaining(tat, now + resetAfter(tat, now), rate)).toBe(rate.burst);
        }
      }),
      { numRuns: 50 },
    );
  });

  test("in any span no more passes than the burst and what the span lets grow", () => {
    fc.assert(
      fc.property(rates, steps, (rate, path) => {
        const passed: number[] = [];
        let tat = 0;
        let now = 0;
        for (const { pauseUs } of path) {
          now += pauseUs;
          if (waitFor(tat, now, rate) > 0) continue;
          tat = spend(tat, now, rate);
          passed.push(now);
        }
        passed.forEach((start, first) => {
          passed.slice(first).forEach((end, more) => {
            expect(more + 1).toBeLessThanOrEqual(rate.burst + Math.floor((end - start) / rate.intervalUs));
          });
        });
      }),
    );
  });

  test("a call that weighs more than the burst is counted as the burst: it has its turn", () => {
    const rate = rateOf(5, 60_000, 5);
    expect(waitFor(0, 0, rate, 10)).toBe(0);
    const tat = spend(0, 0, rate, 10);
    expect(remaining(tat, 0, rate)).toBe(0);
    expect(waitFor(tat, 0, rate, 10)).toBe(60_000_000);
  });

  test.each([
    ["an interval that is not whole: never faster than said", rateOf(7, 60_000, 2), 8_571_429, 2],
    ["a burst that is not whole: no more at once than said", rateOf(60, 60_000, 2.5), 1_000_000, 2],
    ["no burst at all: one passes", rateOf(60, 60_000, 0.5), 1_000_000, 1],
    ["faster than its clock", rateOf(5_000_000, 1_000, 1), 1, 1],
  ])("%s", (_what, { intervalUs, burst }, interval, most) => {
    expect([intervalUs, burst]).toEqual([interval, most]);
  });

  test("a bucket that was left alone has nothing to wait for", () => {
    expect([resetAfter(5, 5), resetAfter(5, 4), resetAfter(5, 1_000_000)]).toEqual([0, 1, 0]);
  });

  test("sixty a minute, five at once: five pass, the sixth waits a second (reliability 4)", () => {
    const rate = rateOf(60, 60_000, 5);
    let tat = 0;
    for (let taken = 0; taken < 5; taken++) {
      expect(waitFor(tat, 0, rate)).toBe(0);
      tat = spend(tat, 0, rate);
    }
    expect(waitFor(tat, 0, rate)).toBe(1_000_000);
    expect(resetAfter(tat, 0)).toBe(5_000_000);
  });
});
