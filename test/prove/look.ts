import { readFileSync } from "node:fs";
import type { VendorCounts } from "./stream-vendor.ts";

/** Memory is taken to rest when it has not changed by more than STILL_MB for STILL_MS; after PATIENCE_MS it is read anyway. It is looked at every LOOK_MS. */
const STILL_MB = 0.5;
const STILL_MS = 1_500;
const PATIENCE_MS = 12_000;
const LOOK_MS = 100;

/** Memory of a process, MB: what is resident, and its share of what several processes have. */
export type Memory = { rss: number; pss: number };

/** Reads it from the system. Linux only. */
export function readMemory(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const of = (name: string) => Number(new RegExp(`^${name}: *(\\d+)`, "m").exec(text)?.[1]) / 1024;
  return { rss: of("Rss"), pss: of("Pss") };
}

/** Its memory once it has come to rest. */
export async function settledMemory(pid: number): Promise<Memory> {
  let last = readMemory(pid);
  const startedAt = performance.now();
  for (let stillAt = startedAt; ; await Bun.sleep(LOOK_MS)) {
    const memory = readMemory(pid);
    const now = performance.now();
    if (Math.abs(memory.rss - last.rss) > STILL_MB) {
      last = memory;
      stillAt = now;
    }
    if (now - stillAt >= STILL_MS || now - startedAt >= PATIENCE_MS) return memory;
  }
}

/**
 * The least resident memory, MB, that an idle process comes down to within `withinMs`: a runtime gives memory back some seconds after it has become idle.
 * Ends early once that is down to `enough`.
 */
export async function restingMemory(pid: number, withinMs: number, enough = 0): Promise<number> {
  let least = readMemory(pid).rss;
  await holdsWithin(withinMs, () => {
    least = Math.min(least, readMemory(pid).rss);
    return least <= enough;
  });
  return least;
}

/** Waits until `condition` holds, looking every `lookMs`; false: it did not within `patienceMs`. */
export async function holdsWithin(
  patienceMs: number,
  condition: () => Promise<boolean> | boolean,
  lookMs = LOOK_MS,
): Promise<boolean> {
  const startedAt = performance.now();
  while (!(await condition())) {
    if (performance.now() - startedAt > patienceMs) return false;
    await Bun.sleep(lookMs);
  }
  return true;
}

/** One figure of the gateway at `url`, as `/metrics` has it. */
export async function readFigure(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

/** What the vendor of `stream-vendor.ts` on this port has open. */
export async function readVendor(port: number): Promise<VendorCounts> {
  return (await (await fetch(`http://127.0.0.1:${port}/open`)).json()) as VendorCounts;
}

/** The quantile of values at `share` (0 to 1); NaN for none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
}
