import { expect, test } from "bun:test";
import { runBank } from "../prove/bank.ts";
import { countSyncs } from "../prove/fsyncs.ts";
import { runKills } from "../prove/kill.ts";
import { runRace } from "../prove/race.ts";
import { runTorn } from "../prove/torn-images.ts";

// Small rounds of the proofs in test/prove, which run long enough for their figures.

test("200 requests at once on a wallet for exactly 7: 7 served, 193 refused", async () => {
  expect(await runRace(2)).toEqual({ rounds: 2, right: 2, faults: [] });
}, 30_000);

test("64 clients on 5 accounts: every read adds up, and the charges are the vendor's own count", async () => {
  const { served, refused, reads, faults } = await runBank(1.5);
  expect(faults).toEqual([]);
  for (const count of [served, refused, reads]) expect(count).toBeGreaterThan(0);
}, 30_000);

test("killed at random moments, it loses nothing that was acknowledged and bills nothing twice", async () => {
  const { acknowledged, faults } = await runKills(5);
  expect(faults).toEqual([]);
  expect(acknowledged).toBeGreaterThan(0);
}, 60_000);

test("torn images of the store open, are sound, and have what was acknowledged", async () => {
  const { images, states, faults } = await runTorn(90, Date.now() % 1_000_000);
  expect([images, faults]).toEqual([90, []]);
  expect(states).toBeGreaterThan(15);
}, 30_000);

test("every settle has its own sync", async () => {
  const report = await countSyncs(10);
  // Where the system calls cannot be counted, what the store says of itself is tested with its pragmas.
  if (!report) return;
  expect(report.syncs).toBeGreaterThanOrEqual(10);
  expect(report.synchronous).toBe("2");
}, 30_000);
