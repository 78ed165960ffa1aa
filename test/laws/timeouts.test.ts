import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { timeoutsOf } from "../../src/lib/timeouts.ts";
import { manualClock } from "../support/clock.ts";

const LENGTH_MS = 100;

describe("waits of one length", () => {
  test("each ends at its own time unless it was taken back, in whatever order that was; one timer does for all", async () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ kind: fc.constant("start" as const) }),
        fc.record({ kind: fc.constant("stop" as const), which: fc.nat(20) }),
        fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 70 }) }),
      ),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const clock = manualClock();
        const list = timeoutsOf(clock, LENGTH_MS);
        const ended: number[] = [];
        const begun: { at: number; stop: () => void; stoppedAt: number | undefined }[] = [];
        for (const step of all) {
          if (step.kind === "pass") await clock.advance(step.ms);
          else if (step.kind === "start") {
            const number = begun.length;
            const timeout = list.start(() => ended.push(number));
            begun.push({ at: clock.monotonic(), stop: () => timeout.stop(), stoppedAt: undefined });
          } else {
            const one = begun[step.which];
            one?.stop();
            if (one) one.stoppedAt ??= clock.monotonic();
          }
          expect(clock.pending).toBeLessThanOrEqual(1);
        }
        await clock.advance(2 * LENGTH_MS);
        const due = begun.flatMap(({ at, stoppedAt }, number) =>
          stoppedAt === undefined || stoppedAt >= at + LENGTH_MS ? [number] : [],
        );
        expect(ended).toEqual(due);
        expect(clock.pending).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  test("a wait that begins while others end is counted from then", async () => {
    const clock = manualClock();
    const list = timeoutsOf(clock, LENGTH_MS);
    const ended: number[] = [];
    list.start(() => list.start(() => ended.push(clock.monotonic())));
    await clock.advance(LENGTH_MS);
    expect(ended).toEqual([]);
    await clock.advance(LENGTH_MS);
    expect(ended).toEqual([2 * LENGTH_MS]);
  });

  test("one whose end throws keeps the others from nothing", async () => {
    const clock = manualClock();
    const list = timeoutsOf(clock, LENGTH_MS);
    const ended: number[] = [];
    list.start(() => {
      throw new Error("on purpose");
    });
    list.start(() => ended.push(clock.monotonic()));
    await expect(clock.advance(LENGTH_MS)).rejects.toThrow("on purpose");
    await clock.advance(1);
    expect([ended, clock.pending]).toEqual([[LENGTH_MS + 1], 0]);
  });
});
