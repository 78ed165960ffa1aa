import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { fileNames } from "./request-log.ts";

/** A line of the request log, as it was written. */
export type LoggedRequest = Record<string, unknown> & { time: number };

/** Bytes that are read at once. */
const CHUNK_BYTES = 256 * 1024;
/** A line that is longer is damaged, since the log writes none of that length: it is skipped. */
const MAX_LINE_BYTES = 1024 * 1024;
const LINE_END = 10;
/** The furthest moment from 1970, before or after, that a Date can hold, ms. */
const MAX_TIME = 8.64e15;

/** The log's files, oldest first; none where there is no log. */
function listFiles(folder: string): string[] {
  try {
    return fileNames(folder).map((name) => join(folder, name));
  } catch (thrown) {
    if ((thrown as { code?: unknown }).code === "ENOENT") return [];
    throw thrown;
  }
}

/** The value of a line; undefined for one that is cut off or no record. */
function parseLine(line: string): LoggedRequest | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const time = typeof value === "object" && value !== null && "time" in value ? value.time : undefined;
    return typeof time === "number" && Math.abs(time) <= MAX_TIME ? (value as LoggedRequest) : undefined;
  } catch {
    // A crash may have left half a line behind.
    return undefined;
  }
}

/** Reads one file on from where it stopped the last time, whole lines only. */
class LineReader {
  #offset = 0;
  #rest = Buffer.alloc(0);

  constructor(
    readonly path: string,
    offset = 0,
  ) {
    this.#offset = offset;
  }

  /** Calls `onLine` with what has come since the last call. Rejects with the system's error, and does nothing where the file is gone. */
  async read(onLine: (record: LoggedRequest) => void): Promise<void> {
    const file = await open(this.path, "r").catch((thrown: unknown) => {
      if ((thrown as { code?: unknown }).code === "ENOENT") return undefined;
      throw thrown;
    });
    if (!file) return;
    try {
      // It is shorter than what was read: somebody has removed the file under a running server, which has begun it anew.
      if ((await file.stat()).size < this.#offset) this.#begin();
      const chunk = Buffer.alloc(CHUNK_BYTES);
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, this.#offset);
        if (bytesRead === 0) return;
        this.#offset += bytesRead;
        this.#take(Buffer.concat([this.#rest, chunk.subarray(0, bytesRead)]), onLine);
      }
    } finally {
      await file.close();
    }
  }

  #begin(): void {
    this.#offset = 0;
    this.#rest = Buffer.alloc(0);
  }

  #take(bytes: Buffer, onLine: (record: LoggedRequest) => void): void {
    let from = 0;
    for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
      const record = parseLine(bytes.toString("utf8", from, end));
      if (record) onLine(record);
      from = end + 1;
    }
    const rest = bytes.subarray(from);
    this.#rest = rest.length > MAX_LINE_BYTES ? Buffer.alloc(0) : Buffer.from(rest);
  }
}

/**
 * The last `limit` records that fit, oldest first. Reads the newest file first and no more files than it needs; never more than one piece of a
 * file is in memory. Rejects with the system's error when a file cannot be read.
 */
export async function readLast(
  folder: string,
  limit: number,
  fits: (record: LoggedRequest) => boolean,
): Promise<LoggedRequest[]> {
  let found: LoggedRequest[] = [];
  for (const path of listFiles(folder).reverse()) {
    const here: LoggedRequest[] = [];
    await new LineReader(path).read((record) => {
      if (!fits(record)) return;
      here.push(record);
      // Cut only when it is twice as long, since each cut moves all entries.
      if (here.length >= 2 * limit) here.splice(0, here.length - limit);
    });
    found = [...here, ...found].slice(-limit);
    if (found.length >= limit) break;
  }
  return found;
}

/** Follows the log from its present end: each {@link read} tells what has come since, also in files that were begun meanwhile. */
export class LogFollower {
  #readers: LineReader[];

  constructor(private readonly folder: string) {
    const newest = listFiles(folder).at(-1);
    this.#readers = newest === undefined ? [] : [new LineReader(newest, statSync(newest).size)];
  }

  /** Tells the records that were written since the last call. Rejects as the system does. */
  async read(onRecord: (record: LoggedRequest) => void): Promise<void> {
    const known = this.#readers.at(-1);
    const newer = listFiles(this.folder).filter((path) => known === undefined || path > known.path);
    this.#readers.push(...newer.map((path) => new LineReader(path)));
    for (const reader of this.#readers) await reader.read(onRecord);
    this.#readers = this.#readers.slice(-1);
  }
}
