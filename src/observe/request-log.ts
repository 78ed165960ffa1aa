import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { appendFile, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import type { Fields, Log } from "./log.ts";

export type RequestLogSettings = {
  /** The folder of the files; made when it is missing. */
  folder: string;
  /** Files whose last line is older than this many days are removed. */
  days: number;
  /** All files together stay below this, bytes. */
  maxBytes: number;
  /** Prompts and answers are written too. Never by default: they belong to the callers. */
  bodies: boolean;
  /** Takes secrets out of text before it is written. */
  scrub(text: string): string;
  /** Wall clock, Unix ms. */
  now?: () => number;
  /** Told each time that a file cannot be written; requests go on. */
  onFault(thrown: unknown): void;
};

/** How long a line waits at the most until all that wait are written together, ms: a write for every request would cost more than the request. */
const FLUSH_MS = 500;
/** Lines that may wait for a disk that does not keep up; further ones are counted and left out. */
const MAX_WAITING = 20_000;
/** Lines that are written at once at the most: about a megabyte of them, and with prompts and answers about eight. */
const CHUNK_LINES = 2_048;
const CHUNK_LINES_WITH_BODIES = 64;
/** The log is cut into this many files, by size and by age, so that the oldest can go one by one. */
const FILES = 8;
const MIN_FILE_BYTES = 64 * 1024;
/**
 * How much of a prompt and of an answer is written, characters. Twice that is searched for secrets before it is cut: text that was cut first could end
 * within a secret, which would not be recognised.
 */
const MAX_BODY = 64 * 1024;
export const MAX_LOOKED_THROUGH = 2 * MAX_BODY;
const DAY_MS = 86_400_000;
/** The log's files are named by the time at which they were begun (UTC, to the millisecond). */
const FILE_NAME = /^requests-\d{8}T\d{9}Z\.jsonl$/;

/** Fields that hold the gateway's own words only: no secret can stand in them, and they are not searched. */
const OWN_WORDS: ReadonlySet<string> = new Set([
  "event",
  "request_id",
  "account",
  "key",
  "dialect",
  "vendor",
  "outcome",
  "error",
  "cost_usd",
  "flags",
]);
/** Names of models whose scrubbed form is remembered: the same few come again and again. */
const MAX_KNOWN = 1_000;

/** The names of a log's files, oldest first. Throws the system's error where its folder is not there. */
export const fileNames = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => FILE_NAME.test(name))
    .sort();

/** When the newest file of a folder was begun, by its name, Unix ms; 0 where there is none. */
function newestStamp(folder: string): number {
  const newest = fileNames(folder).at(-1);
  const time = newest?.replace(/^.{9}(....)(..)(...)(..)(..)(..)(...Z).*$/, "$1-$2-$3$4:$5:$6.$7");
  return (time && Date.parse(time)) || 0;
}

/** Lines as one text with their line feeds, its length as UTF-8, and their number. */
type Chunk = { text: string; bytes: number; lines: number };

function chunkOf(lines: readonly string[], bytes?: number): Chunk {
  const text = `${lines.join("\n")}\n`;
  return { text, bytes: bytes ?? Buffer.byteLength(text), lines: lines.length };
}

/** The events of the log that tell what became of a generation or of an image job. */
const REQUEST_EVENTS: ReadonlySet<string> = new Set(["generate", "image"]);

/**
 * What became of every generation and image job, one JSON line each, in files of their own beside the store: the ledger stays small and is not slowed down by it
 * (reliability 3.9). Bounded by size and by age. Lines wait in memory for a moment; a crash may lose the last half second.
 */
export class RequestLog {
  readonly #settings: RequestLogSettings;
  readonly #now: () => number;
  readonly #models = new Map<string, string>();
  #waiting: string[] = [];
  #leftOut = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();
  #file: string | undefined;
  #begunAt = 0;
  #size = 0;

  /** Throws the system's error when the folder cannot be made. */
  constructor(settings: RequestLogSettings) {
    this.#settings = settings;
    this.#now = settings.now ?? Date.now;
    this.#makeFolder();
  }

  #makeFolder(): void {
    mkdirSync(this.#settings.folder, { recursive: true, mode: 0o700 });
  }

  get bodies(): boolean {
    return this.#settings.bodies;
  }

  /** Notes what became of a request. Never throws, and waits for nothing. */
  add(level: "info" | "warn" | "error", fields: Fields): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#leftOut++;
      return;
    }
    const text = JSON.stringify(this.#clean(fields));
    this.#waiting.push(`{"time":${this.#now()},"level":"${level}"${text === "{}" ? "" : ","}${text.slice(1)}`);
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS);
  }

  /** The fields with secrets taken out of texts that are not the gateway's own; the very same object where there are none. */
  #clean(fields: Fields): Fields {
    let cleaned = fields;
    for (const name in fields) {
      const value = fields[name];
      if (typeof value !== "string" || value === "" || OWN_WORDS.has(name)) continue;
      const shown = name === "model" ? this.#cleanModel(value) : this.#settings.scrub(value);
      if (shown === value) continue;
      if (cleaned === fields) cleaned = { ...fields };
      cleaned[name] = shown;
    }
    return cleaned;
  }

  #cleanModel(model: string): string {
    let shown = this.#models.get(model);
    if (shown === undefined) {
      shown = this.#settings.scrub(model);
      if (this.#models.size >= MAX_KNOWN) this.#models.clear();
      this.#models.set(model, shown);
    }
    return shown;
  }

  /** Notes a prompt and its answer, each cut to 64 Ki characters, where that is switched on. */
  addBodies(requestId: string, request: string, reply: string): void {
    const { bodies, scrub } = this.#settings;
    if (!bodies) return;
    const cut = (text: string) => scrub(text.slice(0, MAX_LOOKED_THROUGH)).slice(0, MAX_BODY).toWellFormed();
    this.add("info", { event: "bodies", request_id: requestId, request: cut(request), reply: cut(reply) });
  }

  /** Writes what waits. Resolves when it is handed to the system. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /** Removes files that are too old: called for a log to which nothing is added, since adding does so by itself. Rejects with the system's error. */
  removeOld(): Promise<void> {
    const removed = this.#writing.then(() => (existsSync(this.#settings.folder) ? this.#tidy(0) : undefined));
    // Whoever asked for it hears of the failure; lines that come later are written all the same.
    this.#writing = removed.catch(() => undefined);
    return removed;
  }

  async #write(): Promise<void> {
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    let lost = lines.length + this.#leftOut;
    if (this.#leftOut > 0) {
      lines.push(`{"time":${this.#now()},"level":"warn","event":"left-out","lines":${this.#leftOut}}`);
      this.#leftOut = 0;
    }
    try {
      for (const chunk of this.#chunks(lines)) {
        await this.#append(chunk);
        lost -= chunk.lines;
      }
    } catch (thrown) {
      // Told by the next line that can be written.
      this.#leftOut += lost;
      this.#settings.onFault(thrown);
    }
  }

  /** How much one file may hold, bytes. */
  get #room(): number {
    return Math.max(MIN_FILE_BYTES, Math.floor(this.#settings.maxBytes / FILES));
  }

  /** The lines in portions that are written at once: each fits into one file, unless a single line is longer than that. */
  *#chunks(lines: readonly string[]): Generator<Chunk> {
    const most = this.bodies ? CHUNK_LINES_WITH_BODIES : CHUNK_LINES;
    if (lines.length <= most) {
      const whole = chunkOf(lines);
      if (whole.bytes <= this.#room) {
        yield whole;
        return;
      }
    }
    let chunk: string[] = [];
    let bytes = 0;
    for (const line of lines) {
      const length = Buffer.byteLength(line) + 1;
      if (chunk.length > 0 && (chunk.length >= most || bytes + length > this.#room)) {
        yield chunkOf(chunk, bytes);
        chunk = [];
        bytes = 0;
      }
      chunk.push(line);
      bytes += length;
    }
    yield chunkOf(chunk, bytes);
  }

  async #append({ text, bytes }: Chunk): Promise<void> {
    const { folder, days } = this.#settings;
    const now = this.#now();
    const isOld = now - this.#begunAt >= (days * DAY_MS) / FILES;
    if (this.#file === undefined || this.#size + bytes > this.#room || isOld) {
      this.#begunAt = now;
      this.#makeFolder();
      // Names must sort by age. Two files may be begun within a millisecond, and the clock may have been set back, even since the last start: so each name is
      // later than the newest one that is there.
      const stamp = new Date(Math.max(now, newestStamp(folder) + 1)).toISOString().replace(/[-:.]/g, "");
      this.#file = join(folder, `requests-${stamp}.jsonl`);
      this.#size = 0;
      await this.#tidy(Math.max(this.#room, bytes));
    }
    try {
      await appendFile(this.#file, text, { mode: 0o600 });
    } catch (thrown) {
      // Somebody may have removed the folder under the running server, to have room or to keep nothing: then it is made anew.
      if (existsSync(folder)) {
        await this.#takeBack(this.#file);
        throw thrown;
      }
      this.#makeFolder();
      await appendFile(this.#file, text, { mode: 0o600 });
      this.#size = 0;
    }
    this.#size += bytes;
  }

  /**
   * Cuts the file back to what it held before a write that failed, since those lines are counted as left out. A full disk may have taken them up to the
   * middle of one, and the next line, written behind that half, could not be read either.
   */
  async #takeBack(file: string): Promise<void> {
    try {
      if (statSync(file).size > this.#size) await truncate(file, this.#size);
    } catch {
      // The failed write has been reported already. On a disk that takes nothing at all the file stays as it is.
    }
  }

  /** Removes files that are too old, and the oldest ones until the rest and `room` bytes of a new one fit into the bound. */
  async #tidy(room: number): Promise<void> {
    const { folder, maxBytes, days } = this.#settings;
    const files = fileNames(folder).map((name) => ({ path: join(folder, name), facts: statSync(join(folder, name)) }));
    let total = room + files.reduce((sum, { facts }) => sum + facts.size, 0);
    const oldest = this.#now() - days * DAY_MS;
    for (const { path, facts } of files) {
      if (total <= maxBytes && facts.mtimeMs >= oldest) continue;
      await rm(path, { force: true });
      total -= facts.size;
    }
  }
}

/** A log that also notes what became of requests, whatever its own level is. */
export function withRequestLog(log: Log, requests: RequestLog): Log {
  const noted =
    (level: "info" | "warn" | "error") =>
    (event: string, fields?: Fields): void => {
      if (fields && REQUEST_EVENTS.has(event)) requests.add(level, fields);
      log[level](event, fields);
    };
  return {
    info: noted("info"),
    warn: noted("warn"),
    error: noted("error"),
    addSecret: (value) => log.addSecret(value),
    scrub: (text) => log.scrub(text),
  };
}
