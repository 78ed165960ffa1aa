/**
 * Torn disks (reliability 8.1, G5): images of the store as a power cut may leave them: its write-ahead log cut at every frame's end, cut anywhere, and
 * with sectors of rubbish. `bun test/prove/torn-images.ts [images]`. Exits 1 unless every image opens, is sound, and has every charge that was
 * acknowledged before the place of the cut; and unless a fourth as many different states were recovered as there are images: 300 of 1,200.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Ledger, ModelPrices } from "../../src/ledger/ledger.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { randomOf } from "../ledger/world.ts";

const HEADER = 32;
const FRAME_HEADER = 24;
const SECTOR = 512;
/** Different states among the images, at the least. */
const LEAST_DISTINCT = 1 / 4;
const ACCOUNT = "acct_1";
const PRICES: ModelPrices = { model: "lab/paid", prices: { input: 3_000_000n, output: 15_000_000n } };

/** The store before the cut: its file, its log, and how many charges were acknowledged when the log was so long. */
type Picture = { folder: string; log: Buffer; pageSize: number; acknowledged: { at: number; charges: number }[] };

export type TornReport = { images: number; states: number; faults: string[] };

async function askAndSettle(ledger: Ledger, at: number): Promise<void> {
  const hold = await ledger.hold({
    ...{ requestId: `req_${String(at).padStart(6, "0")}`, accountId: ACCOUNT, keyId: "key_1", model: "lab/paid" },
    ...{ dialect: "chat", stream: true, estimateInput: () => 100, prices: PRICES },
    payment: { windowNano: 20_000_000n, premium: false, sliced: true, unseenOutput: 0 },
  });
  const usage = { input: 100 + at, cacheRead: 0, cacheWrite: 0, output: 50, reasoning: 0 };
  const rest = { estimated: false, attempts: 1, durationMs: 1 };
  await hold.settle({ outcome: "completed", vendor: "lab", upstreamModel: "m", usage, ...rest });
}

/** Lets a ledger work, a few requests at a time, and takes its picture while it is open. */
async function takePicture(charges: number): Promise<Picture> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-torn-"));
  const path = join(folder, "live.db");
  // Everything before is in the file itself, everything after in its log alone.
  openStore(path).close();
  const store = openStore(path);
  store.database.run("PRAGMA wal_autocheckpoint = 0");
  store.database.run("INSERT INTO account VALUES (?, 'a', 'pro', 1)", [ACCOUNT]);
  const writer = new Writer(store);
  const { ledger, book, stop } = openLedger(store, writer);
  await book.deposit({ accountId: ACCOUNT, amountNano: 10_000_000_000n, reference: "payment" });
  const acknowledged: Picture["acknowledged"] = [];
  for (let at = 0; at < charges; ) {
    const together = Math.min(charges - at, at % 5 === 0 ? 3 : 1);
    const first = at;
    await Promise.all(Array.from({ length: together }, (_, one) => askAndSettle(ledger, first + one)));
    at += together;
    acknowledged.push({ at: statSync(`${path}-wal`).size, charges: at });
  }
  copyFileSync(path, join(folder, "image.db"));
  const log = readFileSync(`${path}-wal`);
  stop();
  await writer.close();
  store.close();
  return { folder, log, pageSize: log.readUInt32BE(8), acknowledged };
}

/** Opens one image as a start would; gives how many charges it has. Throws what is wrong with it. */
function openImage(folder: string, log: Uint8Array, charges: number): number {
  const path = join(folder, "torn.db");
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  copyFileSync(join(folder, "image.db"), path);
  writeFileSync(`${path}-wal`, log);
  const store = openStore(path);
  const writer = new Writer(store);
  try {
    const { book, start, stop } = openLedger(store, writer);
    start();
    stop();
    const [breach] = book.verify();
    if (breach) throw new Error(`${breach.invariant}: ${breach.detail}`);
    const row = store.database.prepare<{ n: bigint }, []>("SELECT count(*) AS n FROM usage").get();
    const found = Number(row?.n ?? 0n);
    if (found < charges) throw new Error(`${found} charges, and ${charges} were acknowledged`);
    return found;
  } finally {
    store.close();
  }
}

/** Makes and opens so many images; `seed` makes the random ones the same again. */
export async function runTorn(images: number, seed: number): Promise<TornReport> {
  const random = randomOf(seed);
  const picture = await takePicture(Math.max(60, Math.floor(images / 2)));
  const { folder, log, pageSize, acknowledged } = picture;
  const frame = FRAME_HEADER + pageSize;
  const frames = Math.floor((log.length - HEADER) / frame);
  const chargesBefore = (place: number) => acknowledged.findLast(({ at }) => at <= place)?.charges ?? 0;
  const faults: string[] = [];
  const states = new Set<number>();
  const look = (name: string, place: number, torn: Uint8Array) => {
    try {
      states.add(openImage(folder, torn, chargesBefore(place)));
    } catch (thrown) {
      faults.push(`${name} at ${place}: ${thrown instanceof Error ? thrown.message : thrown}`);
    }
  };
  try {
    for (let image = 0; image < images; image++) {
      const kind = image % 3;
      // Frame ends are gone through one by one, evenly spread where there are more of them than images.
      if (kind === 0) {
        const place = HEADER + Math.floor((image * frames) / images) * frame;
        look("cut at a frame's end", place, log.subarray(0, place));
      } else {
        const place = HEADER + random(log.length - HEADER);
        if (kind === 1) look("cut", place, log.subarray(0, place));
        else look("rubbish", place, withRubbish(log, place, random));
      }
    }
    return { images, states: states.size, faults };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The log with one sector of rubbish that begins at `place`; what comes behind is whole. */
function withRubbish(log: Buffer, place: number, random: (below: number) => number): Uint8Array {
  const torn = Buffer.from(log);
  for (let at = place; at < Math.min(place + SECTOR, torn.length); at++) torn[at] = random(256);
  return torn;
}

if (import.meta.main) {
  const seed = Date.now() % 1_000_000;
  const startedAt = performance.now();
  const { images, states, faults } = await runTorn(Number(process.argv[2] ?? 1_200), seed);
  for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  console.log(
    `${images} torn images in ${seconds} s, seed ${seed}: ${states} distinct states recovered, ${faults.length} bad`,
  );
  // Images that all come to the same say nothing of the places at which they were cut.
  process.exit(faults.length === 0 && states >= images * LEAST_DISTINCT ? 0 : 1);
}
