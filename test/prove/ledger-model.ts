/**
 * A million random operations on the ledger, each compared with a model of it in plain objects; all invariants at the end of every world.
 * `bun test/prove/ledger-model.ts [operations] [seed]`. Prints the seed; the same seed plays the same worlds. Exits 1 on a difference.
 */
import { playWorld } from "../ledger/world.ts";

const STEPS = 10_000;
/** Worlds at the same time: one waits for its writer's turn while another works. */
const AT_ONCE = 8;

const operations = Number(process.argv[2] ?? 1_000_000);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
const worlds = Math.ceil(operations / STEPS);
console.log(`${worlds} worlds of ${STEPS} operations, seed ${seed}`);

const startedAt = performance.now();
const taken = new Map<string, number>();
let next = 0;
let differences = 0;

async function play(): Promise<void> {
  while (next < worlds) {
    const world = seed + next++;
    try {
      for (const [step, times] of (await playWorld(world, STEPS)).taken)
        taken.set(step, (taken.get(step) ?? 0) + times);
    } catch (thrown) {
      differences++;
      console.log(`world ${world}:`, thrown instanceof Error ? thrown.message : thrown);
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, play));
const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
const steps = [...taken].map(([step, times]) => `${step} ${times}`).join(", ");
console.log(`${worlds * STEPS} operations in ${seconds} s (${steps}): ${differences} differences`);
process.exit(differences === 0 ? 0 : 1);
