import { expect, test } from "bun:test";
import fc from "fast-check";
import { playWorld } from "../ledger/world.ts";

test("whatever happens in whatever order, the ledger says what its model says, and its books are right", async () => {
  const taken = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.nat(), fc.integer({ min: 1, max: 300 }), async (seed, steps) => {
      const world = await playWorld(seed, steps);
      for (const step of world.taken.keys()) taken.add(step);
    }),
    { numRuns: 25 },
  );
  const all = ["claim", "close", "closeTogether", "crash", "extend", "hold", "pass", "post", "resolve"];
  expect([...taken].sort()).toEqual(all);
}, 30_000);
