/**
 * Clients that leave (reliability 8.2, N6): thousands of requests of a paying account are broken off, in four ways, and the gateway is asked what it kept of
 * them. `bun test/prove/disconnects.ts [--quick]`. Exits 1 unless its memory grows by 5 MB at the most in each way, every call at the vendor was ended,
 * no hold is open, and each request has one row in sound books. Linux only.
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { startHelper } from "../bench/processes.ts";
import { check, faults } from "./faults.ts";
import { holdsWithin, quantile, readFigure, readVendor, restingMemory } from "./look.ts";
import { PaidGateway } from "./paid-gateway.ts";
import { type Leaving, StreamClients } from "./stream-clients.ts";

const QUICK = process.argv.includes("--quick");
/** Requests of each way, those that leave at the same time, and those before anything is measured. */
const EACH = QUICK ? 150 : 4_500;
const WAVE = 150;
const WARM = QUICK ? 150 : 1_500;
const GROWTH_MB = 5;
/** How long the memory before is looked at, and the memory after is waited for, ms. */
const REST_MS = QUICK ? 3_000 : 15_000;
const GIVEN_BACK_MS = 30_000;
const FUNDED = 1_000_000_000_000_000n;
const PATIENCE_MS = 20_000;

/** A way to leave: what is asked for, and how the connection ends. */
type Way = { name: string; model: "paced" | "mute"; stream: boolean; how: Leaving };

const WAYS: readonly Way[] = [
  { name: "closed in the middle of a stream", model: "paced", stream: true, how: "close" },
  { name: "reset in the middle of a stream", model: "paced", stream: true, how: "reset" },
  { name: "closed before the first byte of a stream", model: "mute", stream: true, how: "close" },
  { name: "closed before a whole answer", model: "mute", stream: false, how: "close" },
];

const program = join(import.meta.dir, "stream-vendor.ts");
const { child: vendor, said } = await startHelper<{ port: number }>([process.execPath, program], { PATH: "" });
const gateway = new PaidGateway(`http://127.0.0.1:${said.port}`, ["paced", "mute"]);
const clients = new StreamClients();
let asked = 0;

function request({ model, stream }: Way): string {
  const key = gateway.accounts[0]?.key;
  const body = JSON.stringify({ model: `lab/${model}`, stream, messages: [{ role: "user", content: "Well?" }] });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\n`;
  return `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** So many requests at once, all left as soon as they are under way. Resolves with how long the vendor heard of it, ms. */
async function leaveWave(way: Way): Promise<number> {
  await clients.open(Number(new URL(gateway.url).port), request(way), WAVE);
  asked += WAVE;
  const waits = way.model === "mute";
  const isUnderWay = async () =>
    waits ? (await readVendor(said.port)).open === WAVE : (await clients.count()).spoken === WAVE;
  check(await holdsWithin(PATIENCE_MS, isUnderWay, 5), `${way.name}: not all of a wave were under way`);
  const startedAt = performance.now();
  await clients.leave(way.how);
  const isOver = async () => (await readVendor(said.port)).open === 0;
  check(await holdsWithin(PATIENCE_MS, isOver, 2), `${way.name}: calls at the vendor go on`);
  const tookMs = performance.now() - startedAt;
  const isClosed = async () => (await clients.count()).open === 0;
  check(await holdsWithin(PATIENCE_MS, isClosed, 5), `${way.name}: connections stay`);
  return tookMs;
}

async function leaveOften(way: Way, times: number): Promise<number[]> {
  const took: number[] = [];
  for (let at = 0; at < times; at += WAVE) took.push(await leaveWave(way));
  const isIdle = async () => (await readFigure(gateway.url, "sluice_requests_running")) === 0;
  check(await holdsWithin(PATIENCE_MS, isIdle), `${way.name}: requests are under way whose clients left`);
  return took;
}

/** `before`: the memory before all of this, MB, which every way is held against. */
async function prove(way: Way, before: number): Promise<void> {
  const took = await leaveOften(way, EACH);
  const after = await restingMemory(gateway.pid, GIVEN_BACK_MS, before + GROWTH_MB);
  const growth = after - before;
  check(growth <= GROWTH_MB, `${way.name}: memory grew by ${growth.toFixed(1)} MB`);
  const memory = `memory ${before.toFixed(1)} -> ${after.toFixed(1)} MB (aim <= ${GROWTH_MB} more)`;
  const ended = `${WAVE} calls ended at the vendor in ${quantile(took, 0.5).toFixed(0)} ms`;
  console.log(`${EACH} ${way.name}: ${memory}, ${ended}`);
}

/** What the store says of it all while the gateway runs on. */
function compareRows(): void {
  const database = new Database(gateway.store, { readonly: true });
  const one = (sql: string) => Number(database.query(sql).values()[0]?.[0]);
  const rows = one("SELECT count(*) FROM usage");
  const distinct = one("SELECT count(DISTINCT request_id) FROM usage");
  const left = one("SELECT count(*) FROM usage WHERE outcome = 'client-left'");
  const holds = one("SELECT count(*) FROM ledger_hold");
  database.close();
  check(rows === asked && distinct === asked, `${asked} requests have ${rows} rows, ${distinct} different ones`);
  check(left === asked, `${asked - left} of ${asked} ended otherwise than by their client`);
  check(holds === 0, `${holds} holds are open`);
  console.log(`${asked} requests: ${rows} rows, ${holds} holds open`);
}

try {
  await gateway.fund([FUNDED]);
  await gateway.start();
  for (const way of WAYS) await leaveOften(way, WARM);
  const before = await restingMemory(gateway.pid, REST_MS);
  for (const way of WAYS) await prove(way, before);
  const { calls } = await readVendor(said.port);
  check(calls === asked, `${asked} requests made ${calls} calls`);
  compareRows();
  await gateway.stop();
  await gateway.withBooks(({ book }) => {
    for (const { invariant, detail } of book.verify()) faults.push(`${invariant}: ${detail}`);
    const { heldNano } = book.balance(gateway.accounts[0]?.id ?? "");
    check(heldNano === 0n, `${heldNano} nano are held`);
  });
} finally {
  clients.stop();
  await gateway.kill();
  vendor.kill("SIGKILL");
  gateway.remove();
}
for (const fault of faults.slice(0, 10)) console.log(`FAULT ${fault}`);
console.log(`${EACH} leavings in each of ${WAYS.length} ways: ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
