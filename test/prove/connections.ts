/**
 * Ten thousand connections (reliability 8.2, N7): the compiled gateway with 10,000 clients whose streams say nothing for minutes, 500 that go on
 * speaking, and plain calls meanwhile; then with 5,000 streams that a vendor speaks on. `bun test/prove/connections.ts [--quick]`. Exits 1 unless all are opened without an error,
 * all silent ones are pinged, each costs what is aimed at, a plain call takes less than 50 ms, and nothing is left afterwards; and unless a gateway with
 * fewer files than clients lives on. Linux only (prlimit).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startHelper } from "../bench/processes.ts";
import { makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";
import { check, faults } from "./faults.ts";
import { holdsWithin, type Memory, quantile, readFigure, readVendor, restingMemory, settledMemory } from "./look.ts";
import { StreamClients } from "./stream-clients.ts";

const QUICK = process.argv.includes("--quick");
const SILENT = QUICK ? 1_000 : 10_000;
const BESIDE = QUICK ? 50 : 500;
const PACED = QUICK ? 500 : 5_000;
const WARM = QUICK ? 100 : 500;
/** Aims, KB: memory of a client's connection alone, and of one together with its connection to a vendor. */
const SILENT_KB = 10;
const PACED_KB = 60;
const CALL_MS = 50;
const CALLING_MS = QUICK ? 2_000 : 8_000;
const CALLERS = 4;
/** Memory that may be left once the streams are gone: a share of what they took, and MB beside that; and by when, ms: an idle runtime cleans up slowly. */
const LEFT_SHARE = QUICK ? 1 : 0.2;
const LEFT_MB = 10;
const GIVEN_BACK_MS = 60_000;
const PATIENCE_MS = 60_000;
/** How many files the process that is to have too few may open, and for how long it has too few, ms. */
const FEW_FILES = 200;
const SCARCE_MS = QUICK ? 500 : 3_000;

type Vendor = { port: number; stop(): void };

async function startVendor(): Promise<Vendor> {
  const program = join(import.meta.dir, "stream-vendor.ts");
  const { child, said } = await startHelper<{ port: number }>([process.execPath, program], { PATH: "" });
  return { port: said.port, stop: () => child.kill("SIGKILL") };
}

/** A gateway that knows the vendor, with memory of its own that is not of its first requests. */
class Gateway {
  static async start(vendor: Vendor): Promise<Gateway> {
    const folder = makeFolder();
    mkdirSync(join(folder, "data"), { mode: 0o700 });
    const row = {
      id: "lab",
      dialect: "chat",
      base_url: `http://127.0.0.1:${vendor.port}/v1`,
      api_key: "none",
      models: "any",
    };
    const config = { local_discovery: false, vendors: [row] };
    writeFileSync(join(folder, "data/sluice.json"), JSON.stringify(config), { mode: 0o600 });
    const running = await startBinary(["--port", "0"], { folder, env: { SLUICE_LOG_LEVEL: "error" } });
    return new Gateway(folder, running, vendor);
  }

  readonly port: number;

  private constructor(
    private readonly folder: string,
    private readonly running: RunningBinary,
    private readonly vendor: Vendor,
  ) {
    this.port = Number(new URL(running.url).port);
  }

  get pid(): number {
    return this.running.child.pid;
  }

  memory(): Promise<Memory> {
    return settledMemory(this.pid);
  }

  /** A request for a stream as it goes over the wire. */
  request(model: string, text: string): string {
    const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: text }] });
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${this.running.key}\r\n`;
    return `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  }

  /** A stream of the gateway's own model, that says a word and then nothing for minutes. */
  silent(): string {
    const script = { blocks: [{ type: "text", text: "Well, well" }], silence_ms: 500_000 };
    return this.request("sluice/script", JSON.stringify(script));
  }

  async call(): Promise<number> {
    const startedAt = performance.now();
    const response = await fetch(`${this.running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${this.running.key}` },
      body: JSON.stringify({ model: "lab/whole", messages: [{ role: "user", content: "Hello" }] }),
    });
    const text = await response.text();
    check(response.status === 200 && text.includes("Well."), `a plain call: ${response.status} ${text.slice(0, 200)}`);
    return performance.now() - startedAt;
  }

  /** The 99th percentile of plain calls that some clients make for a while, ms. */
  async measureCalls(): Promise<number> {
    const took: number[] = [];
    const until = performance.now() + CALLING_MS;
    const call = async () => {
      while (performance.now() < until) {
        took.push(await this.call());
        await Bun.sleep(20);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, call));
    return quantile(took, 0.99);
  }

  /** Whether nothing is under way any more, neither at the gateway nor at the vendor. */
  async isIdle(): Promise<boolean> {
    const running = await readFigure(this.running.url, "sluice_requests_running");
    return running === 0 && (await readVendor(this.vendor.port)).open === 0;
  }

  /** `expected`: what it may have complained of. */
  async stop(expected = /^$/): Promise<void> {
    const code = await this.running.stop();
    const complaints = this.running.stderr.split("\n").filter((line) => line !== "" && !expected.test(line));
    check(
      code === 0 && complaints.length === 0,
      `the gateway ended with ${code}: ${complaints.join(" ").slice(0, 500)}`,
    );
    removeFolder(this.folder);
  }
}

/** Opens streams and waits until each has said something. */
async function openAll(clients: StreamClients, gateway: Gateway, request: string, count: number): Promise<void> {
  await clients.open(gateway.port, request, count, true);
  const spoken = await holdsWithin(PATIENCE_MS, async () => (await clients.count()).spoken >= count);
  const { open, faults: wrong, fault } = await clients.count();
  check(spoken && open === count && wrong === 0, `${open} of ${count} streams are open, ${wrong} faults: ${fault}`);
}

/** Plays a first round, so that memory which is taken once for all streams is not counted as that of the measured ones. */
async function warmUp(gateway: Gateway, request: string): Promise<void> {
  const clients = new StreamClients();
  await openAll(clients, gateway, request, WARM);
  for (let at = 0; at < WARM; at++) await gateway.call();
  await clients.leave("close");
  check(await holdsWithin(PATIENCE_MS, () => gateway.isIdle()), "the warm-up left something open");
  clients.stop();
}

const kilobytes = (after: number, before: number, count: number) => ((after - before) * 1024) / count;
const figure = (value: number) => value.toFixed(1);

/** What each of `count` streams cost, as a sentence. */
function cost(name: string, before: Memory, after: Memory, count: number, aim: number): void {
  const [rss, pss] = [kilobytes(after.rss, before.rss, count), kilobytes(after.pss, before.pss, count)];
  check(rss <= aim, `${name}: ${figure(rss)} KB each, aim ${aim}`);
  console.log(`${count} ${name}: ${figure(rss)} KB each resident, ${figure(pss)} KB proportional; aim <= ${aim}`);
}

/** Waits until all streams are gone, and says what is left of their memory. */
async function showLeft(gateway: Gateway, before: Memory, most: Memory): Promise<void> {
  check(await holdsWithin(PATIENCE_MS, () => gateway.isIdle()), "streams are under way whose clients left");
  const bound = before.rss + LEFT_MB + (most.rss - before.rss) * LEFT_SHARE;
  const after = await restingMemory(gateway.pid, GIVEN_BACK_MS, bound);
  check(after <= bound, `${figure(after - before.rss)} MB are left`);
  const path = `${figure(before.rss)} -> ${figure(most.rss)} -> ${figure(after)} MB`;
  console.log(`  memory ${path}; nothing under way here or at the vendor`);
}

async function proveSilent(vendor: Vendor): Promise<void> {
  const gateway = await Gateway.start(vendor);
  const clients = new StreamClients();
  const beside = new StreamClients();
  try {
    await warmUp(gateway, gateway.silent());
    const before = await gateway.memory();
    const startedAt = performance.now();
    await openAll(clients, gateway, gateway.silent(), SILENT);
    const openedMs = performance.now() - startedAt;
    // A look in between does not wait for the first ping.
    const isPinged = async () => QUICK || (await clients.count(1)).pinged === SILENT;
    const pinged = await holdsWithin(PATIENCE_MS, isPinged);
    check(pinged, `${(await clients.count(1)).pinged} of ${SILENT} silent streams were pinged`);
    const most = await gateway.memory();
    cost("silent client streams", before, most, SILENT, SILENT_KB);
    await openAll(beside, gateway, gateway.request("lab/paced", "Hello"), BESIDE);
    const p99 = await gateway.measureCalls();
    check(p99 < CALL_MS, `a plain call takes ${figure(p99)} ms`);
    const { events, faults: wrong } = await beside.count();
    check(events >= BESIDE * (CALLING_MS / 1_000 - 1), `${events} events in ${BESIDE} streams`);
    const { open, faults: lost, fault } = await clients.count();
    check(open === SILENT && lost + wrong === 0, `${open} of ${SILENT} are open still: ${fault}`);
    const opened = `opened in ${(openedMs / 1_000).toFixed(1)} s${QUICK ? "" : ", all pinged"}`;
    console.log(`  ${opened}; with ${BESIDE} active ones a plain call takes p99 ${figure(p99)} ms; aim < ${CALL_MS}`);
    await Promise.all([clients.leave("close"), beside.leave("reset")]);
    await showLeft(gateway, before, most);
  } finally {
    clients.stop();
    beside.stop();
    await gateway.stop();
  }
}

async function provePaced(vendor: Vendor): Promise<void> {
  const gateway = await Gateway.start(vendor);
  const clients = new StreamClients();
  try {
    const request = gateway.request("lab/paced", "Hello");
    await warmUp(gateway, request);
    const before = await gateway.memory();
    await openAll(clients, gateway, request, PACED);
    const { events: begun } = await clients.count();
    const p99 = await gateway.measureCalls();
    const { events, open, faults: wrong, fault } = await clients.count();
    check(open === PACED && wrong === 0, `${open} of ${PACED} are open, ${wrong} faults: ${fault}`);
    check(events - begun >= PACED * (CALLING_MS / 1_000 - 1), `${events - begun} events in ${PACED} streams`);
    const most = await gateway.memory();
    cost("streams from a vendor", before, most, PACED, PACED_KB);
    console.log(
      `  ${Math.round(((events - begun) / CALLING_MS) * 1_000)} events a second; a plain call p99 ${figure(p99)} ms`,
    );
    await clients.leave("reset");
    await showLeft(gateway, before, most);
  } finally {
    clients.stop();
    await gateway.stop();
  }
}

/** More clients than the process may have files: those that are in are served, the others wait, and when some leave all goes on. */
async function proveScarce(vendor: Vendor): Promise<void> {
  const gateway = await Gateway.start(vendor);
  const clients = new StreamClients();
  try {
    await gateway.call();
    const limited = Bun.spawnSync(["prlimit", "--pid", String(gateway.pid), `--nofile=${FEW_FILES}:`]);
    if (limited.exitCode !== 0) throw new Error(`prlimit: ${limited.stderr.toString()}`);
    await clients.open(gateway.port, gateway.silent(), 2 * FEW_FILES);
    await holdsWithin(PATIENCE_MS, async () => (await clients.count()).spoken > FEW_FILES / 2);
    await Bun.sleep(SCARCE_MS);
    const { spoken } = await clients.count();
    await clients.leave("reset");
    const served = await holdsWithin(PATIENCE_MS, () => gateway.isIdle().catch(() => false));
    check(
      served && spoken < FEW_FILES,
      `${spoken} of ${2 * FEW_FILES} were served with ${FEW_FILES} files; idle again: ${served}`,
    );
    if (served) await gateway.call();
    console.log(
      `${2 * FEW_FILES} clients and ${FEW_FILES} files: ${spoken} served, the others waited; serves again: ${served}`,
    );
  } finally {
    clients.stop();
    await gateway.stop(/EMFILE/);
  }
}

const vendor = await startVendor();
try {
  await proveScarce(vendor);
  await proveSilent(vendor);
  await provePaced(vendor);
} finally {
  vendor.stop();
}
for (const fault of faults.slice(0, 10)) console.log(`FAULT ${fault}`);
console.log(`${SILENT} and ${PACED} streams: ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
