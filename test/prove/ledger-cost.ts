/**
 * What money costs: CPU of a hold and its settle, durable, at 64 at a time, for an account that pays and for one that is counted alone, and how
 * long a settle takes. `bun test/prove/ledger-cost.ts`. Run it alone. Exits 1 when an aim is missed (40 µs of CPU; p99 of a settle 10 ms).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { newId } from "../../src/lib/id.ts";

const AT_ONCE = 64;
const ACCOUNTS = 5;
const REQUESTS = 20_000;
const AIM_CPU_US = 40;
const AIM_P99_MS = 10;

const folder = mkdtempSync(join(tmpdir(), "sluice-cost-"));
const store = openStore(join(folder, "sluice.db"));
const writer = new Writer(store);
const { ledger, book, start, stop } = openLedger(store, writer);
start();
const accounts = Array.from({ length: ACCOUNTS }, (_, at) => `acct_${at}`);
for (const id of accounts) {
  store.database.run("INSERT INTO account VALUES (?, ?, 'pro', 1)", [id, id]);
  await book.deposit({ accountId: id, amountNano: 900_000_000_000_000n, reference: id });
}
const prices = { model: "lab/paid", prices: { input: 3_000_000n, output: 15_000_000n } };
const payment = { windowNano: 0n, premium: false, sliced: true, unseenOutput: 0 };
const usage = { input: 2_000, cacheRead: 0, cacheWrite: 0, output: 700, reasoning: 0 };

async function ask(at: number, paid: boolean, settles: number[]): Promise<void> {
  const hold = await ledger.hold({
    ...{ requestId: newId("req"), accountId: accounts[at % ACCOUNTS]!, keyId: "key_1", model: "lab/paid" },
    ...{ dialect: "chat", stream: true, estimateInput: () => 2_000, prices, ...(paid && { payment }) },
  });
  await new Promise<void>((resolve) => setImmediate(resolve));
  const rest = { usage, estimated: false, attempts: 1, durationMs: 1, finish: "stop" as const };
  const begun = performance.now();
  await hold.settle({ outcome: "completed", vendor: "lab", upstreamModel: "m", ...rest });
  settles.push(performance.now() - begun);
}

/** CPU a request, µs; requests a second; p99 of a settle, ms. */
async function measure(paid: boolean): Promise<{ cpu: number; rate: number; p99: number }> {
  const settles: number[] = [];
  let next = 0;
  const cpuBefore = process.cpuUsage();
  const begun = performance.now();
  const work = async () => {
    while (next < REQUESTS) await ask(next++, paid, settles);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  settles.sort((a, b) => a - b);
  const p99 = settles[Math.floor(settles.length * 0.99)] ?? Number.NaN;
  return { cpu: (user + system) / REQUESTS, rate: REQUESTS / seconds, p99 };
}

let missed = false;
for (const round of ["warming", "measured"]) {
  for (const paid of [false, true]) {
    const { cpu, rate, p99 } = await measure(paid);
    if (round === "warming") continue;
    if (paid && (cpu > AIM_CPU_US || p99 > AIM_P99_MS)) missed = true;
    const name = paid ? "paid" : "counted";
    console.log(`${name}: ${cpu.toFixed(1)} µs CPU, ${rate.toFixed(0)} a second, settle p99 ${p99.toFixed(1)} ms`);
  }
}
console.log(`aims: ${AIM_CPU_US} µs, ${AIM_P99_MS} ms: ${missed ? "MISSED" : "met"}`);
stop();
await writer.close();
store.close();
rmSync(folder, { recursive: true, force: true });
process.exit(missed ? 1 : 0);
