import { describe, expect, test } from "bun:test";
import { AddressLimiter } from "../../src/limits/addresses.ts";
import { ADDRESS_RATES, type AddressClass } from "../../src/limits/classes.ts";
import { RateLimited } from "../../src/limits/limiter.ts";
import { manualClock } from "../support/clock.ts";

const at = (host: number) => ({ name: `192.0.2.${host}`, network: "192.0.2.0/24" });

function drain(limiter: AddressLimiter, host: number, of: AddressClass): number {
  for (let passed = 0; ; passed++) {
    try {
      limiter.take(at(host), of);
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(RateLimited);
      return passed;
    }
  }
}

describe("what an address may do (reliability 4)", () => {
  test.each([
    ["models", 20],
    ["images", 1_000],
    ["open", 100],
    ["refused-key", 10],
    ["refused-admin", 5],
  ] as const)("%s: %p at once, each address for itself, each class for itself", (of, burst) => {
    const limiter = new AddressLimiter({ clock: manualClock() });
    expect(drain(limiter, 1, of)).toBe(burst);
    expect(drain(limiter, 2, of)).toBe(burst);
    for (const other of Object.keys(ADDRESS_RATES) as AddressClass[]) {
      if (other !== of) expect(() => limiter.check(at(1), other)).not.toThrow();
    }
  });

  test("ten wrong keys a minute: the eleventh waits, looking costs nothing, and the wait is six seconds", async () => {
    const clock = manualClock();
    const limiter = new AddressLimiter({ clock });
    expect(limiter.isIdle("refused-key")).toBe(true);
    for (let wrong = 0; wrong < 10; wrong++) {
      limiter.check(at(1), "refused-key");
      limiter.note(at(1), "refused-key");
    }
    expect(limiter.isIdle("refused-key")).toBe(false);
    const refused = () => {
      try {
        limiter.check(at(1), "refused-key");
        return undefined;
      } catch (thrown) {
        return thrown as RateLimited;
      }
    };
    for (let look = 0; look < 100; look++) expect(refused()?.retryAfterSeconds).toBe(6);
    limiter.check(at(2), "refused-key");
    await clock.advance(5_999);
    expect(refused()).toBeDefined();
    await clock.advance(1);
    expect(refused()).toBeUndefined();
  });

  test("a flood of wrong keys is forgiven in the same time as ten", async () => {
    const clock = manualClock();
    const limiter = new AddressLimiter({ clock });
    for (let wrong = 0; wrong < 10_000; wrong++) limiter.note(at(1), "refused-key");
    await clock.advance(6_000);
    expect(() => limiter.check(at(1), "refused-key")).not.toThrow();
    await clock.advance(60_000);
    // And then it is forgotten: nobody has to be asked for an address again.
    expect(limiter.isIdle("refused-key")).toBe(true);
  });
});
