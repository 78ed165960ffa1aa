import { describe, expect, test } from "bun:test";
import { WholeHeap } from "../../src/lib/whole-heap.ts";

const MIB = 1024 * 1024;

/**
 * A process that may use so much memory and needs so much of it (MB), looked at once a second: by how much it has grown since the last look, MB, and whether
 * something has gone on. At which looks all was collected, and what part of the memory each look told, in hundredths.
 */
function look(
  boundMb: number,
  neededMb: number,
  looks: readonly (readonly [grownMb: number, isBusy: boolean])[],
  tookMs = 20,
) {
  const state = { now: 0, used: 0 };
  const at: number[] = [];
  const heap = new WholeHeap({
    memoryBytes: boundMb * MIB,
    clock: { now: () => 0, monotonic: () => state.now, after: () => () => {} },
    readMemory: () => state.used * MIB,
    collect: () => {
      at.push(parts.length);
      state.used = Math.min(state.used, neededMb);
      state.now += tookMs;
    },
  });
  const parts: number[] = [];
  for (const [grown, isBusy] of looks) {
    state.now += 1_000;
    state.used += grown;
    parts.push(Math.round(heap.look(isBusy) * 100));
  }
  return { at, parts };
}
const grow = (isBusy: boolean, ...grown: number[]) => grown.map((each) => [each, isBusy] as const);

describe("all of the heap is collected", () => {
  test("before somebody is turned away for garbage, and told as what is left", () => {
    const seen = look(256, 100, grow(true, 100, 40, 30, 10, 79, 1, 1));
    expect(seen).toEqual({ at: [3, 5], parts: [39, 55, 66, 39, 70, 39, 39] });
  });

  test("not again before it has grown, where it is no garbage", () => {
    expect(look(256, 1_000, grow(true, 150, 50, 5, 5, 1, 3, 16)).at).toEqual([1, 5, 6]);
  });

  test("and where nothing goes on, when there is some; not where little is", () => {
    const still = grow(false, ...Array.from({ length: 8 }, () => 0));
    expect(look(8_000, 150, [...grow(true, 150, 20, 20), ...still, ...still]).at).toEqual([7]);
    expect(look(8_000, 150, [...grow(true, 150, 15), ...still]).at).toEqual([]);
  });

  test("and in the midst of work, once a minute at the most, and for a two-thousandth of the time", () => {
    const work = grow(true, 150, ...Array.from({ length: 150 }, () => 1));
    expect(look(8_000, 150, work).at).toEqual([59, 119]);
    expect(look(8_000, 150, work, 40).at).toEqual([59, 139]);
    expect(look(8_000, 150, grow(true, 150, ...Array.from({ length: 150 }, () => 0.1))).at).toEqual([]);
  });

  test("for a twentieth of the time at the most", () => {
    const busy = grow(true, ...Array.from({ length: 20 }, () => 90));
    expect(look(256, 10_000, busy, 300).at).toEqual([1, 7, 13, 19]);
  });
});
