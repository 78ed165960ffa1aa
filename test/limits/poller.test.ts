import { describe, expect, test } from "bun:test";
import type { Caller } from "../../src/accounts/caller.ts";
import { createPlans } from "../../src/accounts/plans.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { Room } from "../../src/limits/buckets.ts";
import { RateLimited, SpeedLimiter } from "../../src/limits/limiter.ts";

/** Time that a test moves by itself: a poller's schedule has 33 polls, and there are many jobs. */
function handClock(): Clock & { at: number } {
  const clock = { at: 0, now: () => clock.at, monotonic: () => clock.at, after: () => () => {} };
  return clock;
}

/** The interface's schedule: 2 s, each wait half as long again, 10 s at the most, the first poll at once, given up after 5 minutes (interface 4.2). Times of polls from the start, ms. */
function schedule(): number[] {
  const times: number[] = [0];
  let at = 0;
  for (let wait = 2_000; ; wait = Math.min(10_000, wait * 1.5)) {
    at += wait;
    if (at > 300_000) return times;
    times.push(at);
  }
}

const caller = (plan: string): Caller => ({ accountId: `acct_${plan}`, plan, keyId: "key_1" });

describe("polls of image jobs (interface 4.2, reliability 4)", () => {
  test("the schedule has 33 polls", () => {
    expect(schedule()).toHaveLength(33);
    expect(schedule().slice(0, 4)).toEqual([0, 2_000, 5_000, 9_500]);
  });

  test.each([
    ["free", 1],
    ["pro", 2],
    ["max", 4],
    ["power", 8],
  ])("who follows it is never limited: plan %s, %p jobs in flight, 2,500 jobs", (plan, inFlight) => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    const times = schedule();
    let polls = 0;
    // The worst: all jobs in flight are polled to the very end, and in the same millisecond.
    for (let round = 0; round * inFlight < 2_500; round++) {
      const startedAt = clock.at;
      for (const time of times) {
        clock.at = startedAt + time;
        for (let job = 0; job < inFlight; job++) {
          limiter.take(caller(plan), "image-poll", { jobId: `job_${round}_${job}` }).release();
          polls++;
        }
        // And a look at the list now and then.
        limiter.take(caller(plan), "image-poll").release();
      }
      clock.at += 1;
    }
    expect(polls).toBeGreaterThanOrEqual(2_500 * 33);
  });

  test("a poll every 200 ms is limited from the seventh on, and those that pass use the account's bucket too", () => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock });
    const passed: boolean[] = [];
    for (let poll = 0; poll < 50; poll++) {
      clock.at = poll * 200;
      try {
        limiter.take(caller("pro"), "image-poll", { jobId: "job_1" });
        passed.push(true);
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(RateLimited);
        passed.push(false);
      }
    }
    expect(passed.indexOf(false)).toBe(6);
    // From then on one a second.
    expect(passed.slice(6).filter(Boolean).length).toBeLessThanOrEqual(9);
    expect(passed.slice(6).filter(Boolean).length).toBeGreaterThanOrEqual(8);
    // Another job of the same account is not held back by the first one's bucket.
    expect(() => limiter.take(caller("pro"), "image-poll", { jobId: "job_2" })).not.toThrow();
  });

  test("of the job's bucket and the account's the one that refuses sooner is told", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    const poll = (jobId?: string) => limiter.take(caller("pro"), "image-poll", jobId ? { jobId } : {}).state;
    expect(poll("job_1")).toEqual({ limit: 5, remaining: 4, resetMs: 1_000, resetAt: 1_000 });
    expect(poll()).toEqual({ limit: 30, remaining: 28, resetMs: 400, resetAt: 400 });
    for (let job = 0; job < 24; job++) poll(`another_${job}`);
    // Of both the same is left.
    expect(poll("job_2")).toMatchObject({ limit: 30, remaining: 3 });
    expect(poll("job_1")).toMatchObject({ limit: 30, remaining: 2 });
  });

  test("many jobs polled at once meet the account's own bound", () => {
    const limiter = new SpeedLimiter({ plans: createPlans(), clock: handClock() });
    const poll = (job: number) => limiter.take(caller("power"), "image-poll", { jobId: `job_${job}` });
    for (let job = 0; job < 30; job++) poll(job);
    expect(() => poll(30)).toThrow(RateLimited);
  });

  test("where all room is taken, the job's bucket does not take the place of its account's, which is free with its time", () => {
    const clock = handClock();
    const limiter = new SpeedLimiter({ plans: createPlans(), clock, room: new Room(1) });
    const pollBy = (accountId: string) => {
      limiter.take({ ...caller("power"), accountId }, "image-poll", { jobId: "job_1" }).release();
      return limiter.peek(accountId, "power", "image-poll")?.remaining;
    };
    expect(["acct_first", "acct_first"].map(pollBy)).toEqual([29, 28]);
    clock.at += 60_000;
    // One has the room that it had, and one the bucket of all for whom there is none.
    expect(["acct_second", "acct_third"].map(pollBy)).toEqual([29, 29]);
  });
});
