/**
 * Metered requests a second of one process at 64 clients, durable and paid for, beside the bare passthrough of the same run; and how long an answer takes
 * at the slowest hundredth. `bun test/prove/metered-rate.ts [requests]`. Run it alone. Exits 1 below the aim: 5,000 a second where the
 * passthrough does 15,000 (issue 4, Speed), as large a part of it on a slower machine.
 */
import { join } from "node:path";
import { type LoadResult, runLoad } from "../bench/load.ts";
import { LOAD_CORE, MEASURED_CORE, pinned, pinSelf, readCpuSeconds, startHelper } from "../bench/processes.ts";
import { chatBody, request, type VendorPorts } from "../bench/wire.ts";
import { buildBinary, makeFolder, removeFolder, startBinary } from "../support/binary.ts";
import { inspectPaidFolder, MODEL, preparePaidFolder } from "./paid-folder.ts";

const CLIENTS = 64;
const BODY_BYTES = 1_000;
const ROUNDS = 3;
const AIM = 5_000;
const AIM_BESIDE = 15_000;
const BENCH = join(import.meta.dir, "../bench");

/** `cpuUs`: CPU of the measured process for each answer: it depends less on what else the machine does than the rate. */
type Round = LoadResult & { cpuUs: number };

const rateOf = ({ right, seconds }: LoadResult) => right / seconds;
const best = (results: readonly Round[]) => results.reduce((a, b) => (rateOf(b) > rateOf(a) ? b : a));

async function measure(requests: number): Promise<{ raw: Round; metered: Round; faults: string[] }> {
  pinSelf(LOAD_CORE);
  const env = { PATH: process.env["PATH"] ?? "" };
  const bun = process.execPath;
  const vendor = await startHelper<VendorPorts>(pinned(LOAD_CORE, [bun, join(BENCH, "vendor.ts")]), env);
  const passthrough = await startHelper<{ port: number }>(
    pinned(MEASURED_CORE, [bun, join(BENCH, "passthrough.ts")]),
    env,
  );
  const folder = makeFolder();
  const faults: string[] = [];
  try {
    const key = await preparePaidFolder(folder, vendor.said["chat-whole"]);
    const command = pinned(MEASURED_CORE, [buildBinary()]);
    const gateway = await startBinary(["serve", "--port", "0", "--data", folder], { folder, command });
    const path = "/v1/chat/completions";
    const body = chatBody(MODEL, BODY_BYTES, false);
    const vendorPort = String(vendor.said["chat-whole"]);
    const targets = {
      raw: {
        pid: passthrough.child.pid,
        port: passthrough.said.port,
        request: request(path, { "x-bench-port": vendorPort }, body),
      },
      metered: {
        pid: gateway.child.pid,
        port: Number(new URL(gateway.url).port),
        request: request(path, { authorization: `Bearer ${key}` }, body),
      },
    };
    const results: Record<keyof typeof targets, Round[]> = { raw: [], metered: [] };
    for (let round = 0; round <= ROUNDS; round++) {
      for (const name of ["raw", "metered"] as const) {
        const { pid, ...load } = targets[name];
        const cpuBefore = readCpuSeconds(pid);
        const result = await runLoad({ ...load, connections: CLIENTS, requests, events: 0 });
        const cpuUs = ((readCpuSeconds(pid) - cpuBefore) / requests) * 1e6;
        if (result.wrong > 0) faults.push(`${name}: ${result.wrong} wrong answers`);
        // The first round warms up.
        if (round > 0) results[name].push({ ...result, cpuUs });
      }
    }
    await gateway.stop();
    faults.push(...(await inspectPaidFolder(folder, requests * (ROUNDS + 1))));
    return { raw: best(results.raw), metered: best(results.metered), faults };
  } finally {
    vendor.child.kill();
    passthrough.child.kill();
    removeFolder(folder);
  }
}

const { raw, metered, faults } = await measure(Number(process.argv[2] ?? 20_000));
for (const fault of faults) console.log(`FAULT ${fault}`);
const [rate, beside] = [rateOf(metered), rateOf(raw)];
const p99 = (metered.p99Us / 1_000).toFixed(1);
const of = (each: number, { cpuUs }: Round) => `${each.toFixed(0)} a second (${cpuUs.toFixed(0)} µs CPU)`;
console.log(`${of(rate, metered)}, p99 ${p99} ms; the passthrough ${of(beside, raw)}`);
const aim = Math.min(AIM, (beside * AIM) / AIM_BESIDE);
process.exit(rate >= aim && faults.length === 0 ? 0 : 1);
