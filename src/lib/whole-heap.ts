import type { Clock } from "./clock.ts";

/** Use of the memory, as a fraction, from which on it is tight and garbage is collected; and the fraction by which it must have grown since the last time. */
const TIGHT_FROM = 0.7;
const TIGHT_STEP = 1 / 20;
/** Where memory is not tight: by how much it must have grown, bytes, and for how long nothing may have been going on, ms (but see {@link WORK_REST}). */
const QUIET_STEP = 16 * 1024 * 1024;
const QUIET_MS = 5_000;
/** The next collection comes no sooner than after this many times the time that the last one took. */
const REST = 20;
/** Where memory is not tight and work goes on: no sooner than after this many times that time, and after this long at the least, ms. */
const WORK_REST = 2_000;
const LEAST_WORK_REST_MS = 60_000;

type WholeHeapParts = {
  clock: Clock;
  /** How much memory this process may use, bytes. */
  memoryBytes: number;
  /** How much it uses, bytes, garbage included. */
  readMemory(): number;
  /** Replaced in tests. Default: a full collection, of old objects too, which gives memory back to the system. */
  collect?: (() => void) | undefined;
};

/**
 * Collects all garbage, that of old objects too, before a request has to be refused for lack of memory. The runtime goes by the memory of the whole machine:
 * in a container of 256 MB it let its heap double as it does with 24 GB, and the process ran into its bound while half of it was garbage. Also collected
 * when nothing is going on: after a busy hour a quarter of what was resident was garbage, and stayed. And once in a while when work does go on: the runtime
 * leaves old garbage for so long that the process grew by a megabyte a minute. A collection takes some 25 ms.
 */
export class WholeHeap {
  #least = Number.POSITIVE_INFINITY;
  #busyAt = Number.NEGATIVE_INFINITY;
  #restsUntil = Number.NEGATIVE_INFINITY;
  /** No collection while work goes on before this, monotonic ms. Also for a while after the start, when there is hardly any garbage yet. */
  #worksUntil: number;

  constructor(private readonly parts: WholeHeapParts) {
    this.#worksUntil = parts.clock.monotonic() + LEAST_WORK_REST_MS;
  }

  /** Looks, about once a second, and collects where it is time to. Returns the use of the memory as a fraction. `isBusy`: there was work since the last look. */
  look(isBusy: boolean): number {
    const { clock, memoryBytes, readMemory } = this.parts;
    const now = clock.monotonic();
    if (isBusy) this.#busyAt = now;
    const used = readMemory();
    this.#least = Math.min(this.#least, used);
    const isTight = used >= memoryBytes * TIGHT_FROM;
    const grown = used - this.#least;
    const isTime = now - this.#busyAt >= QUIET_MS || now >= this.#worksUntil;
    const isWorth = isTight ? grown >= memoryBytes * TIGHT_STEP : grown >= QUIET_STEP && isTime;
    if (!isWorth || now < this.#restsUntil) return used / memoryBytes;
    (this.parts.collect ?? collectAll)();
    const done = clock.monotonic();
    this.#restsUntil = done + REST * (done - now);
    this.#worksUntil = done + Math.max(LEAST_WORK_REST_MS, WORK_REST * (done - now));
    // Memory is given back to the system gradually: the next looks lower this further.
    this.#least = readMemory();
    return this.#least / memoryBytes;
  }
}

function collectAll(): void {
  Bun.gc(true);
}
