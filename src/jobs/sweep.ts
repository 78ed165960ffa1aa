import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { DAY_MS, HOUR_MS } from "../lib/spans.ts";
import { errorFields, type Log } from "../observe/log.ts";
import { type ImageFiles, type NameBatch, PART_MS } from "./files.ts";
import type { JobStore } from "./store.ts";

/** Between two rounds, ms; and before the first, so that it is not in the way of a start. */
const SWEEP_MS = HOUR_MS;
const FIRST_SWEEP_MS = 60_000;
/** Jobs that are forgotten in one transaction. */
const BATCH = 100;
/** Missing files that one round tells of, and how many are remembered as told; with one more all are forgotten. */
const MAX_TOLD = 20;
const MAX_REMEMBERED = 10_000;

export type SweepParts = {
  jobs: JobStore;
  writer: Writer;
  files: ImageFiles;
  clock: Clock;
  log: Log;
  /** Jobs are forgotten this long after their end, days. */
  keepDays: number;
};

/** What a round came to. */
export type Swept = { jobs: number; orphans: number; missing: number };

/**
 * Forgets old jobs, row first and file second, so that no address leads to a file that is gone; removes files that no job knows, which a crash
 * can leave; and tells of jobs whose file is gone, which nothing should (reliability 5.5).
 */
export class Sweeper {
  #cancel = () => {};
  #stopped = false;
  /** Missing files that were told of: each is only once. */
  readonly #told = new Set<string>();
  /** How many more this round tells of. */
  #toTell = 0;
  /** When it was last looked for old jobs, by the wall clock and by the one that never jumps, ms. */
  #looked: { wall: number; monotonic: number };

  constructor(private readonly parts: SweepParts) {
    const { clock } = parts;
    this.#looked = { wall: clock.now(), monotonic: clock.monotonic() };
  }

  /** Sweeps soon and every hour. */
  start(): void {
    this.#cancel = this.parts.clock.after(FIRST_SWEEP_MS, () => void this.#round());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #round(): Promise<void> {
    try {
      await this.sweep();
    } catch (thrown) {
      this.parts.log.error("image-sweep", errorFields(thrown));
    }
    if (!this.#stopped) this.#cancel = this.parts.clock.after(SWEEP_MS, () => void this.#round());
  }

  /** One round. Rejects as the writer and the files do. */
  async sweep(): Promise<Swept> {
    const swept: Swept = { jobs: await this.#forgetOld(), orphans: 0, missing: 0 };
    this.#toTell = MAX_TOLD;
    for await (const batch of this.parts.files.batches()) {
      if (this.#stopped) break;
      await this.#compare(batch, swept);
    }
    return swept;
  }

  async #forgetOld(): Promise<number> {
    const { jobs, writer, files, keepDays } = this.parts;
    const endedMs = this.#believedNow() - keepDays * DAY_MS;
    for (let forgotten = 0; ; ) {
      const old = jobs.endedBefore(endedMs, BATCH);
      if (old.length === 0 || this.#stopped) return forgotten;
      await writer.run(() => jobs.remove(old.map(({ id }) => id)));
      for (const { file } of old) if (file !== null) await files.remove(file);
      forgotten += old.length;
    }
  }

  /** Unix ms. A wall clock that jumped far ahead is believed in the next round only, if it still stands there: a job that is forgotten by mistake is lost. */
  #believedNow(): number {
    const { clock } = this.parts;
    const { wall, monotonic } = this.#looked;
    this.#looked = { wall: clock.now(), monotonic: clock.monotonic() };
    return Math.min(this.#looked.wall, wall + this.#looked.monotonic - monotonic + DAY_MS);
  }

  async #compare({ from, to, names }: NameBatch, swept: Swept): Promise<void> {
    const { jobs, files } = this.parts;
    const known = jobs.filesBetween(from, to);
    const wanted = new Set(known.map(({ file }) => file));
    const there = new Set(names);
    for (const name of names) {
      // A young one may be of a job whose row is just being written.
      if (wanted.has(name) || ((await files.age(name)) ?? 0) <= PART_MS) continue;
      if (jobs.knowsFile(name)) continue;
      await files.remove(name);
      swept.orphans++;
    }
    for (const { file, done } of known) {
      if (!done || there.has(file) || !jobs.knowsFile(file) || (await files.has(file))) continue;
      swept.missing++;
      this.#tellMissing(file);
    }
  }

  /** Who has removed images to have room is not to be told of them every hour, for as long as their jobs are kept. */
  #tellMissing(file: string): void {
    if (this.#toTell === 0 || this.#told.has(file)) return;
    if (this.#told.size >= MAX_REMEMBERED) this.#told.clear();
    this.#told.add(file);
    this.#toTell--;
    this.parts.log.error("image-missing", { file });
  }
}
