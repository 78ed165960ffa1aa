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
/** How long until a lock is asked for again for which SQLite does not wait by itself, ms. */
const ASK_AGAIN_MS = 5;
/** How long a statement of a reader may wait, ms: readers wait only while the log is begun anew, which takes an instant. */
const READ_WAIT_MS = 200;
/**
 * Largest store that is checked whole at the start; of a larger one only the small tables are (reliability 2 #7). Some 5 ms a megabyte: a store
 * of a hundred thousand image jobs is to be open in half a second (reliability 8).
 */
const CHECKED_BYTES = 32 * 1024 * 1024;
const SMALL_TABLES = ["account", "api_key"];

export type StoreOptions = {
  /**
   * How long a statement may wait for another process's write, ms. Default 0: a waiting statement stands on the event loop
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

/** Whether a file has this name, followed where it is a link. Throws StoreError where nobody can say: what may not be looked at is not missing. */
export function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (thrown) {
    // A way that leads through a file, or round in a ring, leads to nothing.
    if (["ENOTDIR", "ELOOP"].includes(errorCode(thrown))) return false;
    throw toStoreError(thrown, path);
  }
}

/** Takes other users' rights from the store's files. Returns a sentence for each that could not be changed. */
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
 * Turns on the write-ahead log. Of two processes that do so at once in a new file each holds what the other waits for, so that SQLite lets one of them fail
 * on the spot, whatever wait is set; its next try finds it done.
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

/** reliability 2 #1. */
function setPragmas(database: Database, inMemory: boolean): void {
  turnOnLog(database, inMemory);
  setPragma(database, "synchronous", "FULL", "2");
  setPragma(database, "foreign_keys", "ON", "1");
  setPragma(database, "trusted_schema", "OFF", "0");
  setPragma(database, "cell_size_check", "ON", "1");
  // What is removed, such as a kept answer, is not left readable in the file (reliability 3.8).
  setPragma(database, "secure_delete", "ON", "1");
  if (process.platform !== "darwin") return;
  setPragma(database, "fullfsync", "ON", "1");
  setPragma(database, "checkpoint_fullfsync", "ON", "1");
}

/** Another program's database stays as it is: its tables are not joined by ours. */
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
 * SQLite opens a file for reading alone where it must, and says nothing of it before the first write (nor to BEGIN IMMEDIATE): a server would start and
 * refuse everything. This asks for all that a write needs, and writes nothing.
 */
function checkForWriting(database: Database): void {
  database.run("DELETE FROM account WHERE id = ''");
}

/**
 * Makes all that is prepared on `database` end when it is closed. A statement that is left keeps the file open: Windows neither moves nor removes an open
 * file, and Bun begins the log of one anew when the process ends. Not for a server, which would remember every statement that it ever made.
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
    // Waiting for whoever reads would keep a server beside this command from writing.
    setWait(database, 0);
    try {
      // Beginning the log anew looks like a write to a server beside this command, which reads all of its keys again then.
      const wrote = database.query("SELECT total_changes() > 0").values()[0]?.[0] === 1n;
      database.query(`PRAGMA wal_checkpoint(${wrote ? "TRUNCATE" : "PASSIVE"})`).all();
    } catch {
      // A full or broken disk. What was committed stays in the log beside the file, where the next one to open it finds it; and why a write failed was
      // told by the write.
    }
  }
  database.close();
}

/**
 * Opens a store that another process of this gateway has open, for reading alone: what that process has committed is seen by the next statement. Throws
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
      // Comes first, else two processes that open at once make each other fail (runtime.md 4).
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
