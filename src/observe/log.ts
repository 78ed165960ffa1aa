import { fstatSync, writeSync } from "node:fs";
import { withFormsOf } from "./secret-forms.ts";

/** What a log line may hold beside level, time and event: plain values, one by one, never an object or a body. */
export type Fields = Record<string, string | number | boolean | null | undefined>;

/** The structured log: one JSON line an event, secrets removed. `event` is a fixed noun-verb name such as `request-end`. */
export type Log = {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
  /** From now on no line holds this value, plain, base64, URL-encoded or quoted in JSON. */
  addSecret(value: string): void;
  /** Text of any length with the secrets taken out, as a line of this log would have them. */
  scrub(text: string): string;
};

export const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogSettings = {
  /** The least level that is written. */
  level: LogLevel;
  /** Takes whole lines with their line feed. Default: stderr. */
  write?: (line: string) => void;
  /** Wall clock, Unix milliseconds. */
  now?: () => number;
};

/** Longest line, bytes without its line feed (reliability 7.4). */
const MAX_LINE_BYTES = 8 * 1024;
/** Longest single value, characters. */
const MAX_VALUE_CHARACTERS = 2 * 1024;
/** How much of a value is searched for secrets, characters. What is written is cut far below, so that half a secret at this bound is never shown. */
const MAX_READ_CHARACTERS = 16 * 1024;
/** Shorter values are words, not secrets: removing them would blank the log. */
const MIN_SECRET_CHARACTERS = 8;

/** How much may wait for a reader that takes nothing, characters: a log shipper that stands still must not fill the memory. */
const MAX_UNREAD = 1024 * 1024;

const STDERR = 2;
const REMOVED = "[removed]";

/** What keys of callers and vendors look like, for those that nobody has named with `addSecret` (reliability 7.4). */
const PATTERNS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|slt|gsk|xai|nvapi|pplx|csk|fw|tgp|hf|r8)[-_][A-Za-z0-9_-]{6,}/g,
  /\bAIza[A-Za-z0-9_-]{10,}/g,
  // What Google gives for a service account's key.
  /\bya29\.[\w.-]{6,}/g,
  // Many clients write the word twice.
  /\b(?:(?:Bearer|Basic)\s+)+[^\s"'\\,]+/gi,
];

/** C1 controls, DEL, the two Unicode line ends, and what hides text or turns its direction: JSON does not escape them, terminals and line readers obey them. */
const CONTROLS = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const escapeControl = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const toJson = (value: unknown) => JSON.stringify(value).replace(CONTROLS, escapeControl);

/**
 * A function that writes to stderr. Where that is a file, each line is written at once and not through the runtime's stream, which never writes again after
 * one failure. Lines are lost while the disk is full. Once there is room again the log goes on, on a new line, since half of one may have been written.
 */
function writerToStderr(): (line: string) => void {
  if (!isFile(STDERR)) return writeToStream;
  let isTorn = false;
  return (line) => {
    try {
      const bytes = Buffer.from(isTorn ? `\n${line}` : line);
      isTorn = writeSync(STDERR, bytes) < bytes.length;
    } catch {
      // There is nowhere left to say it.
    }
  };
}

let isWatched = false;
/** What waits for the stream's reader, characters, and how many lines were left out for it. */
let unread = 0;
let leftOut = 0;

/**
 * Writes a line to the runtime's stream. That is made with the first line only: it takes Bun 3 ms, which a start need not spend. Once the reader is gone,
 * lines are lost; those for which there is no room are counted, and the next line that is written is preceded by their number.
 */
function writeToStream(line: string): void {
  if (!isWatched) process.stderr.on("error", () => {});
  isWatched = true;
  if (unread > MAX_UNREAD) {
    leftOut++;
    return;
  }
  const text = leftOut > 0 ? tellLeftOut(leftOut) + line : line;
  leftOut = 0;
  unread += text.length;
  process.stderr.write(text, () => {
    unread -= text.length;
  });
}

const tellLeftOut = (lines: number): string =>
  `{"level":"error","time":"${new Date().toISOString()}","event":"left-out","lines":${lines}}\n`;

function isFile(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isFile();
  } catch {
    // It is closed, and nothing can be written to it.
    return false;
  }
}

/** A log that writes JSON lines of at most 8 KiB (reliability 7.4). Fields that do not fit are left out, and `truncated` says so. */
export function createLog(settings: LogSettings): Log {
  const least = LOG_LEVELS.indexOf(settings.level);
  const write = settings.write ?? writerToStderr();
  const now = settings.now ?? Date.now;
  let secrets: readonly string[] = [];

  const scrub = (text: string): string => {
    let shown = text;
    for (const secret of secrets) if (shown.includes(secret)) shown = shown.replaceAll(secret, REMOVED);
    for (const pattern of PATTERNS) shown = shown.replace(pattern, REMOVED);
    return shown;
  };

  const clean = (text: string): string => {
    const shown = scrub(text.slice(0, MAX_READ_CHARACTERS));
    return shown.length > MAX_VALUE_CHARACTERS ? `${shown.slice(0, MAX_VALUE_CHARACTERS - 1).toWellFormed()}…` : shown;
  };

  const emit = (level: LogLevel, event: string, fields: Fields = {}): void => {
    if (LOG_LEVELS.indexOf(level) < least) return;
    let line = `{"level":${toJson(level)},"time":${toJson(new Date(now()).toISOString())},"event":${toJson(clean(event).slice(0, 100))}`;
    const room = MAX_LINE_BYTES - '"truncated":true'.length - 2;
    let length = Buffer.byteLength(line);
    for (const [name, value] of Object.entries(fields)) {
      if (value === undefined) continue;
      const field = `,${toJson(name)}:${toJson(typeof value === "string" ? clean(value) : value)}`;
      const bytes = Buffer.byteLength(field);
      if (length + bytes > room) {
        line += ',"truncated":true';
        break;
      }
      line += field;
      length += bytes;
    }
    write(`${line}}\n`);
  };

  return {
    scrub,
    info: (event, fields) => emit("info", event, fields),
    warn: (event, fields) => emit("warn", event, fields),
    error: (event, fields) => emit("error", event, fields),
    addSecret(value) {
      if (value.length >= MIN_SECRET_CHARACTERS) secrets = withFormsOf(value, secrets);
    },
  };
}

/** A log that says nothing. */
export const silentLog: Log = createLog({ level: "silent" });

function describe(thrown: unknown): string {
  if (thrown instanceof Error) {
    const said = `${thrown.name}: ${thrown.message}`;
    // Some errors say in their code alone what is the matter, as those of a bucket do.
    const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
    return said.includes(code) ? said : `${said} (${code})`;
  }
  return typeof thrown === "string" ? thrown : Bun.inspect(thrown, { depth: 2 });
}

/** Anything thrown as fields of a log line: what it says, and where. */
export function errorFields(thrown: unknown): Fields {
  if (!(thrown instanceof Error)) return { error: describe(thrown) };
  const { stack, cause } = thrown;
  return { error: describe(thrown), stack, cause: cause === undefined ? undefined : describe(cause) };
}
