import { describe, expect, test } from "bun:test";
import { OwedWrites } from "../../src/db/owed-writes.ts";
import { StoreError, type StoreFault } from "../../src/db/store-error.ts";
import { manualClock } from "../support/clock.ts";

const AGAIN_MS = 2_000;

/** Owed writes over a writer that fails as it is told, and what was written. */
function owing() {
  const clock = manualClock();
  const written: string[] = [];
  const told: unknown[] = [];
  const state: { fault: StoreFault | Error | undefined } = { fault: undefined };
  const writer = {
    async run<T>(operation: () => T): Promise<T> {
      const { fault } = state;
      if (fault !== undefined) throw fault instanceof Error ? fault : new StoreError(fault, "No.");
      return operation();
    },
  };
  const owed = new OwedWrites(
    writer,
    clock,
    (id) => {
      if (id === "broken") throw new Error("There is no such claim.");
      written.push(id);
    },
    (thrown) => void told.push(thrown),
  );
  return { clock, written, told, state, owed };
}

describe("a write that takes back what the store holds as open", () => {
  test("is done at once, and nothing is kept of it", async () => {
    const { clock, written, told, owed } = owing();
    await owed.do("a");
    expect([written, told, clock.pending]).toEqual([["a"], [], 0]);
  });

  test("is done once, with the others, as soon as the store takes writes again", async () => {
    const { clock, written, told, state, owed } = owing();
    state.fault = "disk-full";
    await owed.do("a");
    await owed.do("b");
    owed.add("c");
    await clock.advance(3 * AGAIN_MS);
    expect([written, told.length, clock.pending]).toEqual([[], 5, 1]);
    state.fault = undefined;
    await clock.advance(AGAIN_MS);
    expect([written, clock.pending]).toEqual([["a", "b", "c"], 0]);
    // One that comes later brings none of them back.
    state.fault = "locked";
    await owed.do("d");
    state.fault = undefined;
    await clock.advance(10 * AGAIN_MS);
    expect([written, clock.pending]).toEqual([["a", "b", "c", "d"], 0]);
  });

  test.each(["closed" as const, new Error("no such table")])(
    "is not tried again after what no waiting mends: %p",
    async (fault) => {
      const { clock, written, told, state, owed } = owing();
      state.fault = fault;
      await owed.do("a");
      state.fault = undefined;
      await clock.advance(10 * AGAIN_MS);
      expect([written, told.length, clock.pending]).toEqual([[], 1, 0]);
    },
  );

  test("is done though one that never can be is owed with it, which is told of once", async () => {
    const { clock, written, told, owed } = owing();
    for (const id of ["a", "broken", "b"]) owed.add(id);
    await clock.advance(10 * AGAIN_MS);
    // The first round wrote "a" before it was undone as a whole.
    expect([written, told.length, clock.pending]).toEqual([["a", "a", "b"], 1, 0]);
  });

  test("is tried once more at a stop, and then by the next start", async () => {
    const { clock, written, told, state, owed } = owing();
    state.fault = "disk-full";
    await owed.do("a");
    owed.stop();
    await clock.advance(10 * AGAIN_MS);
    expect([written, told.length, clock.pending]).toEqual([[], 2, 0]);
    const mended = owing();
    mended.owed.add("a");
    mended.owed.stop();
    await mended.clock.advance(0);
    expect([mended.written, mended.clock.pending]).toEqual([["a"], 0]);
  });
});
