/**
 * The budget race (reliability 8.1, G3): 200 requests at once on a wallet for exactly 7, again and again. `bun test/prove/race.ts [rounds]`.
 * Exits 1 unless each round serves 7 and refuses 193 with 402.
 */

import { JsonText } from "../../src/lib/json-text.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { startCountingVendor, type Wish } from "./counting-vendor.ts";
import { MODEL, NANO_PER_THOUSAND, PaidGateway } from "./paid-gateway.ts";

const AT_ONCE = 200;
const SERVED = 7;
const OUTPUT = 50;

const wishOf = (round: number, at: number): Wish => ({
  ...{ id: `r${round}-${String(at).padStart(4, "0")}`, account: "one", input: 0, output: OUTPUT, delayMs: 300 },
});
const bodyOf = (round: number, at: number) => ({
  messages: [{ role: "user", content: JSON.stringify(wishOf(round, at)) }],
  max_tokens: OUTPUT,
});

/** What each of the requests holds: all are of one length. */
function holdOf(round: number): bigint {
  const text = JSON.stringify({ model: MODEL, ...bodyOf(round, 0) });
  const input = Math.ceil((estimateInputTokens(new JsonText(text), MODEL) * 11) / 10);
  return (BigInt(input) * NANO_PER_THOUSAND.input + BigInt(OUTPUT) * NANO_PER_THOUSAND.output + 999n) / 1_000n;
}

/** How many rounds came out right, and what was wrong with the others or with the books. */
export type RaceReport = { rounds: number; right: number; faults: string[] };

/** Runs so many rounds, each on an account of its own. */
export async function runRace(rounds: number): Promise<RaceReport> {
  const vendor = startCountingVendor();
  const gateway = new PaidGateway(vendor.url);
  const report: RaceReport = { rounds, right: 0, faults: [] };
  try {
    await gateway.fund(Array.from({ length: rounds }, (_, round) => holdOf(round) * BigInt(SERVED)));
    await gateway.start();
    for (let round = 0; round < rounds; round++) {
      const { key } = gateway.accounts[round]!;
      const ask = async (at: number) => {
        const response = await gateway.ask(key, bodyOf(round, at));
        await response.text();
        return response.status;
      };
      const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_, at) => ask(at)));
      const served = answers.filter((status) => status === 200).length;
      const refused = answers.filter((status) => status === 402).length;
      const called = [...vendor.calls.keys()].filter((id) => id.startsWith(`r${round}-`)).length;
      if (served === SERVED && refused === AT_ONCE - SERVED && called === SERVED) report.right++;
      else report.faults.push(`round ${round}: ${served} served, ${refused} × 402, ${called} calls upstream`);
    }
    await gateway.stop();
    const breaches = await gateway.withBooks(({ book }) => book.verify());
    report.faults.push(...breaches.map(({ invariant, detail }) => `${invariant}: ${detail}`));
    return report;
  } finally {
    vendor.stop();
    gateway.remove();
  }
}

if (import.meta.main) {
  const { rounds, right, faults } = await runRace(Number(process.argv[2] ?? 20));
  for (const fault of faults) console.log(`FAULT ${fault}`);
  console.log(
    `${AT_ONCE} at once on a wallet for ${SERVED}: right ${right} of ${rounds} times, ${faults.length} faults`,
  );
  process.exit(right === rounds && faults.length === 0 ? 0 : 1);
}
