import { afterEach, expect, mock, spyOn, test } from "bun:test";
import { join } from "node:path";
import { readHeld, readPrivate, readResident } from "../../src/lib/resident.ts";
import { memoryShare } from "../../src/limits/memory-share.ts";

const MB = 1024 * 1024;

afterEach(() => mock.restore());

test("what is resident is asked anew each time; a system that cannot say is believed to say the same as before", () => {
  const rss = spyOn(process.memoryUsage, "rss");
  rss.mockReturnValueOnce(1_000).mockReturnValueOnce(2_000);
  expect([readResident(), readResident()]).toEqual([1_000, 2_000]);
  rss.mockImplementation(() => {
    throw new Error("Failed to get memory usage");
  });
  expect(readResident()).toBe(2_000);
  rss.mockReturnValue(3_000);
  expect(readResident()).toBe(3_000);
});

test("where the system has no file that tells what is private, all of it counts, and what it has grown to since", () => {
  const rss = spyOn(process.memoryUsage, "rss");
  rss.mockReturnValueOnce(1_000).mockReturnValueOnce(2_000);
  const nowhere = join(import.meta.dir, "no-such-folder", "status");
  expect([readPrivate(nowhere), readPrivate(nowhere)]).toEqual([1_000, 2_000]);
});

test("processes that share a program share the memory: what files hold is none of theirs", () => {
  const alone = memoryShare(1);
  const third = memoryShare(3);
  expect(third.memoryBytes).toBe(alone.memoryBytes / 3);
  expect([alone.readMemory, third.readMemory]).toEqual([readHeld, readPrivate]);
  // Elsewhere than on Linux there are no such processes, and nobody tells.
  if (process.platform !== "linux") return;
  // What the tests before this one left is given back now, and not in the midst of it.
  Bun.gc(true);
  const before = readPrivate();
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(readResident());
  // Of the program's file no more counts than is at work.
  expect(readHeld()).toBeGreaterThan(before);
  expect(readHeld()).toBeLessThanOrEqual(readResident());
  // As if all of the program's file and more were resident, whatever of it is.
  const rss = spyOn(process.memoryUsage, "rss").mockReturnValue(before * 100);
  const [counted, held] = [readHeld(), readPrivate()];
  rss.mockRestore();
  // The heap may take something or give it back between the two looks.
  expect(Math.abs(counted - held - 48 * MB)).toBeLessThan(16 * MB);
  const unfilled = readPrivate();
  const filled = Buffer.alloc(128 * MB, 1);
  expect(readPrivate() - unfilled).toBeGreaterThan(filled.length / 2);
});
