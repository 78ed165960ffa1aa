/**
 * The kill loop (reliability 8.1, G4): a server under load is ended by SIGKILL at random moments, started again, and asked in the end what it knows.
 * `bun test/prove/kill.ts [kills]`. Exits 1 unless every answer that a client had in full is in the books exactly once at its exact price, nothing was sent
 * upstream twice, no hold is open, and all invariants hold.
 */
import { usage } from "../../src/db/schema.ts";
import { until } from "../support/wait.ts";
import { type CountingVendor, startCountingVendor, type Wish } from "./counting-vendor.ts";
import { costOf, PaidGateway } from "./paid-gateway.ts";

const CLIENTS = 12;
const ACCOUNTS = 3;
const FUNDED = 1_000_000_000_000n;
const LEAST_MS = 40;
const MOST_MS = 260;

/** What the loop came to; `faults` says what is wrong. */
export type KillReport = { kills: number; acknowledged: number; interrupted: number; calls: number; faults: string[] };

type Acknowledged = { requestId: string; wish: Wish };

/** Kills the server `kills` times while clients ask it without end. */
export async function runKills(kills: number): Promise<KillReport> {
  const vendor = startCountingVendor();
  const gateway = new PaidGateway(vendor.url);
  try {
    await gateway.fund(Array.from({ length: ACCOUNTS }, () => FUNDED));
    const acknowledged: Acknowledged[] = [];
    for (let kill = 0; kill < kills; kill++) await liveAndDie(gateway, kill, acknowledged);
    // The last start closes what the last kill left open.
    await gateway.start();
    await gateway.stop();
    return await inspect(gateway, vendor, kills, acknowledged);
  } finally {
    vendor.stop();
    gateway.remove();
  }
}

async function liveAndDie(gateway: PaidGateway, life: number, acknowledged: Acknowledged[]): Promise<void> {
  await gateway.start();
  const state = { dead: false };
  const before = acknowledged.length;
  const clients = Array.from({ length: CLIENTS }, (_, at) =>
    askWithoutEnd(gateway, `${life}-${at}`, state, acknowledged),
  );
  // Every other one lives until it has answered somebody: on a loaded machine none might.
  if (life % 2 === 1) await until(() => acknowledged.length > before, "a first answer");
  await Bun.sleep(LEAST_MS + Math.random() * (MOST_MS - LEAST_MS));
  state.dead = true;
  await gateway.kill();
  await Promise.all(clients);
}

async function askWithoutEnd(
  gateway: PaidGateway,
  name: string,
  state: { dead: boolean },
  acknowledged: Acknowledged[],
): Promise<void> {
  for (let at = 0; !state.dead; at++) {
    const account = gateway.accounts[at % ACCOUNTS]!;
    const delayMs = Math.random() < 0.5 ? 0 : Math.floor(Math.random() * 200);
    const counts = { input: 10 + at, output: 1 + Math.floor(Math.random() * 60) };
    const stream = Math.random() < 0.5;
    // Long enough for more than one slice: what was seen of it is settled by the next start.
    const long = stream && Math.random() < 0.3;
    const wish: Wish = { id: `${name}-${at}`, account: account.id, ...counts, delayMs, ...(long && { words: 1_500 }) };
    const messages = [{ role: "user", content: JSON.stringify(wish) }];
    const more = stream && { stream, stream_options: { include_usage: true } };
    try {
      const response = await gateway.ask(account.key, { messages, ...(!long && { max_tokens: 64 }), ...more });
      const text = await response.text();
      const whole = stream ? text.includes("data: [DONE]") : response.status === 200;
      if (whole) acknowledged.push({ requestId: response.headers.get("x-request-id") ?? "", wish });
    } catch (thrown) {
      // The server is gone in the middle of it: that is what this is about.
      if (!state.dead) throw thrown;
    }
  }
}

async function inspect(
  gateway: PaidGateway,
  vendor: CountingVendor,
  kills: number,
  acknowledged: readonly Acknowledged[],
): Promise<KillReport> {
  const faults: string[] = [];
  let interrupted = 0;
  await gateway.withBooks(({ store, book }) => {
    const rows = new Map<string, { chargedNano: bigint }[]>();
    for (const row of store.query.select().from(usage).all()) {
      rows.set(row.requestId, [...(rows.get(row.requestId) ?? []), row]);
      if (row.outcome === "interrupted") interrupted++;
    }
    for (const { requestId, wish } of acknowledged) {
      const own = rows.get(requestId) ?? [];
      if (own.length !== 1) faults.push(`${requestId}: acknowledged, and ${own.length} rows`);
      else if (own[0]?.chargedNano !== costOf(wish.input, wish.output)) {
        faults.push(`${requestId}: charged ${own[0]?.chargedNano}, it cost ${costOf(wish.input, wish.output)}`);
      }
    }
    const open = store.database.prepare<{ n: bigint }, []>("SELECT count(*) AS n FROM ledger_hold").get();
    if (open?.n !== 0n) faults.push(`${open?.n} holds are open`);
    for (const { invariant, detail } of book.verify()) faults.push(`${invariant}: ${detail}`);
    const sound = store.database.prepare<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
    if (sound?.integrity_check !== "ok") faults.push(`the store: ${sound?.integrity_check}`);
  });
  for (const [id, times] of vendor.calls) if (times > 1) faults.push(`${id}: sent upstream ${times} times`);
  return { kills, acknowledged: acknowledged.length, interrupted, calls: vendor.calls.size, faults };
}

if (import.meta.main) {
  const startedAt = performance.now();
  const report = await runKills(Number(process.argv[2] ?? 300));
  for (const fault of report.faults.slice(0, 20)) console.log(`FAULT ${fault}`);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  const counts = `${report.acknowledged} answers acknowledged, ${report.interrupted} settled by a later start, ${report.calls} calls upstream`;
  console.log(`${report.kills} kills in ${seconds} s: ${counts}, ${report.faults.length} faults`);
  process.exit(report.faults.length === 0 && report.acknowledged > 0 ? 0 : 1);
}
