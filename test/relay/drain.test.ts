import { expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { DRAIN_MS, drain, longestDrainMs } from "../../src/relay/running/drain.ts";
import { Ended } from "../../src/relay/running/ended.ts";
import { Running, Visit } from "../../src/relay/running/running.ts";
import { manualClock, settle } from "../support/clock.ts";

const BLOCKING_MS = 95_000;

/** A request under way that ends as soon as it is told to. */
function visit(running: Running, isWhole: boolean) {
  const one = new Visit(running, "key", new Abort());
  one.isWhole = isWhole;
  return one;
}

test("what others still bring in is ended by the same rule: streams after half a minute, also late ones, whole replies by their own bound", async () => {
  const clock = manualClock();
  const running = new Running();
  const others = Promise.withResolvers<void>();
  let isOver = false;
  const over = drain(running, clock, BLOCKING_MS, others.promise).then(() => {
    isOver = true;
  });
  await settle();
  expect(isOver).toBe(false);
  const streams = [visit(running, false)];
  const whole = visit(running, true);
  await clock.advance(DRAIN_MS);
  streams.push(visit(running, false));
  await clock.advance(1_000);
  for (const one of streams) {
    expect(one.abort.reason).toBeInstanceOf(Ended);
    one.end();
  }
  expect(whole.abort.aborted).toBe(false);
  others.resolve();
  await settle();
  expect(isOver).toBe(false);
  await clock.advance(longestDrainMs(BLOCKING_MS) - DRAIN_MS);
  expect(whole.abort.aborted).toBe(true);
  whole.end();
  await over;
});

test("what has ended before its bound is waited for no longer, and no timer goes on", async () => {
  const clock = manualClock();
  const running = new Running();
  const one = visit(running, true);
  const over = drain(running, clock, BLOCKING_MS);
  await settle();
  one.end();
  await over;
  expect([one.abort.aborted, clock.pending]).toEqual([false, 0]);
});
