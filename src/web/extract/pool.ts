import { totalmem } from "node:os";
import type { Clock } from "../../lib/clock.ts";
import { readResident } from "../../lib/resident.ts";
import { memoryBound } from "../../limits/memory-share.ts";
import type { RawPage, ReadPage } from "./page.ts";
import { startThread, type Thread, type ThreadEvents } from "./thread.ts";
import type { Done, Work } from "./work.ts";

/** Threads at a time. */
export const MAX_THREADS = 2;
/** Pages that may wait, and their bytes in all; more are refused at once. */
export const MAX_WAITING = 200;
const MAX_WAITING_BYTES = 100 * 1024 * 1024;
/** For one page in its thread, milliseconds; then the thread is ended. */
export const READ_DEADLINE_MS = 10_000;
/** How often deadline and memory are looked at while a page is read, milliseconds: a PDF file can unpack itself at half a megabyte a millisecond. */
export const WATCH_MS = 20;
/**
 * By how much the process may grow while a page is read: bytes, and as a part of all memory, so that where there is little of it one file does not end the
 * gateway.
 */
export const MAX_GROWTH_BYTES = 768 * 1024 * 1024;
const GROWTH_PART = 1 / 3;

/** By how much the process may grow while a page is read, on a machine or in a container with so much memory, bytes. */
export const growthBound = (memoryBytes: number): number => Math.min(MAX_GROWTH_BYTES, memoryBytes * GROWTH_PART);

const ownGrowth = (): number => growthBound(memoryBound(process.constrainedMemory(), totalmem()));
/** A thread without work is ended after this, milliseconds. */
export const IDLE_MS = 30_000;
/** A thread that has read so many bytes of pages is replaced: the memory that long pages leave behind in it comes back with its end only. */
export const MAX_THREAD_BYTES = 16 * 1024 * 1024;

/** Why a page could not be read. `message` is for the client. */
export class ReadFault extends Error {
  override readonly name = "ReadFault";
  constructor(
    readonly code: "unsupported_content_type" | "unreadable" | "timeout" | "busy",
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

type Waiting = {
  work: Work;
  size: number;
  resolve(page: ReadPage): void;
  reject(error: unknown): void;
};

/** A thread and the page it has in hand. */
class Reader {
  #thread: Thread | undefined;
  #running: Waiting | undefined;
  #bytes = 0;
  #cancel: () => void = () => {};

  constructor(
    private readonly clock: Clock,
    private readonly start: (events: ThreadEvents) => Thread,
    private readonly onFree: () => void,
    private readonly memory: () => number,
    private readonly mostGrowth: number,
  ) {}

  get busy(): boolean {
    return this.#running !== undefined;
  }

  get awake(): boolean {
    return this.#thread !== undefined;
  }

  take(waiting: Waiting): void {
    this.#cancel();
    this.#running = waiting;
    this.#bytes += waiting.size;
    this.#watch(waiting, this.clock.monotonic() + READ_DEADLINE_MS, this.memory() + this.mostGrowth);
    try {
      this.#thread ??= this.start({ done: (done) => this.#done(done), died: (cause) => this.#died(cause) });
      this.#thread.post(waiting.work);
    } catch (thrown) {
      this.#died(thrown);
    }
  }

  /** Gives the page up at `until`, monotonic ms, or once the process takes more than `most` bytes. */
  #watch(waiting: Waiting, until: number, most: number): void {
    const ms = Math.min(WATCH_MS, until - this.clock.monotonic());
    this.#cancel = this.clock.after(ms, () => {
      if (this.clock.monotonic() >= until)
        this.drop(waiting, new ReadFault("timeout", "Reading this page takes too long."));
      else if (this.memory() > most) {
        this.drop(waiting, new ReadFault("unreadable", "Reading this page takes too much memory."));
      } else this.#watch(waiting, until, most);
    });
  }

  /** Gives up the page in hand if it is this one, and says whether it was. A thread cannot be told to leave off: it is ended. */
  drop(waiting: Waiting, reason: unknown): boolean {
    if (this.#running !== waiting) return false;
    this.sleep();
    this.#finish(() => waiting.reject(reason));
    return true;
  }

  sleep(): void {
    this.#cancel();
    this.#thread?.close();
    this.#thread = undefined;
    this.#bytes = 0;
  }

  stop(reason: unknown): void {
    const waiting = this.#running;
    this.#running = undefined;
    this.sleep();
    waiting?.reject(reason);
  }

  #done(done: Done): void {
    const waiting = this.#running;
    if (!waiting) return;
    this.#cancel();
    if (this.#bytes >= MAX_THREAD_BYTES) this.sleep();
    else this.#cancel = this.clock.after(IDLE_MS, () => this.sleep());
    this.#finish(() => {
      if ("page" in done) waiting.resolve(done.page);
      else waiting.reject(new ReadFault(done.fault.code, done.fault.message));
    });
  }

  #died(cause: unknown): void {
    const waiting = this.#running;
    this.sleep();
    this.#finish(() => waiting?.reject(new ReadFault("unreadable", "This page could not be read.", cause)));
  }

  #finish(tell: () => void): void {
    this.#running = undefined;
    tell();
    this.onFree();
  }
}

/**
 * Reads pages in threads, each page within a deadline, so that the event loop never waits for one. Threads start with the first page and
 * end when there is nothing to do.
 */
export class ReaderPool {
  readonly #queue: Waiting[] = [];
  readonly #readers: Reader[];
  #bytes = 0;
  #stopped = false;

  /** `memory`: bytes that the process takes. `mostGrowth`: by how many it may grow while a page is read. */
  constructor(
    clock: Clock,
    start: (events: ThreadEvents) => Thread = startThread,
    memory: () => number = readResident,
    mostGrowth = ownGrowth(),
  ) {
    const onFree = () => this.#next();
    this.#readers = Array.from({ length: MAX_THREADS }, () => new Reader(clock, start, onFree, memory, mostGrowth));
  }

  /** How many threads there are at this moment. */
  get awake(): number {
    return this.#readers.filter((reader) => reader.awake).length;
  }

  /**
   * Reads a page; its bytes are given away. Throws ReadFault (its code says why), or the signal's reason once that is aborted.
   */
  async read(page: RawPage, signal?: AbortSignal): Promise<ReadPage> {
    signal?.throwIfAborted();
    const size = page.bytes.length;
    if (this.#stopped || this.#queue.length >= MAX_WAITING || this.#bytes + size > MAX_WAITING_BYTES) {
      throw new ReadFault("busy", "Too many pages are being read at the moment. Try again.");
    }
    const { promise, resolve, reject } = Promise.withResolvers<ReadPage>();
    const waiting: Waiting = { work: { ...page, bytes: ownBytes(page.bytes) }, size, resolve, reject };
    this.#queue.push(waiting);
    this.#bytes += size;
    const onAbort = () => this.#drop(waiting, signal?.reason);
    signal?.addEventListener("abort", onAbort);
    this.#next();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the threads; what waits is refused, and so is all that comes later. */
  stop(): void {
    this.#stopped = true;
    const reason = new ReadFault("busy", "The gateway is shutting down.");
    for (const { reject } of this.#queue.splice(0)) reject(reason);
    for (const reader of this.#readers) reader.stop(reason);
  }

  #next(): void {
    // A thread that is there is used before another one is started.
    const free = this.#readers.filter((reader) => !reader.busy).sort((a, b) => Number(b.awake) - Number(a.awake));
    for (const reader of free) {
      const waiting = this.#queue.shift();
      if (!waiting) return;
      this.#bytes -= waiting.size;
      reader.take(waiting);
    }
  }

  #drop(waiting: Waiting, reason: unknown): void {
    const at = this.#queue.indexOf(waiting);
    if (at < 0) {
      this.#readers.some((reader) => reader.drop(waiting, reason));
      return;
    }
    this.#queue.splice(at, 1);
    this.#bytes -= waiting.size;
    waiting.reject(reason);
  }
}

/** Bytes that can be handed over: they fill their memory, and nobody else holds it. */
const ownBytes = (bytes: Uint8Array): Uint8Array =>
  bytes.byteLength === bytes.buffer.byteLength && !Buffer.isBuffer(bytes) ? bytes : new Uint8Array(bytes);
