import { afterEach, expect, spyOn, test } from "bun:test";
import { readResident } from "../../src/lib/resident.ts";

const rss = spyOn(process.memoryUsage, "rss");
afterEach(() => rss.mockReset());

test("what is resident is asked anew each time; a system that cannot say is believed to say the same as before", () => {
  rss.mockReturnValueOnce(1_000).mockReturnValueOnce(2_000);
  expect([readResident(), readResident()]).toEqual([1_000, 2_000]);
  rss.mockImplementation(() => {
    throw new Error("Failed to get memory usage");
  });
  expect(readResident()).toBe(2_000);
  rss.mockReturnValue(3_000);
  expect(readResident()).toBe(3_000);
});
