import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Buckets, Room } from "../../src/limits/buckets.ts";
import { type Rate, rateOf, spend, waitFor } from "../../src/limits/gcra.ts";

const RATE = rateOf(60, 60_000, 5);

function take(buckets: Buckets, name: string, now: number, coarser?: string, rate: Rate = RATE): boolean {
  const slot = buckets.slot(name, now, coarser);
  const tat = buckets.read(slot, rate);
  if (waitFor(tat, now, rate) > 0) return false;
  buckets.write(slot, spend(tat, now, rate), now);
  return true;
}

describe("the room for buckets", () => {
  test("never more of them than there is room, whatever comes; old ones make room for new ones", () => {
    const room = new Room(1_000);
    const buckets = new Buckets({ room });
    for (let name = 0; name < 50_000; name++) {
      take(buckets, `name ${name}`, name * 1_000);
      expect(buckets.size).toBeLessThanOrEqual(1_001);
    }
    expect(room.left).toBeGreaterThanOrEqual(0);
    // A second goes by in which nobody is new: whoever comes then has room.
    expect(buckets.slot("new", 60_000_000)).toBe("new");
  });

  test("taking old ones out is not noticed by anyone (random)", () => {
    const path = fc.array(fc.record({ name: fc.nat(40), pauseUs: fc.nat(3_000_000) }), { maxLength: 200, size: "max" });
    fc.assert(
      fc.property(path, (steps) => {
        const swept = new Buckets({ room: new Room() });
        const kept = new Map<string, number>();
        let now = 0;
        for (const { name, pauseUs } of steps) {
          now += pauseUs;
          swept.sweep(100, now);
          const tat = kept.get(`${name}`) ?? 0;
          const passes = waitFor(tat, now, RATE) === 0;
          if (passes) kept.set(`${name}`, spend(tat, now, RATE));
          expect(take(swept, `${name}`, now)).toBe(passes);
        }
      }),
    );
  });

  test("without room an address is counted with its network, and without any with everybody", () => {
    const room = new Room(100);
    const buckets = new Buckets({ room });
    for (let host = 0; host < 90; host++) take(buckets, `10.0.0.${host}`, 0, "10.0.0.0/24");
    // What is left is kept for networks.
    expect(buckets.slot("10.9.9.1", 0, "10.9.9.0/24")).toBe("10.9.9.0/24");
    expect(buckets.slot("10.0.0.7", 0, "10.0.0.0/24")).toBe("10.0.0.7");
    for (let network = 0; network < 10; network++) take(buckets, `10.9.${network}.1`, 0, `10.9.${network}.0/24`);
    expect(room.left).toBe(0);
    expect(buckets.slot("10.9.3.200", 0, "10.9.3.0/24")).toBe("10.9.3.0/24");
    const shared = buckets.slot("192.0.2.1", 0, "192.0.2.0/24");
    expect(shared).toBe(buckets.slot("198.51.100.1", 0, "198.51.100.0/24"));
    // All that have no room share one burst.
    const passed = Array.from({ length: 20 }, (_, host) => take(buckets, `192.0.2.${host}`, 0, "192.0.2.0/24"));
    expect(passed.filter(Boolean)).toHaveLength(5);
    expect(buckets.size).toBe(101);
  });

  test("classes share the room, and one's old buckets make room for another's new ones", () => {
    const room = new Room(50);
    const [old, fresh] = [new Buckets({ room }), new Buckets({ room })];
    for (let name = 0; name < 50; name++) take(old, `${name}`, 0);
    expect(room.left).toBe(0);
    for (let name = 0; name < 50; name++) expect(fresh.slot(`${name}`, 0)).toBe("");
    expect(old.size).toBe(50);
    for (let name = 0; name < 20; name++) take(fresh, `${name}`, 10_000_000);
    expect(fresh.slot("another", 10_000_000)).toBe("another");
    expect(old.size).toBeLessThan(50);
  });

  test("who is not known after a crash starts with half a burst, and nobody gains by being forgotten", () => {
    const buckets = new Buckets({ room: new Room(), halfFrom: 1_000_000 });
    const passed = (now: number) => Array.from({ length: 9 }, () => take(buckets, "a", now)).filter(Boolean).length;
    expect(passed(1_000_000)).toBe(2);
    buckets.sweep(100, 1_000_000);
    expect(passed(1_000_000)).toBe(0);
    buckets.sweep(100, 60_000_000);
    expect(buckets.size).toBe(0);
    expect(passed(60_000_000)).toBe(5);
  });
});
