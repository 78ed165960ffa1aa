/**
 * What `--workers` comes to: CPU of a metered, durable request in a gateway that is alone, and in one with two workers: what the worker takes of it, and what
 * is left to the one process that decides and writes. `bun test/prove/workers.ts [requests]`. Run it alone. Exits 1 unless every request is in the books
 * once, the books are right, and what is left to the one process is less than half of a whole request: only then do more processes serve more.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { runLoad } from "../bench/load.ts";
import { LOAD_CORE, MEASURED_CORE, pinned, pinSelf, startHelper } from "../bench/processes.ts";
import { chatBody, request, UPSTREAM_MODEL, type VendorPorts } from "../bench/wire.ts";
import { childrenOf, readOwnCpuSeconds } from "../scenarios/workers-processes.ts";
import { buildBinary, makeFolder, removeFolder, startBinary } from "../support/binary.ts";

const CLIENTS = 64;
const BODY_BYTES = 4_000;
const ROUNDS = 3;
/** Requests of each process before the first round, for each of a round's: code that has run seldom costs twice as much, so all must have run as often. */
const WARM_UP = 3;
const WORKERS = 2;
/** Of a whole request's CPU, what may be left to the one process. */
const AIM = 0.5;
const MODEL = "lab/paid";
const FUNDED = 900_000_000_000_000n;

function openBooks(data: string) {
  const store = openStore(join(data, "sluice.db"), { waitMs: 5_000 });
  const writer = new Writer(store);
  return { store, writer, opened: openLedger(store, writer) };
}

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

/** A data folder with a paying account; its key. */
function prepare(data: string, ports: VendorPorts): Promise<string> {
  const base = `http://127.0.0.1:${ports["chat-whole"]}/v1`;
  const config = {
    local_discovery: false,
    vendors: [{ id: "lab", dialect: "chat", base_url: base, api_key: "bench-key", models: "any" }],
    models: [{ id: MODEL, pricing: { input: 3, output: 15 }, routes: [{ vendor: "lab", model: UPSTREAM_MODEL }] }],
    plans: { paying: { requests_per_minute: 1_000_000_000, concurrent_generations: 100_000, spending_window_usd: 0 } },
  };
  writeFileSync(join(data, "sluice.json"), JSON.stringify(config), { mode: 0o600 });
  return withBooks(data, async ({ store, writer, opened }) => {
    const keys = new Keys(store, writer);
    const { id } = await new Accounts(store, writer, keys).create({ name: "payer", plan: "paying" });
    await opened.book.deposit({ accountId: id, amountNano: FUNDED, reference: "payment" });
    return (await keys.create({ accountId: id, name: "k", kind: "api" })).key;
  });
}

async function readWorkerRequests(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^sluice_worker_requests_total (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** `own` and `workers`: CPU seconds of the serving process and of those that work for it. `taken`: requests that workers had. */
type Round = { seconds: number; own: number; workers: number; taken: number };

/** Rounds of so many requests each at a gateway with so many workers; faults are put into `faults`. */
async function measure(workers: number, requests: number, vendor: VendorPorts, faults: string[]): Promise<Round[]> {
  const folder = makeFolder();
  try {
    const key = await prepare(folder, vendor);
    const command = pinned(MEASURED_CORE, [buildBinary()]);
    const flags = ["--port", "0", "--data", folder, "--workers", String(workers)];
    const gateway = await startBinary(["serve", ...flags], { folder, command });
    const { pid } = gateway.child;
    const cpuOf = () => ({
      own: readOwnCpuSeconds(pid),
      workers: childrenOf(pid).reduce((sum, child) => sum + readOwnCpuSeconds(child), 0),
    });
    const port = Number(new URL(gateway.url).port);
    const asked = request(
      "/v1/chat/completions",
      { authorization: `Bearer ${key}` },
      chatBody(MODEL, BODY_BYTES, false),
    );
    const rounds: Round[] = [];
    const warmUp = requests * WARM_UP * (workers + 1);
    await runLoad({ port, request: asked, connections: CLIENTS, requests: warmUp, events: 0 });
    for (let round = 0; round < ROUNDS; round++) {
      const takenBefore = await readWorkerRequests(gateway.url);
      const before = cpuOf();
      const { wrong, seconds } = await runLoad({ port, request: asked, connections: CLIENTS, requests, events: 0 });
      const after = cpuOf();
      if (wrong > 0) faults.push(`${wrong} wrong answers with ${workers} workers`);
      const taken = (await readWorkerRequests(gateway.url)) - takenBefore;
      rounds.push({ seconds, own: after.own - before.own, workers: after.workers - before.workers, taken });
    }
    await gateway.stop();
    await withBooks(folder, ({ store, opened }) => {
      const [count] = store.database.query("SELECT count(*) FROM usage").values()[0] ?? [];
      if (count !== BigInt(warmUp + requests * ROUNDS)) faults.push(`${count} usage rows with ${workers} workers`);
      for (const { invariant, detail } of opened.book.verify({ last: 10_000 })) faults.push(`${invariant}: ${detail}`);
    });
    return rounds;
  } finally {
    removeFolder(folder);
  }
}

const least = (values: readonly number[]) => Math.min(...values);

async function main(requests: number): Promise<number> {
  if (process.platform !== "linux") {
    console.log("Only Linux lets several processes serve one port: nothing to measure here.");
    return 0;
  }
  pinSelf(LOAD_CORE);
  const env = { PATH: process.env["PATH"] ?? "" };
  const vendorProgram = join(import.meta.dir, "../bench/vendor.ts");
  const vendor = await startHelper<VendorPorts>(pinned(LOAD_CORE, [process.execPath, vendorProgram]), env);
  const faults: string[] = [];
  try {
    const alone = await measure(0, requests, vendor.said, faults);
    const shared = await measure(WORKERS, requests, vendor.said, faults);
    const aloneUs = least(alone.map(({ own }) => (own / requests) * 1e6));
    const workerUs = least(shared.map(({ workers, taken }) => (workers / taken) * 1e6));
    // What it served itself cost it what a request costs alone; the rest was for its workers.
    const leftUs = least(shared.map(({ own, taken }) => (own * 1e6 - aloneUs * (requests - taken)) / taken));
    for (const fault of faults) console.log(`FAULT ${fault}`);
    const part = leftUs / aloneUs;
    const us = (value: number) => `${value.toFixed(0)} µs`;
    console.log(
      `CPU of a request: ${us(aloneUs)} alone; with workers ${us(workerUs)} in the worker and ${us(leftUs)} (${(part * 100).toFixed(0)} %) in the one process`,
    );
    return faults.length === 0 && part < AIM ? 0 : 1;
  } finally {
    vendor.child.kill();
  }
}

process.exit(await main(Number(process.argv[2] ?? 20_000)));
