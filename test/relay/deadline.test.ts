import { expect, test } from "bun:test";
import { SilenceWatch } from "../../src/relay/deadline.ts";
import { manualClock } from "../support/clock.ts";

test("silence counts from the last touch, and is told once", async () => {
  const clock = manualClock();
  const told: boolean[] = [];
  const watch = new SilenceWatch(clock, 90_000, (stalled) => told.push(stalled));
  await clock.advance(60_000);
  watch.touch();
  await clock.advance(89_999);
  expect(told).toEqual([]);
  await clock.advance(1);
  expect(told).toEqual([false]);
  expect(clock.pending).toBe(0);
});

test("while the client holds what came, the upstream is not blamed; a client that never comes back is", async () => {
  const clock = manualClock();
  const told: boolean[] = [];
  const watch = new SilenceWatch(clock, 90_000, (stalled) => told.push(stalled));
  watch.rest();
  await clock.advance(250_000);
  expect(told).toEqual([]);
  watch.touch();
  await clock.advance(89_999);
  expect(told).toEqual([]);
  watch.touch();
  watch.rest();
  await clock.advance(299_999);
  expect(told).toEqual([]);
  await clock.advance(1);
  expect(told).toEqual([true]);
});

test("another limit counts from now on; a stopped watch says nothing", async () => {
  const clock = manualClock();
  let told = 0;
  const watch = new SilenceWatch(clock, 90_000, () => told++);
  await clock.advance(89_000);
  watch.limit(2_000);
  await clock.advance(1_999);
  expect(told).toBe(0);
  watch.stop();
  await clock.advance(200_000);
  expect([told, clock.pending]).toEqual([0, 0]);
});
