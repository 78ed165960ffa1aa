import { describe, expect, test } from "bun:test";
import { Waiters } from "../../src/jobs/waiters.ts";
import { manualClock, settle } from "../support/clock.ts";

const LONG_MS = 60_000;
const nobody = new AbortController().signal;

/** Whether something has come to an end by now. */
async function isOver(promise: Promise<unknown>): Promise<boolean> {
  let over = false;
  promise.then(() => {
    over = true;
  });
  await settle(1);
  return over;
}

describe("requests that wait for a job", () => {
  test("who leaves a job leaves the others who wait for it waiting", async () => {
    const waiters = new Waiters(manualClock());
    const leaving = new AbortController();
    const [first, second] = [waiters.wait("job", LONG_MS, leaving.signal), waiters.wait("job", LONG_MS, nobody)];
    leaving.abort();
    expect([await isOver(first), await isOver(second)]).toEqual([true, false]);
    waiters.tell("job");
    expect(await isOver(second)).toBe(true);
  });

  test("ten thousand may wait at a time, however many have waited before", async () => {
    const waiters = new Waiters(manualClock());
    for (let round = 0; round < 2; round++) {
      const waiting = Array.from({ length: 10_000 }, (_, at) => waiters.wait(`job ${at}`, LONG_MS, nobody));
      expect(await isOver(waiters.wait("one more", LONG_MS, nobody))).toBe(true);
      expect([await isOver(waiting[0]!), await isOver(waiting.at(-1)!)]).toEqual([false, false]);
      for (let at = 0; at < waiting.length; at++) waiters.tell(`job ${at}`);
      expect(await isOver(Promise.all(waiting))).toBe(true);
    }
  });

  test("at a stop nobody waits any longer, nor whoever comes later", async () => {
    const waiters = new Waiters(manualClock());
    const waiting = waiters.wait("job", LONG_MS, nobody);
    waiters.end();
    expect([await isOver(waiting), await isOver(waiters.wait("other", LONG_MS, nobody))]).toEqual([true, true]);
  });
});
