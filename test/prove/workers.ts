/**
 * What `--workers` comes to: CPU of a paid, durable request in a gateway that is alone, and in one with two workers: what the worker takes of it, and what
 * is left to the one process that decides and writes. For a short reply, which is books for the most part, and for a stream of 200 events.
 * `bun test/prove/workers.ts [requests]`. Run it alone. Exits 1 unless every request is in the books once, the books are right, and of a stream less than
 * half is left to the one process: only then do more processes serve more.
 */
import { join } from "node:path";
import { runLoad } from "../bench/load.ts";
import { LOAD_CORE, MEASURED_CORE, pinned, pinSelf, startHelper } from "../bench/processes.ts";
import { BURST_EVENTS, chatBody, request, type VendorKind, type VendorPorts } from "../bench/wire.ts";
import { childrenOf, readOwnCpuSeconds } from "../scenarios/workers-processes.ts";
import { buildBinary, makeFolder, removeFolder, startBinary } from "../support/binary.ts";
import { inspectPaidFolder, MODEL, preparePaidFolder } from "./paid-folder.ts";

const CLIENTS = 64;
const BODY_BYTES = 4_000;
const ROUNDS = 5;
/** Requests of each process before the first round, for each of a round's: code that has run seldom costs twice as much, so all must have run as often. */
const WARM_UP = 3;
const WORKERS = 2;
/** Of a stream's CPU, what may be left to the one process. */
const AIM = 0.5;
/** What is asked for: how the vendor answers, and how many of them are one of the others. */
type Workload = { name: string; kind: VendorKind; events: number; share: number };
const SHORT: Workload = { name: "short reply", kind: "chat-whole", events: 0, share: 1 };
const STREAM: Workload = { name: "stream", kind: "chat-burst", events: BURST_EVENTS, share: 0.2 };

async function readWorkerRequests(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^sluice_worker_requests_total (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** `own` and `workers`: CPU seconds of the serving process and of those that work for it. `taken`: requests that workers had. */
type Round = { seconds: number; own: number; workers: number; taken: number };

/** Rounds of so many requests each at a gateway with so many workers; faults are put into `faults`. */
async function measure(
  { kind, events }: Workload,
  workers: number,
  requests: number,
  vendor: VendorPorts,
  faults: string[],
): Promise<Round[]> {
  const folder = makeFolder();
  try {
    const key = await preparePaidFolder(folder, vendor[kind]);
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
      chatBody(MODEL, BODY_BYTES, events > 0),
    );
    const rounds: Round[] = [];
    const warmUp = requests * WARM_UP * (workers + 1);
    await runLoad({ port, request: asked, connections: CLIENTS, requests: warmUp, events });
    for (let round = 0; round < ROUNDS; round++) {
      const takenBefore = await readWorkerRequests(gateway.url);
      const before = cpuOf();
      const { wrong, seconds } = await runLoad({ port, request: asked, connections: CLIENTS, requests, events });
      const after = cpuOf();
      if (wrong > 0) faults.push(`${wrong} wrong answers with ${workers} workers`);
      const taken = (await readWorkerRequests(gateway.url)) - takenBefore;
      rounds.push({ seconds, own: after.own - before.own, workers: after.workers - before.workers, taken });
    }
    await gateway.stop();
    const wrongInBooks = await inspectPaidFolder(folder, warmUp + requests * ROUNDS);
    faults.push(...wrongInBooks.map((fault) => `${fault} with ${workers} workers`));
    return rounds;
  } finally {
    removeFolder(folder);
  }
}

/** Of three or more. */
const median = (values: readonly number[]) => [...values].sort((first, second) => first - second)[values.length >> 1]!;

/** Prints a workload's figures; the part of its CPU that is left to the one process. */
async function compare(workload: Workload, all: number, vendor: VendorPorts, faults: string[]): Promise<number> {
  const requests = Math.round(all * workload.share);
  const alone = await measure(workload, 0, requests, vendor, faults);
  const shared = await measure(workload, WORKERS, requests, vendor, faults);
  const aloneUs = median(alone.map(({ own }) => (own / requests) * 1e6));
  const workerUs = median(shared.map(({ workers, taken }) => (workers / taken) * 1e6));
  // What it served itself cost it what a request costs alone; the rest was for its workers.
  const leftUs = median(shared.map(({ own, taken }) => (own * 1e6 - aloneUs * (requests - taken)) / taken));
  const part = leftUs / aloneUs;
  const us = (value: number) => `${value.toFixed(0)} µs`;
  const percent = (part * 100).toFixed(0);
  console.log(
    `${workload.name}: ${us(aloneUs)} alone; ${us(workerUs)} in a worker, ${us(leftUs)} (${percent} %) left to the one process`,
  );
  return part;
}

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
    await compare(SHORT, requests, vendor.said, faults);
    const part = await compare(STREAM, requests, vendor.said, faults);
    for (const fault of faults) console.log(`FAULT ${fault}`);
    return faults.length === 0 && part < AIM ? 0 : 1;
  } finally {
    vendor.child.kill();
  }
}

process.exit(await main(Number(process.argv[2] ?? 20_000)));
