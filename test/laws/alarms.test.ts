import { expect, jest, test } from "bun:test";
import fc from "fast-check";
import { Alarms } from "../../src/lib/alarms.ts";

/** A wait that is set, and when it is taken back, if ever. */
type Wait = { setAt: number; ms: number; takenBackAt: number | undefined };

const waits = fc.array(
  fc.record({
    setAt: fc.integer({ min: 0, max: 500 }),
    ms: fc.integer({ min: 0, max: 500 }),
    takenBackAt: fc.option(fc.integer({ min: 0, max: 1_000 }), { nil: undefined }),
  }),
  { maxLength: 60 },
);

test("every alarm that is not taken back rings once, not before its time, in the order of their times", () => {
  jest.useFakeTimers();
  try {
    fc.assert(
      fc.property(waits, (all: Wait[]) => {
        let now = 0;
        const alarms = new Alarms(() => now);
        const rang: { wait: Wait; at: number }[] = [];
        const stops = new Map<Wait, () => void>();
        for (; now <= 1_100; now++) {
          for (const wait of all) {
            if (wait.setAt === now)
              stops.set(
                wait,
                alarms.after(wait.ms, () => rang.push({ wait, at: now })),
              );
            if (wait.takenBackAt === now) stops.get(wait)?.();
          }
          jest.advanceTimersByTime(1);
        }
        const due = ({ setAt, ms, takenBackAt }: Wait) =>
          takenBackAt === undefined || takenBackAt < setAt || takenBackAt > setAt + ms + 1;
        for (const wait of all) {
          const times = rang.filter((one) => one.wait === wait);
          if (due(wait)) expect(times).toHaveLength(1);
          else if (wait.takenBackAt !== undefined && wait.takenBackAt < wait.setAt + wait.ms) expect(times).toEqual([]);
          for (const { at } of times) {
            expect(at).toBeGreaterThanOrEqual(wait.setAt + wait.ms);
            expect(at).toBeLessThanOrEqual(wait.setAt + wait.ms + 2);
          }
        }
      }),
    );
  } finally {
    jest.useRealTimers();
  }
});

test("alarms of one moment ring in the order in which they were set, and one may set another", async () => {
  let now = 0;
  const alarms = new Alarms(() => now);
  const rang: number[] = [];
  const over = Promise.withResolvers<void>();
  for (let each = 0; each < 50; each++) alarms.after(5, () => rang.push(each));
  alarms.after(5, () => {
    alarms.after(0, over.resolve);
  });
  now = 5;
  await over.promise;
  expect(rang).toEqual(Array.from({ length: 50 }, (_, each) => each));
});

test("what is taken back is forgotten, however far off it is", () => {
  const alarms = new Alarms(() => 0);
  const stop = alarms.after(60_000_000, () => undefined);
  const kept: WeakRef<object>[] = [];
  for (let each = 0; each < 20_000; each++) {
    const thing = { each };
    kept.push(new WeakRef(thing));
    alarms.after(60_000_000, () => void thing.each)();
  }
  Bun.gc(true);
  expect(kept.filter((one) => one.deref() !== undefined).length).toBeLessThan(10_000);
  stop();
});
