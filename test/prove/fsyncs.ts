/**
 * Durability counted (reliability 8.1, G6): a kill cannot see a missing fsync, so the system calls are. `bun test/prove/fsyncs.ts [settles]`, on Linux with strace.
 * Settles come one after the other, so that none shares its commit. Exits 1 unless each has a sync of its own, and the store says FULL.
 */
import { mkdtempSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What the child prints around its settles, so that only they are counted. */
const MARK = "settling-begins";

export type SyncReport = { settles: number; syncs: number; synchronous: string };

/** The child's work: opens a store, marks the place, settles one after the other. */
async function settleOneByOne(path: string, settles: number): Promise<void> {
  const { openStore } = await import("../../src/db/open.ts");
  const { Writer } = await import("../../src/db/writer.ts");
  const { openLedger } = await import("../../src/ledger/open-ledger.ts");
  const store = openStore(path);
  store.database.run("INSERT INTO account VALUES ('acct_1', 'a', 'pro', 1)");
  const writer = new Writer(store);
  const { ledger, book } = openLedger(store, writer);
  await book.deposit({ accountId: "acct_1", amountNano: 1_000_000_000n, reference: "payment" });
  const prices = { model: "lab/paid", prices: { input: 3_000_000n, output: 15_000_000n } };
  const payment = { windowNano: 0n, premium: false, sliced: true, unseenOutput: 0 };
  const hold = (at: number) =>
    ledger.hold({
      ...{ requestId: `req_${at}`, accountId: "acct_1", keyId: "key_1", model: "lab/paid", dialect: "chat" },
      ...{ stream: true, estimateInput: () => 100, prices, payment },
    });
  const settle = async (at: number) => {
    const usage = { input: 100, cacheRead: 0, cacheWrite: 0, output: 50, reasoning: 0 };
    const rest = { usage, estimated: false, attempts: 1, durationMs: 1 };
    await (await hold(at)).settle({ outcome: "completed", vendor: "lab", upstreamModel: "m", ...rest });
  };
  await settle(0);
  const mode = store.database.prepare<{ synchronous: bigint }, []>("PRAGMA synchronous").get();
  writeSync(1, `${MARK} ${mode?.synchronous}\n`);
  for (let at = 1; at <= settles; at++) await settle(at);
  writeSync(1, "settled\n");
  // Closing syncs too, and is not counted.
  process.exit(0);
}

/** Counts the syncs of so many settles; undefined where there is no strace. */
export async function countSyncs(settles: number): Promise<SyncReport | undefined> {
  if (process.platform !== "linux" || Bun.which("strace") === null) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "sluice-fsync-"));
  const trace = join(folder, "trace");
  try {
    const command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o", trace, process.execPath];
    const child = Bun.spawn([...command, import.meta.path, "--child", join(folder, "s.db"), String(settles)], {
      stdout: "pipe",
      stderr: "pipe",
      stdin: "ignore",
    });
    const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    // A system that forbids tracing cannot be asked.
    if (code !== 0 && /ptrace|Operation not permitted/.test(errors)) return undefined;
    if (code !== 0) throw new Error(`the traced child failed: ${errors}`);
    const lines = readFileSync(trace, "utf8").split("\n");
    const begin = lines.findIndex((line) => line.includes(MARK));
    const syncs = lines.slice(begin).filter((line) => /\b(?:fsync|fdatasync)\(/.test(line)).length;
    return { settles, syncs, synchronous: new RegExp(`${MARK} (\\d)`).exec(output)?.[1] ?? "" };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main && process.argv[2] === "--child") {
  await settleOneByOne(process.argv[3] ?? "", Number(process.argv[4]));
} else if (import.meta.main) {
  const report = await countSyncs(Number(process.argv[2] ?? 50));
  if (!report) {
    console.log("no strace here: nothing was counted");
    process.exit(1);
  }
  const { settles, syncs, synchronous } = report;
  console.log(`${settles} settles one by one: ${syncs} syncs, synchronous = ${synchronous}`);
  process.exit(syncs >= settles && synchronous === "2" ? 0 : 1);
}
