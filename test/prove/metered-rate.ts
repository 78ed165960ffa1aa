/**
 * Metered requests a second of one process at 64 clients, durable and paid for, beside the bare passthrough of the same run; and how long an answer takes
 * at the slowest hundredth. `bun test/prove/metered-rate.ts [requests]`. Run it alone. Exits 1 below the aim: 5,000 a second where the
 * passthrough does 15,000 (issue 4, Speed), as large a part of it on a slower machine.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { type LoadResult, runLoad } from "../bench/load.ts";
import { LOAD_CORE, MEASURED_CORE, pinned, pinSelf, readCpuSeconds, startHelper } from "../bench/processes.ts";
import { chatBody, request, UPSTREAM_MODEL, type VendorPorts } from "../bench/wire.ts";
import { buildBinary, makeFolder, removeFolder, startBinary } from "../support/binary.ts";

const CLIENTS = 64;
const BODY_BYTES = 1_000;
const ROUNDS = 3;
const AIM = 5_000;
const AIM_BESIDE = 15_000;
const MODEL = "lab/paid";
const FUNDED = 900_000_000_000_000n;
const BENCH = join(import.meta.dir, "../bench");

/** A data folder with a paying account; its key, and how many of its requests are in the books. */
async function withBooks<T>(data: string, work: (books: ReturnType<typeof openBooks>) => Promise<T> | T): Promise<T> {
  const books = openBooks(data);
  try {
    return await work(books);
  } finally {
    books.opened.stop();
    await books.writer.close();
    books.store.close();
  }
}

function openBooks(data: string) {
  const store = openStore(join(data, "sluice.db"), { waitMs: 5_000 });
  const writer = new Writer(store);
  return { store, writer, opened: openLedger(store, writer) };
}

async function prepare(data: string, ports: VendorPorts): Promise<string> {
  const base = `http://127.0.0.1:${ports["chat-whole"]}/v1`;
  const config = {
    local_discovery: false,
    vendors: [{ id: "lab", dialect: "chat", base_url: base, api_key: "bench-key", models: "any" }],
    models: [{ id: MODEL, pricing: { input: 3, output: 15 }, routes: [{ vendor: "lab", model: UPSTREAM_MODEL }] }],
    plans: {
      paying: { requests_per_minute: 1_000_000_000, concurrent_generations: 100_000, spending_window_usd: 0 },
    },
  };
  writeFileSync(join(data, "sluice.json"), JSON.stringify(config), { mode: 0o600 });
  return withBooks(data, async ({ store, writer, opened }) => {
    const keys = new Keys(store, writer);
    const { id } = await new Accounts(store, writer, keys).create({ name: "payer", plan: "paying" });
    await opened.book.deposit({ accountId: id, amountNano: FUNDED, reference: "payment" });
    return (await keys.create({ accountId: id, name: "k", kind: "api" })).key;
  });
}

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
    const key = await prepare(folder, vendor.said);
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
    await withBooks(folder, ({ store, opened }) => {
      const [count] = store.database.query("SELECT count(*) FROM usage").values()[0] ?? [];
      if (count !== BigInt(requests * (ROUNDS + 1))) faults.push(`${count} usage rows`);
      for (const { invariant, detail } of opened.book.verify({ last: 10_000 })) faults.push(`${invariant}: ${detail}`);
    });
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
