import type { Clock } from "./clock.ts";

/** Part of the memory from which on what is garbage is collected, and by which it must have grown since to be collected again. */
const TIGHT_FROM = 0.7;
const TIGHT_STEP = 1 / 20;
/** Where there is enough: by how much it must have grown, bytes, and for how long nothing may have been going on, ms, where it is not time anyway. */
const QUIET_STEP = 16 * 1024 * 1024;
const QUIET_MS = 5_000;
/** After a collection it rests for so many times as long as that took. */
const REST = 20;
/** Where there is enough and work goes on it rests longer: for so many times as long, and for so long at the least, ms. */
const WORK_REST = 2_000;
const LEAST_WORK_REST_MS = 60_000;

type WholeHeapParts = {
  clock: Clock;
  /** What this process may use, bytes. */
  memoryBytes: number;
  /** What it uses, bytes, its garbage included. */
  readMemory(): number;
  /** What is done, for tests. Default: everything is collected, old and young, and given back. */
  collect?: (() => void) | undefined;
};

/**
 * Collects the garbage among the old as well, before somebody has to be turned away for it. The runtime goes by the memory of the whole machine: in a
 * container of 256 MB it let its heap double as it does beside 24 GB, and the process ran into its bound while half of it was garbage. It is also given
 * back where nothing is going on: after a busy hour a quarter of what was resident was garbage, and stayed. And once in a while where work does go on: the
 * runtime leaves the old ones' garbage for so long that the process grew by a megabyte a minute. It takes some 25 ms.
 */
export class WholeHeap {
  #least = Number.POSITIVE_INFINITY;
  #busyAt = Number.NEGATIVE_INFINITY;
  #restsUntil = Number.NEGATIVE_INFINITY;
  /** Until when it rests in the midst of work: of a start nearly all stays. */
  #worksUntil: number;

  constructor(private readonly parts: WholeHeapParts) {
    this.#worksUntil = parts.clock.monotonic() + LEAST_WORK_REST_MS;
  }

  /** What is used of the memory, a part of it; looked at about once a second. `isBusy`: something has gone on since the last look. */
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
    // What is given back by and by lowers it with the next looks.
    this.#least = readMemory();
    return this.#least / memoryBytes;
  }
}

function collectAll(): void {
  Bun.gc(true);
}
