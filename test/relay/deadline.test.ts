import { expect, test } from "bun:test";
import { type GivenUp, SilenceWatch } from "../../src/relay/running/deadline.ts";
import { manualClock } from "../support/clock.ts";

const TOTAL_MS = 1_800_000;

test("silence counts from the last touch, and is told once", async () => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (reason) => told.push(reason) });
  await clock.advance(60_000);
  watch.touch();
  await clock.advance(89_999);
  expect(told).toEqual([]);
  await clock.advance(1);
  expect(told).toEqual(["silent"]);
  expect(clock.pending).toBe(0);
});

test("while the client holds what came, the upstream is not blamed; a client that never comes back is", async () => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (reason) => told.push(reason) });
  watch.rest(1_000);
  await clock.advance(59_999);
  expect(told).toEqual([]);
  watch.touch();
  await clock.advance(89_999);
  expect(told).toEqual([]);
  watch.touch();
  watch.rest(1_000);
  await clock.advance(59_999);
  expect(told).toEqual([]);
  await clock.advance(60_001);
  expect(told).toEqual(["stalled"]);
});

test.each([
  [1_000, "stalled", 60_000],
  [2_500, undefined, 600_000],
] as const)("a client that comes back for %d characters each second is given up: %p", async (each, reason, untilMs) => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (why) => void told.push(why) });
  // What its connection holds went out at once.
  watch.rest(1_000_000);
  for (let at = 1_000; at < untilMs; at += 1_000) {
    await clock.advance(1_000);
    expect(told).toEqual([]);
    watch.touch();
    watch.rest(each);
  }
  await clock.advance(1_000);
  expect(told).toEqual(reason ? [reason] : []);
  watch.stop();
});

test("what a client took before helps it no longer once it takes next to nothing", async () => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (why) => void told.push(why) });
  watch.rest(1_000_000);
  for (let at = 0; at < 720; at++) {
    await clock.advance(1_000);
    if (told.length > 0) break;
    watch.touch();
    watch.rest(at < 600 ? 100_000 : 1_000);
  }
  expect(told).toEqual(["stalled"]);
  watch.stop();
});

test("a client that was late once, and has caught up, is as good as any: words that come slowly are no fault of its own", async () => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (why) => void told.push(why) });
  for (let minute = 0; minute < 20; minute++) {
    // It is waited for just before each look, and not while one is taken.
    watch.rest(100);
    await clock.advance(5_000);
    watch.touch();
    await clock.advance(55_000);
    watch.touch();
  }
  expect(told).toEqual([]);
  watch.stop();
});

test("another limit counts from now on; a stopped watch says nothing", async () => {
  const clock = manualClock();
  let told = 0;
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: () => told++ });
  await clock.advance(89_000);
  watch.limit(2_000);
  await clock.advance(1_999);
  expect(told).toBe(0);
  watch.stop();
  await clock.advance(200_000);
  expect([told, clock.pending]).toEqual([0, 0]);
});

test("after its whole time it is over, to the millisecond and once, whatever came and whoever waits", async () => {
  for (const rests of [false, true]) {
    const clock = manualClock();
    const told: GivenUp[] = [];
    const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (reason) => told.push(reason) });
    for (let at = 0; at < TOTAL_MS - 50_000; at += 50_000) {
      await clock.advance(50_000);
      watch.touch();
      if (rests) watch.rest(200_000);
    }
    await clock.advance(49_999);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(["too-long"]);
    await clock.advance(TOTAL_MS);
    expect([told.length, clock.pending]).toEqual([1, 0]);
  }
});

test("a watch that has ended waits for nothing: no process is kept by it", async () => {
  const clock = manualClock();
  const told: GivenUp[] = [];
  const watch = new SilenceWatch(clock, 90_000, TOTAL_MS, { giveUp: (reason) => told.push(reason) });
  watch.limit(2_000);
  watch.stop();
  expect(clock.pending).toBe(0);
  watch.limit(90_000);
  expect(clock.pending).toBe(0);
  await clock.advance(TOTAL_MS);
  expect(told).toEqual([]);
});
