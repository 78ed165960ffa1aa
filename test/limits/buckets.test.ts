import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Buckets, NOWHERE, Room } from "../../src/limits/buckets.ts";
import { rateOf, spend, waitFor } from "../../src/limits/gcra.ts";

const RATE = rateOf(60, 60_000, 5);

function take(buckets: Buckets, name: string, now: number, coarser?: string): boolean {
  const place = buckets.claim(name, RATE, now, coarser);
  const tat = buckets.tat(place, RATE);
  if (waitFor(tat, now, RATE) > 0) return false;
  buckets.setTat(place, spend(tat, now, RATE));
  return true;
}

/** Whether two names are counted together. */
const shares = (buckets: Buckets, one: string, other: string) => {
  const placeOf = (address: string) => buckets.claim(address, RATE, 0, networkOf(address));
  return placeOf(one) === placeOf(other);
};
const networkOf = (address: string) => address.replace(/\d+$/, "0/24");

describe("the room for buckets", () => {
  test("never more of them than there is room, whatever comes; old ones make room for new ones", () => {
    const room = new Room(1_000);
    const buckets = new Buckets({ room });
    for (let name = 0; name < 50_000; name++) {
      take(buckets, `name ${name}`, name * 1_000);
      expect(buckets.size).toBeLessThanOrEqual(1_001);
    }
    expect(room.left).toBeGreaterThanOrEqual(0);
    // A minute later all are old: whoever comes then has a bucket of his own.
    for (let name = 0; name < 20; name++) take(buckets, `later ${name}`, 120_000_000);
    expect(shares(buckets, "later 1", "later 2")).toBe(false);
    expect(buckets.find("later 19")).not.toBe(NOWHERE);
    // Places are used again.
    expect(buckets.find("later 19")).toBeLessThanOrEqual(1_001);
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
    const come = (address: string) => take(buckets, address, 0, networkOf(address));
    for (let host = 0; host < 90; host++) come(`10.0.0.${host}`);
    expect(shares(buckets, "10.0.0.7", "10.0.0.8")).toBe(false);
    // What is left is kept for networks.
    for (let network = 0; network < 10; network++) come(`10.9.${network}.1`);
    expect(room.left).toBe(0);
    expect(shares(buckets, "10.9.3.1", "10.9.3.200")).toBe(true);
    expect(shares(buckets, "10.9.3.1", "10.9.4.1")).toBe(false);
    // All that have no room share one burst.
    const passed = Array.from({ length: 20 }, (_, host) => come(`192.0.${host}.1`));
    expect(passed.filter(Boolean)).toHaveLength(5);
    expect(shares(buckets, "192.0.2.1", "198.51.100.1")).toBe(true);
    expect(buckets.size).toBe(101);
    // Each network has a burst of its own for all that have no room, as long as it is known.
    const ofNetwork = Array.from({ length: 20 }, (_, host) => come(`10.9.4.${host}`));
    expect(ofNetwork.filter(Boolean)).toHaveLength(4);
    // And those that came before are as free as they were.
    expect(shares(buckets, "10.0.0.7", "10.0.0.8")).toBe(false);
    expect(come("10.0.0.7")).toBe(true);
  });

  test("with room nobody is counted with everybody, though what all share is under way still", () => {
    const buckets = new Buckets({ room: new Room(100) });
    for (let host = 0; host < 101; host++) take(buckets, `${host}`, 0);
    const shared = buckets.find("nobody");
    expect(shared).not.toBe(NOWHERE);
    buckets.enter(shared);
    buckets.sweep(200, 120_000_000);
    expect(buckets.find("nobody")).toBe(NOWHERE);
  });

  test("what is under way is counted at its own place", () => {
    const buckets = new Buckets({ room: new Room(1_000) });
    const places = Array.from({ length: 300 }, (_, name) => {
      const place = buckets.claim(`${name}`, RATE, 0);
      buckets.setTat(place, 1_000_000 + place);
      return place;
    });
    for (const place of places) {
      for (let count = 0; count <= place % 3; count++) buckets.enter(place);
    }
    expect(places.every((place) => buckets.running(place) === (place % 3) + 1)).toBe(true);
    for (const place of places) buckets.leave(place);
    expect(places.every((place) => buckets.running(place) === place % 3)).toBe(true);
    expect(places.every((place) => buckets.tat(place, RATE) === 1_000_000 + place)).toBe(true);
  });

  test("classes share the room, and one's old buckets make room for another's new ones", () => {
    const room = new Room(50);
    const [old, fresh] = [new Buckets({ room }), new Buckets({ room })];
    for (let name = 0; name < 50; name++) take(old, `${name}`, 0);
    expect(room.left).toBe(0);
    for (let name = 0; name < 50; name++) take(fresh, `${name}`, 0);
    expect([old.size, fresh.size]).toEqual([50, 1]);
    for (let name = 0; name < 20; name++) take(fresh, `later ${name}`, 10_000_000);
    expect(fresh.find("later 19")).not.toBe(fresh.find("later 18"));
    expect(old.size).toBeLessThan(50);
    expect(room.left + old.size + fresh.size - (fresh.find("") === NOWHERE ? 0 : 1)).toBe(50);
  });

  test("what has something under way is never forgotten; what was only looked at takes no room", () => {
    const room = new Room(10);
    const buckets = new Buckets({ room });
    expect(buckets.find("looked at")).toBe(NOWHERE);
    expect([buckets.size, room.left]).toEqual([0, 10]);
    const busy = buckets.claim("busy", RATE, 0);
    buckets.enter(busy);
    buckets.sweep(100, 1_000_000_000);
    expect(buckets.claim("busy", RATE, 1_000_000_000)).toBe(busy);
    expect(buckets.running(busy)).toBe(1);
    buckets.leave(busy);
    buckets.sweep(100, 1_000_000_000);
    expect([buckets.size, room.left]).toEqual([0, 10]);
  });

  test("a place that was given back begins anew with whoever takes it; many places are as good as few", () => {
    const buckets = new Buckets({ room: new Room() });
    for (let round = 0; round < 3; round++) {
      const now = round * 1_000_000_000;
      const names = Array.from({ length: 2_000 }, (_, name) => `${round} ${name}`);
      for (const name of names)
        expect(Array.from({ length: 7 }, () => take(buckets, name, now)).filter(Boolean)).toHaveLength(5);
      for (const name of names) expect(take(buckets, name, now)).toBe(false);
      // It goes on where it was, and ends at the end.
      for (let pass = 0; pass < 2; pass++) buckets.sweep(1_000_000, now + 999_000_000);
      expect(buckets.size).toBe(0);
    }
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
