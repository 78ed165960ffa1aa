import { type Clock, systemClock } from "../lib/clock.ts";
import { errorCode } from "../lib/error-code.ts";
import { outbox } from "../lib/outbox.ts";
import { hasMoved } from "./moved.ts";
import type { Store } from "./open.ts";
import { StoreError, toStoreError } from "./store-error.ts";

/** Operations that share one commit at the most: the gain of a larger batch is small (reliability 2 #3). */
const MAX_BATCH = 64;
/** Operations that may wait while another process holds the write lock; further ones are refused. */
const MAX_QUEUED = 20_000;
/** Pause before the write lock is tried again, ms. */
const RETRY_MS = 5;
/** How long another process may hold the write lock before what waits is refused, ms. */
const GIVE_UP_MS = 5_000;

/**
 * How long a batch gathers at the most while others write too, ms: on a busy server one fsync then serves several requests (reliability 3.9), and a
 * commit costs as much as five rows. Where the disk is slow the event loop stands still in each commit, and requests get on between two of them alone: a
 * batch gathers for such a part of the time that the last commit took, and for no longer than that.
 */
export const GATHER_MS = 4;
const GATHER_PART = 0.25;
const MOST_GATHER_MS = 25;

type Task = {
  operation: () => unknown;
  single: boolean;
  resolve: (value: unknown) => void;
  reject: (reason: unknown) => void;
};
/**
 * Work that is done once for each batch, in its transaction and after its operations, because it would cost too much after every single one. `forget` is
 * called when the batch was undone: what was gathered for it counts no more. Neither may wait for anything.
 */
export type BatchWork = { write(): void; forget(): void };

type Result = { ok: true; value: unknown } | { ok: false; reason: unknown };

const gone = (path: string) =>
  new StoreError(
    "unusable",
    `The store ${path} was removed, moved or replaced under the running server. Put it back, or start the server anew.`,
  );

/**
 * All writing to the store: operations queue up and share one transaction and one fsync (group commit, reliability 3.9). A batch
 * starts at the end of the current turn of the event loop; while others write too it waits for those who are still at work, four milliseconds at the
 * most, or longer where the disk is slow; when it is full it starts at once. Alone an operation waits for nothing, under load the batches grow.
 */
export class Writer {
  #queue: Task[] = [];
  /** A batch begins at the end of this turn. */
  #isDue = false;
  /** A batch begins when it has gathered. */
  #gathering: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #committing = false;
  #lastBatch = 0;
  /** How long the last commit took. */
  #tookMs = 0;
  #lockedSince: number | undefined;
  #onDrained: (() => void) | undefined;
  readonly #joined: BatchWork[] = [];
  /** What was written since the start, for the operator, and for how long the event loop stood still meanwhile for the disk, ms. */
  readonly counts = { commits: 0, operations: 0, failures: 0, waitedMs: 0 };
  #view = 0;
  #writing = false;
  #failing: StoreError | undefined;
  #onFailing: (() => void) | undefined;
  readonly #statements;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock = systemClock,
    /** How many requests are under way that will end with an operation here, those included whose operation waits already. Default: no others are waited for. */
    private readonly atWork: () => number = () => 0,
  ) {
    const prepare = (sql: string) => store.database.prepare(sql);
    this.#statements = {
      begin: prepare("BEGIN IMMEDIATE"),
      commit: prepare("COMMIT"),
      rollback: prepare("ROLLBACK"),
      save: prepare("SAVEPOINT operation"),
      keep: prepare("RELEASE operation"),
      undo: prepare("ROLLBACK TO operation"),
    };
  }

  /**
   * Runs `operation`, which reads and writes the store and must not wait for anything, inside a transaction of its own as far as it
   * can tell. Resolves with its result once that is on the disk. Rejects with what it threw, all it wrote undone and its neighbours
   * untouched; or with StoreError: disk full, damaged, taken away, busy (too much waiting), locked (by another process for 5 s), closed.
   */
  run<T>(operation: () => T): Promise<T> {
    return this.#enqueue(operation, false);
  }

  /** {@link run} for an operation of one statement, which SQLite undoes by itself when it fails: it needs no savepoint. */
  runSingle<T>(operation: () => T): Promise<T> {
    return this.#enqueue(operation, true);
  }

  /** Operations that wait for their commit. */
  get queued(): number {
    return this.#queue.length;
  }

  /**
   * Inside an operation: a number that is another one in each batch, and after each operation that was undone. What was read or written under one number
   * is still so while the number is the same, and need not be read again. Undefined outside of operations.
   */
  get view(): number | undefined {
    return this.#writing ? this.#view : undefined;
  }

  /** Why the last write could not be done: the disk is full, or broken, or another process has the lock. Undefined when it was done. */
  get failing(): StoreError | undefined {
    return this.#failing;
  }

  /** Has `listener` called whenever a write fails for a fault of the store. */
  onFailing(listener: () => void): void {
    this.#onFailing = listener;
  }

  /** From now on `work` is done in every batch. What it throws undoes the whole batch. */
  join(work: BatchWork): void {
    this.#joined.push(work);
  }

  #enqueue<T>(operation: () => T, single: boolean): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreError("closed", "The store is closing and takes no more writes."));
    if (this.#queue.length >= MAX_QUEUED) {
      return Promise.reject(new StoreError("busy", `More than ${MAX_QUEUED} writes wait for the store.`));
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.push({ operation, single, resolve: resolve as (value: unknown) => void, reject });
    if (this.#lockedSince === undefined) {
      if (this.#queue.length >= MAX_BATCH) this.#flush();
      else this.#schedule();
    }
    return promise;
  }

  /** Writes what waits and takes nothing more. Resolves when every operation has its answer. */
  close(): Promise<void> {
    this.#closed = true;
    if (this.#queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onDrained = resolve;
    });
  }

  #schedule(): void {
    if (this.#isDue) return;
    // Where nobody else is at work, waiting gains nothing.
    if (this.#lastBatch > 1 && this.#queue.length < this.atWork()) {
      const gatherMs = Math.min(Math.max(GATHER_MS, this.#tookMs * GATHER_PART), MOST_GATHER_MS);
      this.#gathering ??= setTimeout(this.#onDue, gatherMs);
      return;
    }
    clearTimeout(this.#gathering);
    this.#isDue = true;
    setImmediate(this.#onDue);
  }

  readonly #onDue = (): void => {
    this.#gathering = undefined;
    this.#isDue = false;
    // Sent first, so that clients and vendors can go on while this process waits for the disk.
    outbox.send();
    if (this.#lockedSince === undefined) this.#flush();
  };

  /** Commits one batch; what is left waits for the next turn, so that a long queue does not stop the event loop. */
  #flush(): void {
    if (this.#committing) return;
    if (this.#queue.length > 0 && this.#begin()) {
      this.#committing = true;
      const batch = this.#queue.splice(0, MAX_BATCH);
      this.#lastBatch = batch.length;
      this.#commit(batch);
      this.#committing = false;
    }
    if (this.#queue.length === 0) this.#onDrained?.();
    else if (this.#lockedSince === undefined) this.#schedule();
  }

  /** Takes the write lock. Without it the operations wait on, or are refused when it cannot be had at all. */
  #begin(): boolean {
    try {
      // Left open by a commit that could not even be undone.
      if (this.store.database.inTransaction) this.#statements.rollback.run();
      // With a write-ahead log SQLite does not look by itself, and what is written to a file without its name is gone with the process.
      if (hasMoved(this.store.database)) throw gone(this.store.path);
      this.#statements.begin.run();
      this.#lockedSince = undefined;
      return true;
    } catch (thrown) {
      if (!this.#waitForLock(thrown)) this.#refuseAll(toStoreError(thrown, this.store.path));
      return false;
    }
  }

  /** Tries again in a moment when another process has the write lock: waiting inside SQLite would stop the event loop. */
  #waitForLock(thrown: unknown): boolean {
    if (!errorCode(thrown).startsWith("SQLITE_BUSY")) return false;
    const now = this.clock.monotonic();
    this.#lockedSince ??= now;
    if (now - this.#lockedSince >= GIVE_UP_MS) return false;
    this.clock.after(RETRY_MS, () => this.#flush());
    return true;
  }

  #refuseAll(reason: unknown): void {
    this.#lockedSince = undefined;
    this.counts.failures++;
    this.#note(reason);
    for (const task of this.#queue.splice(0)) task.reject(reason);
  }

  /** Notes why a write failed, for {@link failing}, where that is a fault of the store: anything else says nothing of the next write. */
  #note(reason: unknown): void {
    if (!(reason instanceof StoreError)) return;
    this.#failing = reason;
    this.#onFailing?.();
  }

  #commit(batch: readonly Task[]): void {
    const results: Result[] = [];
    this.#failing = undefined;
    this.#view++;
    this.#writing = true;
    try {
      for (const task of batch) results.push(this.#attempt(task));
      for (const work of this.#joined) work.write();
      this.#writing = false;
      const begunAt = this.clock.monotonic();
      this.#statements.commit.run();
      this.#tookMs = this.clock.monotonic() - begunAt;
      this.counts.waitedMs += this.#tookMs;
    } catch (thrown) {
      this.#writing = false;
      for (const work of this.#joined) work.forget();
      const reason = toStoreError(thrown, this.store.path);
      this.counts.failures++;
      this.#undo();
      this.#note(reason);
      for (const task of batch) task.reject(reason);
      return;
    }
    this.counts.commits++;
    this.counts.operations += batch.length;
    batch.forEach((task, at) => {
      const result = results[at];
      if (result?.ok) task.resolve(result.value);
      else task.reject(result?.reason);
    });
  }

  /** Ends a transaction that failed. When that fails too, the next batch does it before it begins. */
  #undo(): void {
    try {
      if (this.store.database.inTransaction) this.#statements.rollback.run();
    } catch (thrown) {
      this.#note(toStoreError(thrown, this.store.path));
    }
  }

  /** One operation, under its own savepoint unless it is one statement. Throws only when SQLite has given up the whole transaction. */
  #attempt(task: Task): Result {
    if (!task.single) this.#statements.save.run();
    try {
      const value = task.operation();
      if (value instanceof Promise)
        throw new TypeError("An operation of the store must not wait: it returned a promise.");
      if (!task.single) this.#statements.keep.run();
      return { ok: true, value };
    } catch (thrown) {
      if (!this.store.database.inTransaction) throw thrown;
      this.#view++;
      if (!task.single) {
        this.#statements.undo.run();
        this.#statements.keep.run();
      }
      const reason = toStoreError(thrown, this.store.path);
      this.#note(reason);
      return { ok: false, reason };
    }
  }
}
