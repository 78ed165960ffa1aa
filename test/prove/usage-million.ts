/**
 * Prints how long usage takes to be read from a store of a million requests over a year: grouped, filtered, and by pages.
 * Run: bun test/prove/usage-million.ts [rows]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore, type Store } from "../../src/db/open.ts";
import { type Counted, Rollup } from "../../src/ledger/rollup.ts";
import { type Place, readUsagePage } from "../../src/ledger/usage-page.ts";
import { GROUPINGS, summarise, sumUp, type UsageFilter } from "../../src/ledger/usage-report.ts";
import { DAY_MS } from "../../src/lib/spans.ts";

const ROWS = Number(process.argv[2] ?? 1_000_000);
const DAYS = 365;
const ACCOUNTS = 10;
const KEYS = 3;
const MODELS = 5;
const NOW = Date.UTC(2026, 10, 21, 13, 37);
/** Most that a grouped reading may take, ms (issue 4, Speed). */
const AIM_MS = 50;

const INSERT = `INSERT INTO usage (request_id, account_id, key_id, at_ms, duration_ms, dialect, stream, model, vendor, upstream_model, outcome,
  attempts, input, cache_read, cache_write, output, reasoning, estimated, cost_nano, charged_nano)
  VALUES (?, ?, ?, ?, 900, 'chat', 1, ?, 'v', 'm', 'completed', 1, ?, 0, 0, ?, 0, 0, ?, ?)`;

function fill(store: Store): number {
  const rollup = new Rollup(store);
  const insert = store.database.prepare(INSERT);
  const startedAt = performance.now();
  store.database.run("BEGIN");
  for (let at = 0; at < ROWS; at++) {
    const account = at % ACCOUNTS;
    const row: Counted = {
      atMs: Math.floor(NOW - DAYS * DAY_MS + (at / ROWS) * DAYS * DAY_MS),
      accountId: `acct_${account}`,
      keyId: `key_${account}_${(at * 7) % KEYS}`,
      model: `vendor/model-${(at * 13) % MODELS}`,
      ...{ estimated: false, input: 1_000 + (at % 97), cacheRead: 0, cacheWrite: 0, output: at % 601, reasoning: 0 },
      costNano: BigInt(at % 1_000_003),
      chargedNano: BigInt(at % 1_000_003),
    };
    const { accountId, keyId, atMs, model, input, output, costNano = 0n } = row;
    insert.run(`req_${String(at).padStart(9, "0")}`, accountId, keyId, atMs, model, input, output, costNano, costNano);
    rollup.add(row);
    // As batches of the writer do.
    if (at % 64 === 63) rollup.write();
  }
  rollup.write();
  store.database.run("COMMIT");
  return performance.now() - startedAt;
}

/** Median of nine runs, ms. */
async function time(work: () => Promise<unknown>): Promise<number> {
  const runs: number[] = [];
  for (let run = 0; run < 9; run++) {
    const startedAt = performance.now();
    await work();
    runs.push(performance.now() - startedAt);
  }
  return runs.sort((a, b) => a - b)[4] ?? 0;
}

const filters: [string, UsageFilter][] = [
  ["everything", {}],
  ["last 24 hours", { sinceMs: NOW - DAY_MS }],
  ["last 30 days", { sinceMs: NOW - 30 * DAY_MS }],
  ["the year but for its edges", { sinceMs: NOW - 365 * DAY_MS + 1, untilMs: NOW - 1 }],
  ["one account", { accountId: "acct_3" }],
  ["one key of it, 90 days", { accountId: "acct_3", keyId: "key_3_1", sinceMs: NOW - 90 * DAY_MS }],
];

const folder = mkdtempSync(join(tmpdir(), "sluice-prove-"));
let bad = 0;
try {
  const store = openStore(join(folder, "sluice.db"));
  const filledMs = fill(store);
  const sums = Number(store.database.query("SELECT count(*) FROM usage_rollup").values()[0]?.[0]);
  console.log(
    `${ROWS} rows, ${sums} sums; written with their sums in ${((filledMs / ROWS) * 1000).toFixed(1)} µs a row`,
  );
  for (const [name, filter] of filters) {
    const cells: string[] = [];
    for (const groupBy of GROUPINGS) {
      const ms = await time(() => summarise(store, { ...filter, groupBy }));
      if (ms > AIM_MS) bad++;
      cells.push(`${groupBy} ${ms.toFixed(1)} ms`);
    }
    console.log(`grouped, ${name}: ${cells.join(", ")}`);
  }
  const { requests, costNano } = sumUp(await summarise(store, { groupBy: "day" }));
  const [rows, cost] = store.database.query("SELECT count(*), sum(cost_nano) FROM usage").values()[0] ?? [];
  const same = BigInt(requests) === rows && costNano === cost;
  if (!same) bad++;
  console.log(`sums against rows: ${same ? "equal to the nano" : "DIFFERENT"}`);
  let slowest = 0;
  let after: Place | undefined;
  for (let page = 0; page < 200; page++) {
    const startedAt = performance.now();
    const found = readUsagePage(store, { accountId: "acct_3", keyId: "key_3_1" }, { limit: 100, after });
    slowest = Math.max(slowest, performance.now() - startedAt);
    after = found.next;
    if (!after) break;
  }
  console.log(`pages of 100 rows of one key: slowest ${slowest.toFixed(1)} ms`);
  store.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(bad === 0 ? `all within ${AIM_MS} ms` : `${bad} FAILED`);
process.exitCode = bad === 0 ? 0 : 1;
