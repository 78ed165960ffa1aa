import { expect, test } from "bun:test";
import { repeat } from "../../src/lib/repeat.ts";
import { manualClock } from "../support/clock.ts";

test("work is done again and again until it is ended", async () => {
  const clock = manualClock();
  let done = 0;
  const end = repeat(clock, { everyMs: 100 }, () => done++, fail);
  await clock.advance(99);
  expect(done).toBe(0);
  await clock.advance(201);
  expect(done).toBe(3);
  end();
  await clock.advance(1_000);
  expect(done).toBe(3);
  expect(clock.pending).toBe(0);
});

test("the first wait may be another one", async () => {
  const clock = manualClock();
  let done = 0;
  repeat(clock, { everyMs: 100, firstMs: 10 }, () => done++, fail);
  await clock.advance(10);
  expect(done).toBe(1);
  await clock.advance(99);
  expect(done).toBe(1);
});

test.each<[string, () => unknown]>([
  [
    "throws",
    () => {
      throw new Error("broken");
    },
  ],
  ["rejects with", () => Promise.reject(new Error("broken"))],
])("what it %s is told, and it goes on", async (_what, work) => {
  const clock = manualClock();
  const faults: unknown[] = [];
  repeat(clock, { everyMs: 100 }, work, (thrown) => faults.push(thrown));
  await clock.advance(200);
  expect(faults).toEqual([new Error("broken"), new Error("broken")]);
});

function fail(thrown: unknown): never {
  throw thrown;
}
