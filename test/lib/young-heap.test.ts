import { expect, test } from "bun:test";
import { YoungHeap } from "../../src/lib/young-heap.ts";

/** The counts at which something was collected, of a number at work that goes up and down by one to each of `turns`. */
function collectedAt(...turns: readonly number[]): number[] {
  const seen: number[] = [];
  let count = 0;
  const heap = new YoungHeap(() => seen.push(count));
  for (const turn of turns) {
    while (count > turn) count--;
    while (count < turn) heap.note(++count);
  }
  return seen;
}

test("what is young is collected as more and more stay, and not while as many come as go", () => {
  expect(collectedAt(511)).toEqual([]);
  expect(collectedAt(1_100)).toEqual([512, 768, 1_024]);
  expect(collectedAt(600, ...Array.from({ length: 50 }, () => [450, 700]).flat())).toEqual([512]);
  expect(collectedAt(2_000, ...Array.from({ length: 50 }, () => [1_900, 2_000]).flat())).toHaveLength(6);
  // Nearly all have gone, and as many come again.
  expect(collectedAt(1_100, 3, 800)).toEqual([512, 768, 1_024, 512, 768]);
});
