import { describe, expect, test } from "bun:test";
import { AddressLimiter } from "../../src/limits/addresses.ts";
import { Room } from "../../src/limits/buckets.ts";
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
      if (other !== of) expect(() => limiter.take(at(3), other)).not.toThrow();
    }
  });

  test("after a crash each has half of it: who makes the gateway fall begins no anew", async () => {
    const clock = manualClock();
    const limiter = new AddressLimiter({ clock, startHalf: true });
    expect([drain(limiter, 1, "open"), drain(limiter, 1, "refused-key"), drain(limiter, 2, "refused-key")]).toEqual([
      50, 5, 5,
    ]);
  });

  test("without room for more of them those of one network have what one has", () => {
    const limiter = new AddressLimiter({ clock: manualClock(), room: new Room(10) });
    // A tenth is kept for networks.
    for (let other = 0; other < 9; other++)
      limiter.take({ name: `10.0.${other}.1`, network: `10.0.${other}.0/24` }, "open");
    expect([drain(limiter, 1, "refused-key"), drain(limiter, 2, "refused-key")]).toEqual([10, 0]);
  });

  test("ten wrong keys a minute: the eleventh waits, asking again costs nothing, and the wait is six seconds", async () => {
    const clock = manualClock();
    const limiter = new AddressLimiter({ clock });
    for (let wrong = 0; wrong < 10; wrong++) limiter.take(at(1), "refused-key");
    const refused = () => {
      try {
        limiter.take(at(1), "refused-key");
        return undefined;
      } catch (thrown) {
        return thrown as RateLimited;
      }
    };
    for (let more = 0; more < 10_000; more++) expect(refused()?.retryAfterSeconds).toBe(6);
    limiter.take(at(2), "refused-key");
    await clock.advance(5_999);
    expect(refused()).toBeDefined();
    await clock.advance(1);
    expect(refused()).toBeUndefined();
  });
});
