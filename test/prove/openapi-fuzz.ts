/**
 * The API fuzz against the compiled executable (reliability 8.1, G13): random requests made from its own document, over HTTP, several at a time.
 * `bun test/prove/openapi-fuzz.ts [requests of each operation] [seed]`. Exits 1 unless nothing but what the document declares came back, nothing took
 * longer than a second, and the program is no larger by more than 20 MB at the end than when it was warm.
 */
import { buildBinary } from "../support/binary.ts";

/** No reply may take longer (reliability 8.1, G13), ms. */
const MOST_MS = 1_000;
/** Requests at a time. */
const LANES = 8;
/** What the program may grow by, bytes. */
const MOST_GROWTH = 20 * 1024 * 1024;
const SHOWN_FAULTS = 10;
/** Requests of each operation until the program is warm, at the least: its heap has its size by then. */
const WARM = 150;
/** Memory is looked at so often, ms, for longer than it takes until what is not used any more is given back. */
const LOOK_MS = 500;
const LOOKS = 40;

const each = Number(process.argv[2] ?? 800);
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31));
// Read when the lab is loaded and started: its gateway is this program.
process.env["SLUICE_EXECUTABLE"] = buildBinary();
const { startFuzzLab } = await import("../http/openapi-fuzz-lab.ts");
const { EXCUSES } = await import("../http/openapi-excuses.ts");
const { Fuzz } = await import("../http/openapi-fuzz.ts");

const lab = await startFuzzLab();

/** Memory of the program as it says itself, bytes. */
async function memoryOf(): Promise<number> {
  const response = await lab.gateway.call("/metrics", { headers: { authorization: `Bearer ${lab.keys.admin}` } });
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(await response.text())?.[1] ?? Number.NaN);
}

/** The least of several looks: what waits to be collected, or to be given back, is no growth. */
async function settledMemory(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < LOOKS; look++) {
    least = Math.min(least, await memoryOf());
    await Bun.sleep(LOOK_MS);
  }
  return least;
}

await new Fuzz(lab, EXCUSES, MOST_MS).run(seed + 1, Math.max(each, WARM), LANES);
const before = await settledMemory();
const startedAt = performance.now();
const { requests, faults, statuses, slowestMs } = await new Fuzz(lab, EXCUSES, MOST_MS).run(seed, each, LANES);
const seconds = (performance.now() - startedAt) / 1000;
const growth = (await settledMemory()) - before;
await lab.stop();
for (const { operation, what, request, answer } of faults.slice(0, SHOWN_FAULTS)) {
  console.log(`FAULT ${operation}: ${what}\n  ${request}\n  ${answer}`);
}
const unserved = [...statuses].filter(([, seen]) => [...seen.keys()].every((status) => status >= 400));
for (const [operation] of unserved) console.log(`never served: ${operation}`);
const grown = `${(growth / 1024 / 1024).toFixed(1)} MB grown`;
const counts = `${requests} requests to ${statuses.size} operations in ${seconds.toFixed(0)} s (seed ${seed})`;
console.log(`${counts}: ${faults.length} faults, slowest ${Math.round(slowestMs)} ms, ${grown}`);
process.exit(faults.length === 0 && unserved.length === 0 && growth < MOST_GROWTH ? 0 : 1);
