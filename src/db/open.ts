import { Database } from "bun:sqlite";
import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";
import { errorCode } from "../lib/error-code.ts";
import { isObject } from "../lib/json.ts";
import { messageOf } from "../lib/message-of.ts";
import { giveToFolderOwner } from "./folder-owner.ts";
import { isOwnStore, migrate } from "./migrations.ts";
import * as schema from "./schema.ts";
import { StoreError, toStoreError } from "./store-error.ts";

/** How long opening may wait for another process, ms: nothing is served yet, so waiting harms nobody. */
const OPEN_WAIT_MS = 2_000;
/** Pause before the next try for a lock for which SQLite does not wait by itself, ms. */
const ASK_AGAIN_MS = 5;
/** How long a statement of a reader may wait, ms: readers wait only while the write-ahead log is started anew, which takes an instant. */
const READ_WAIT_MS = 200;
/**
 * Largest store that is checked whole at the start, bytes; of a larger one only {@link SMALL_TABLES} are (reliability 2 #7). A check takes some 5 ms a
 * megabyte, and a store of a hundred thousand image jobs is to be open in half a second (reliability 8).
 */
const CHECKED_BYTES = 32 * 1024 * 1024;
const SMALL_TABLES = ["account", "api_key"];
/**
 * Most that the file of the write-ahead log takes once it has begun anew, bytes: it grows for as long as somebody reads, as a backup of a large store does for
 * minutes, and would keep that size until the gateway is stopped. It is some 4 MB else, which are written over and over.
 */
const LARGEST_LOG_LEFT = 16 * 1024 * 1024;

export type StoreOptions = {
  /**
   * How long a statement may wait for another process's write, ms. Default 0: a statement that waits blocks the event loop
   * (reliability 2 #4), and the writer tries again by itself. A command that does one thing and ends takes 2,000.
   */
  waitMs?: number;
  /** Look for damage, and for a file that cannot be written. Default true; a command that only reads, or beside a running server, can leave it out. */
  check?: boolean;
  /** Asked before the schema of an older version's store is changed; throws where it may not be. */
  mayMigrate?: () => void;
  /** For a command beside a server, and for a store whose file is moved or removed afterwards: see {@link endStatementsWith}. */
  brief?: boolean;
};

/** The one open connection to the store. */
export type Store = {
  readonly path: string;
  readonly database: Database;
  readonly query: BunSQLiteDatabase<typeof schema>;
  /** Plain sentences about what is not as it should be, though it works: for the log and the doctor. */
  readonly warnings: readonly string[];
  /** Moves the write-ahead log into the file and closes it. Safe to call twice. */
  close(): void;
};

/** Runs `work` with a umask of 077, so that every file it makes is the user's own from its first moment. */
export function withPrivateFiles<T>(work: () => T): T {
  const before = process.umask(0o077);
  try {
    return work();
  } finally {
    process.umask(before);
  }
}

/** Makes a folder and its missing parents with mode 0700; one that exists keeps its mode. Throws StoreError. */
export function makePrivateFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (thrown) {
    throw toStoreError(thrown, path);
  }
}

/** Whether there is a file at `path`; links are followed. Throws StoreError where that cannot be told: what may not be looked at need not be missing. */
export function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (thrown) {
    // A path that goes through a file, or through links in a ring, leads to no file.
    if (["ENOTDIR", "ELOOP"].includes(errorCode(thrown))) return false;
    throw toStoreError(thrown, path);
  }
}

/** Takes other users' rights from the store's files (not on Windows). Returns a sentence for each that could not be changed. */
function tightenFiles(path: string): string[] {
  const warnings: string[] = [];
  if (process.platform === "win32") return warnings;
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    if (!existsSync(file) || (statSync(file).mode & 0o077) === 0) continue;
    try {
      chmodSync(file, 0o600);
    } catch (thrown) {
      const reason = messageOf(thrown);
      warnings.push(`Other users may read ${file}, and its permissions cannot be changed: ${reason}.`);
    }
  }
  return warnings;
}

function readPragma(database: Database, name: string): string {
  const row = database.query(`PRAGMA ${name}`).get();
  return isObject(row) ? String(Object.values(row)[0]) : "";
}

/** Sets a pragma and reads it back: SQLite says nothing when it does not take a value. */
function setPragma(database: Database, name: string, value: string, expected: string): void {
  // Run to its end, since some pragmas answer with a row.
  database.query(`PRAGMA ${name} = ${value}`).all();
  const found = readPragma(database, name);
  if (found !== expected) throw new StoreError("unusable", `SQLite refused ${name} = ${value}: it stays ${found}.`);
}

function setWait(database: Database, waitMs: number): void {
  const wait = readPragma(database, `busy_timeout = ${waitMs}`);
  if (wait !== String(waitMs)) throw new StoreError("unusable", `SQLite refused to wait ${waitMs} ms for a lock.`);
}

/**
 * Turns on the write-ahead log. When two processes do so at once in a new file, each holds what the other waits for, and SQLite fails one of them at once,
 * whatever wait is set. That one tries again, for {@link OPEN_WAIT_MS} at the most, and finds it done.
 */
function turnOnLog(database: Database, inMemory: boolean): void {
  const until = performance.now() + OPEN_WAIT_MS;
  for (;;) {
    try {
      setPragma(database, "journal_mode", "WAL", inMemory ? "memory" : "wal");
      return;
    } catch (thrown) {
      if (!errorCode(thrown).startsWith("SQLITE_BUSY") || performance.now() >= until) throw thrown;
    }
    Bun.sleepSync(ASK_AGAIN_MS);
  }
}

/** Sets how every connection that writes works (reliability 2 #1). Throws StoreError (unusable) for a value that SQLite does not take. */
function setPragmas(database: Database, inMemory: boolean): void {
  turnOnLog(database, inMemory);
  setPragma(database, "synchronous", "FULL", "2");
  setPragma(database, "journal_size_limit", String(LARGEST_LOG_LEFT), String(LARGEST_LOG_LEFT));
  setPragma(database, "foreign_keys", "ON", "1");
  setPragma(database, "trusted_schema", "OFF", "0");
  setPragma(database, "cell_size_check", "ON", "1");
  // What is removed, such as a kept answer, is not left readable in the file (reliability 3.8).
  setPragma(database, "secure_delete", "ON", "1");
  if (process.platform !== "darwin") return;
  setPragma(database, "fullfsync", "ON", "1");
  setPragma(database, "checkpoint_fullfsync", "ON", "1");
}

/** Throws StoreError (unusable) for another program's database, before any table of ours is made in it. */
function checkForStranger(database: Database, path: string): void {
  // No table was ever made in it.
  const isNew = readPragma(database, "schema_version") === "0";
  if (isNew || isOwnStore(database)) return;
  throw new StoreError("unusable", `${path} is a database, but no store of Sluice.`);
}

function checkForDamage(database: Database, path: string): void {
  const small = path === ":memory:" || statSync(path).size <= CHECKED_BYTES;
  const known = (table: string) => database.query("SELECT 1 FROM sqlite_schema WHERE name = ?").get(table) !== null;
  const pragmas = small ? ["quick_check(1)"] : SMALL_TABLES.filter(known).map((table) => `quick_check(${table})`);
  for (const pragma of pragmas) {
    const found = readPragma(database, pragma);
    if (found === "ok") continue;
    const [first = ""] = found.split("\n").filter((line) => !line.startsWith("***"));
    throw new StoreError("damaged", `The store ${path} is damaged; restore it from a backup. (${first.slice(0, 200)})`);
  }
}

/**
 * Throws SQLite's error where the store cannot be written. Without the right to write SQLite opens a file for reading alone, and says so at the first
 * write only (not at BEGIN IMMEDIATE): a server would start and refuse everything. This statement needs all that a write needs, and changes nothing.
 */
function checkForWriting(database: Database): void {
  database.run("DELETE FROM account WHERE id = ''");
}

/**
 * Makes all statements that are prepared on `database` end when it is closed. One that is left keeps the file open: Windows neither moves nor removes an
 * open file, and Bun starts the log of one anew when the process ends. Not for a server, which would remember every statement that it ever made.
 */
function endStatementsWith(database: Database): void {
  const made: { finalize(): void }[] = [];
  const prepare = database.prepare.bind(database) as (...args: unknown[]) => { finalize(): void };
  const close = database.close.bind(database);
  const remember = (...args: unknown[]) => {
    const statement = prepare(...args);
    made.push(statement);
    return statement;
  };
  database.prepare = remember as Database["prepare"];
  database.close = (throwOnError) => {
    for (const statement of made.splice(0)) statement.finalize();
    close(throwOnError);
  };
}

function closeStore(database: Database, path: string): void {
  if (path !== ":memory:") {
    // While this waited for readers, a server beside this command could not write.
    setWait(database, 0);
    try {
      // Only for a log that holds writes of ours: to a server beside this command starting it anew looks like a write, and all keys are read again.
      const wrote = database.query("SELECT total_changes() > 0").values()[0]?.[0] === 1n;
      database.query(`PRAGMA wal_checkpoint(${wrote ? "TRUNCATE" : "PASSIVE"})`).all();
    } catch {
      // A full or broken disk. What was committed stays in the log beside the file, where the next process to open it finds it; and a write that failed
      // has thrown its own error.
    }
  }
  database.close();
}

/**
 * Opens a store for reading alone that another process of this gateway has open: each statement sees all that was committed before it. Throws
 * {@link StoreError}.
 */
export function openReader(path: string): Store {
  try {
    const database = new Database(path, { readonly: true, strict: true, safeIntegers: true });
    setWait(database, READ_WAIT_MS);
    return { path, database, query: drizzle(database, { schema }), warnings: [], close: () => database.close() };
  } catch (thrown) {
    throw toStoreError(thrown, path);
  }
}

/**
 * Opens the store at `path`, a file that is made when it is missing (folder 0700, file 0600: contract 2), or `":memory:"`, and brings
 * its schema up to date. Throws {@link StoreError} with a sentence for the operator: in use, damaged, not writable, disk full, or
 * written by a newer version.
 */
export function openStore(path: string, options: StoreOptions = {}): Store {
  const inMemory = path === ":memory:";
  if (!inMemory) makePrivateFolder(dirname(path));
  const isNew = !inMemory && !existsSync(path);
  let database: Database | undefined;
  try {
    const opened = withPrivateFiles(() => {
      database = new Database(path, { create: true, readwrite: true, strict: true, safeIntegers: true });
      if (options.brief) endStatementsWith(database);
      // Comes first: otherwise two processes that open it at once make each other fail (runtime.md 4).
      setWait(database, OPEN_WAIT_MS);
      checkForStranger(database, path);
      setPragmas(database, inMemory);
      const checked = options.check ?? true;
      if (checked) checkForDamage(database, path);
      migrate(database, undefined, options.mayMigrate);
      if (checked) checkForWriting(database);
      return database;
    });
    if (isNew) giveToFolderOwner(path, `${path}-wal`, `${path}-shm`);
    const warnings = inMemory ? [] : tightenFiles(path);
    setWait(opened, options.waitMs ?? 0);
    let open = true;
    return {
      path,
      database: opened,
      query: drizzle(opened, { schema }),
      warnings,
      close() {
        if (!open) return;
        open = false;
        closeStore(opened, path);
      },
    };
  } catch (thrown) {
    database?.close();
    throw toStoreError(thrown, path);
  }
}
