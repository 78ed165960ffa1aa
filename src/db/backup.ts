import { Database } from "bun:sqlite";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { randomName } from "../lib/id.ts";
import { HOUR_MS } from "../lib/spans.ts";
import { giveToFolderOwner } from "./folder-owner.ts";
import { isOwnStore } from "./migrations.ts";
import { openStore, type Store, withPrivateFiles } from "./open.ts";
import { StoreError, toStoreError } from "./store-error.ts";

/** How every SQLite file begins. */
const MAGIC = "SQLite format 3\0";
/** What SQLite keeps of a database that is not in its file yet, and reads with whatever file it finds beside it. */
const NOT_TAKEN_IN = ["-wal", "-journal"] as const;
const ENDINGS = ["", ...NOT_TAKEN_IN, "-shm"] as const;
/** How the name of a backup ends that is not whole yet. */
const PARTIAL = ".partial";
/** A part that nobody has written to for so long is of a backup that was killed, ms. */
const ABANDONED_MS = HOUR_MS;

/** Makes what was written to a file, or named in a folder, survive a loss of power. Windows does that only for who may write to it. */
function sync(path: string, mode: "r+" | "r"): void {
  const file = openSync(path, mode);
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function syncFolder(path: string): void {
  // A folder cannot be opened there; names in it are safe by themselves.
  if (process.platform !== "win32") sync(path, "r");
}

function remove(path: string): void {
  // Where nothing may be written, what is not there cannot be removed either.
  for (const ending of ENDINGS) if (existsSync(path + ending)) rmSync(path + ending, { force: true });
}

/** Throws StoreError (damaged) unless every page and index of the database is sound. */
function checkWhole(database: Database, path: string): void {
  const rows = database.query("PRAGMA integrity_check(1)").values();
  if (rows[0]?.[0] === "ok") return;
  throw new StoreError("damaged", `${path} is damaged; choose another file. (${String(rows[0]?.[0]).slice(0, 200)})`);
}

/** What SQLite says of pages that make no sense; whoever is told to restore a backup then must not be told so of the backup itself. */
const isDamage = (thrown: unknown) => /^SQLITE_(?:CORRUPT|NOTADB)/.test(errorCode(thrown));

/** A connection to `file`, for looking at it; whatever is wrong with it is told of the name `shown`. */
function look(file: string, shown: string): void {
  let database: Database | undefined;
  try {
    database = new Database(file, { readwrite: true, strict: true, safeIntegers: true });
    checkWhole(database, shown);
    if (!isOwnStore(database)) throw new StoreError("unusable", `${shown} is a database, but no store of Sluice.`);
  } catch (thrown) {
    if (isDamage(thrown)) throw new StoreError("damaged", `${shown} is damaged; choose another file.`, thrown);
    throw toStoreError(thrown, shown);
  } finally {
    database?.close();
  }
}

/** Removes what killed backups to `file` have left; a part that is being written stays, whoever writes it. */
function removeAbandoned(file: string): void {
  const folder = dirname(file);
  const parts = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith(PARTIAL));
  for (const path of parts.map((name) => join(folder, name))) {
    const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    if (touched !== undefined && Date.now() - touched > ABANDONED_MS) remove(path);
  }
}

const isTaken = (file: string) => new StoreError("unusable", `There already is a file ${file}; choose another name.`);

/** Gives `partial` the name `file`, unless somebody has it: of two backups to one name the first that is whole. */
function publish(partial: string, file: string): void {
  try {
    linkSync(partial, file);
  } catch (thrown) {
    if (errorCode(thrown) === "EEXIST") throw isTaken(file);
    // Not every file system has links.
    renameSync(partial, file);
  }
}

/**
 * A copy of the store as it stands, in one file, while others use it: what is written meanwhile is not in it. The file must not exist; it appears
 * when it is whole, checked and on the disk. Throws StoreError.
 */
export function backupStore(store: Store, file: string): void {
  if (existsSync(file)) throw isTaken(file);
  // A name of its own: another backup to this file may be under way.
  const partial = `${file}.${randomName(8)}${PARTIAL}`;
  try {
    removeAbandoned(file);
    withPrivateFiles(() => store.database.query("VACUUM INTO ?").run(partial));
    look(partial, file);
    sync(partial, "r+");
    publish(partial, file);
    remove(partial);
    syncFolder(dirname(file));
  } catch (thrown) {
    // The copy is new: what is damaged is what it was made of.
    throw toStoreError(thrown, isDamage(thrown) ? store.path : file);
  } finally {
    remove(partial);
  }
}

function beginsLikeSqlite(file: string): boolean {
  const head = Buffer.alloc(MAGIC.length);
  let opened: number | undefined;
  try {
    opened = openSync(file, "r");
    return readSync(opened, head, 0, head.length, 0) === head.length && head.toString("latin1") === MAGIC;
  } catch (thrown) {
    throw toStoreError(thrown, file);
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

/** A copy that its owner may write to: it would have the mode of the file, and backups are kept so that nobody changes them. */
function copyWritable(file: string, to: string): void {
  copyFileSync(file, to);
  chmodSync(to, 0o600);
}

/** A copy of `file` beside the store, checked whole and brought up to this program's schema. */
function prepare(file: string, fresh: string): void {
  if (!existsSync(file)) throw new StoreError("unusable", `There is no file ${file}.`);
  if (!statSync(file).isFile() || !beginsLikeSqlite(file)) {
    throw new StoreError("unusable", `${file} is no store of Sluice: it is no database.`);
  }
  remove(fresh);
  withPrivateFiles(() => {
    copyWritable(file, fresh);
    // A store that was copied by hand may have its newest part here.
    if (existsSync(`${file}-wal`)) copyWritable(`${file}-wal`, `${fresh}-wal`);
  });
  look(fresh, file);
  openStore(fresh, { brief: true }).close();
}

/**
 * Another name for the store's file, and a copy of what it has not taken in yet. The name it is known by stays until the new file takes it:
 * whenever the power fails, there is a store.
 */
function keepAside(path: string, before: string): void {
  try {
    linkSync(path, before);
  } catch {
    // Not every file system has links.
    copyFileSync(path, before);
    giveToFolderOwner(before);
  }
  for (const ending of NOT_TAKEN_IN.filter((ending) => existsSync(path + ending))) {
    copyFileSync(path + ending, before + ending);
    giveToFolderOwner(before + ending);
  }
  // They belong to the old file: the new one must not be read with them.
  for (const ending of [...NOT_TAKEN_IN, "-shm"]) rmSync(path + ending, { force: true });
}

/**
 * A name for the store that a restore takes the place of. One that is kept already stays: of two restores in a row the first has put aside what people
 * wrote, the second only what the first had brought.
 */
function nameAside(path: string): string {
  const taken = (name: string) => ENDINGS.some((ending) => existsSync(name + ending));
  for (let at = 1; ; at++) {
    const name = `${path}.before-restore${at === 1 ? "" : `-${at}`}`;
    if (!taken(name)) return name;
  }
}

/**
 * Puts `file`, a backup, in the place of the store at `path`. It is copied, checked and brought up to date first, and `check` may refuse it by
 * throwing; until then the store is not touched. The store that was there is kept under the returned name; undefined where there was none.
 * Nobody else may have the store open. Throws StoreError, and what `check` throws.
 */
export function restoreStore(file: string, path: string, check: (store: Store) => void): string | undefined {
  const fresh = `${path}.restoring`;
  const before = existsSync(path) ? nameAside(path) : undefined;
  try {
    prepare(file, fresh);
    const store = openStore(fresh, { brief: true });
    try {
      check(store);
    } finally {
      store.close();
    }
    sync(fresh, "r+");
    giveToFolderOwner(fresh);
    if (before !== undefined) keepAside(path, before);
    renameSync(fresh, path);
    syncFolder(dirname(path));
    return before;
  } catch (thrown) {
    // What is wrong with the backup was told of it: all else is written where the store is.
    throw toStoreError(thrown, path);
  } finally {
    remove(fresh);
  }
}
