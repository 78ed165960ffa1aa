import { expect, test } from "bun:test";
import { runJobKills } from "../prove/jobs-kill.ts";

test("a gateway killed in the middle of its jobs: each ends once, billed as the table says, nothing is worked on twice", async () => {
  const { accepted, ends, works, faults } = await runJobKills(3, 5);
  expect(faults).toEqual([]);
  expect(accepted).toBeGreaterThan(10);
  expect(works).toBeGreaterThan(10);
  expect(ends["succeeded"]).toBeGreaterThan(0);
}, 60_000);
