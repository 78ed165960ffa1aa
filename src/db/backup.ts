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
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { randomName } from "../lib/id.ts";
import { HOUR_MS } from "../lib/spans.ts";
import { readAt, seal, unseal } from "./backup-seal.ts";
import { giveToFolderOwner } from "./folder-owner.ts";
import { isOwnStore } from "./migrations.ts";
import { openStore, type Store, withPrivateFiles } from "./open.ts";
import { StoreError, toStoreError } from "./store-error.ts";

/** How every SQLite file begins. */
const MAGIC = "SQLite format 3\0";
/** Files beside a database that hold what SQLite has not written into it yet. SQLite reads them with whatever file has the name in front, another one too. */
const NOT_TAKEN_IN = ["-wal", "-journal"] as const;
/** All files that SQLite keeps beside a database. */
const BESIDE = [...NOT_TAKEN_IN, "-shm"] as const;
const ENDINGS = ["", ...BESIDE] as const;
/** Ending of a backup's name while it is being written: one that other programs do not give to theirs. */
const PARTIAL = ".sluice.partial";
/** A partial file that nobody has written to for this long was left by a backup that was killed, ms. */
const ABANDONED_MS = HOUR_MS;

/** Makes what was written to a file, or the names in a folder, survive a loss of power. `mode`: Windows does so only for a file opened for writing. */
function sync(path: string, mode: "r+" | "r"): void {
  const file = openSync(path, mode);
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function syncFolder(path: string): void {
  // Windows opens no folder this way, and keeps names safe by itself.
  if (process.platform !== "win32") sync(path, "r");
}

function remove(path: string): void {
  // Where nothing may be written, even removing a file that is not there fails.
  for (const ending of ENDINGS) if (existsSync(path + ending)) rmSync(path + ending, { force: true });
}

/** Throws StoreError (damaged) unless every page and index of the database is sound. */
function checkWhole(database: Database, path: string): void {
  const rows = database.query("PRAGMA integrity_check(1)").values();
  if (rows[0]?.[0] === "ok") return;
  throw new StoreError("damaged", `${path} is damaged; choose another file. (${String(rows[0]?.[0]).slice(0, 200)})`);
}

/** Whether SQLite found the content of a file unsound. Its usual advice is to restore a backup, which must not be given for the backup itself. */
const isDamage = (thrown: unknown) => /^SQLITE_(?:CORRUPT|NOTADB)/.test(errorCode(thrown));

/** Throws StoreError unless `file` can be opened and is a sound store of Sluice. Messages name it `shown`, which is the name that the operator knows. */
function checkStoreFile(file: string, shown: string): void {
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

/**
 * Removes the partial files that killed backups have left in `folder`, of whichever name: the next one mostly has another, such as its day. One that is still
 * being written stays, whichever process writes it.
 */
function removeAbandoned(folder: string): void {
  const parts = readdirSync(folder).filter((name) => name.endsWith(PARTIAL));
  for (const path of parts.map((name) => join(folder, name))) {
    const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    if (touched !== undefined && Date.now() - touched > ABANDONED_MS) remove(path);
  }
}

const isTaken = (file: string) => new StoreError("unusable", `There already is a file ${file}; choose another name.`);

/** Gives `partial` the name `file`. Throws StoreError (unusable) when that is taken: of two backups to one name the one that is whole first keeps it. */
function publish(partial: string, file: string): void {
  try {
    linkSync(partial, file);
  } catch (thrown) {
    if (errorCode(thrown) === "EEXIST") throw isTaken(file);
    // Not every file system has links. Renaming does not see that a name is taken.
    renameSync(partial, file);
  }
}

/**
 * Writes a copy of the store to one file, while others may go on using the store: what they write meanwhile is not in the copy. `file` must not exist;
 * it appears only when it is whole, checked and on the disk. Throws StoreError.
 */
export function backupStore(store: Store, file: string): void {
  if (existsSync(file)) throw isTaken(file);
  // A random name: another backup to the same file may be under way.
  const partial = `${file}.${randomName(8)}${PARTIAL}`;
  try {
    removeAbandoned(dirname(file));
    withPrivateFiles(() => store.database.query("VACUUM INTO ?").run(partial));
    checkStoreFile(partial, file);
    seal(partial);
    sync(partial, "r+");
    publish(partial, file);
    remove(partial);
    syncFolder(dirname(file));
  } catch (thrown) {
    // The copy was made just now: if it is damaged, the store that it was made from is.
    throw toStoreError(thrown, isDamage(thrown) ? store.path : file);
  } finally {
    remove(partial);
  }
}

function beginsLikeSqlite(file: string): boolean {
  try {
    return readAt(file, 0, MAGIC.length).toString("latin1") === MAGIC;
  } catch (thrown) {
    throw toStoreError(thrown, file);
  }
}

/** Copies a file, writable for its owner (0600): a copy has the mode of its source, and backups are often kept read-only. */
function copyWritable(file: string, to: string): void {
  copyFileSync(file, to);
  chmodSync(to, 0o600);
}

/** Copies the backup `file` to `fresh`, beside the store, checks it whole and brings it up to this program's schema. Throws StoreError. */
function prepare(file: string, fresh: string): void {
  if (!existsSync(file)) throw new StoreError("unusable", `There is no file ${file}.`);
  if (!statSync(file).isFile() || !beginsLikeSqlite(file)) {
    throw new StoreError("unusable", `${file} is no store of Sluice: it is no database.`);
  }
  remove(fresh);
  withPrivateFiles(() => {
    copyWritable(file, fresh);
    // A store that was copied by hand may have its newest changes in the log beside it.
    if (existsSync(`${file}-wal`)) copyWritable(`${file}-wal`, `${fresh}-wal`);
  });
  const isSound = unseal(fresh);
  checkStoreFile(fresh, file);
  openStore(fresh, { brief: true }).close();
  // Last, since what else is wrong says more.
  if (!isSound)
    throw new StoreError("damaged", `${file} is damaged: it is not as it was written; choose another file.`);
}

/**
 * Keeps the store at `path` under the name `before` as well, and moves the log files beside it there. The store keeps its own name until the new file
 * takes that: whenever the power fails, there is a store.
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
  // They belong to the old store, and SQLite would read the new one together with them.
  for (const ending of BESIDE) rmSync(path + ending, { force: true });
}

/**
 * A free name under which a restore keeps the store that it replaces. What an earlier restore has kept stays: of two restores in a row the first one
 * keeps what people wrote, the second one only what the first had brought.
 */
function nameAside(path: string): string {
  const taken = (name: string) => ENDINGS.some((ending) => existsSync(name + ending));
  for (let at = 1; ; at++) {
    const name = `${path}.before-restore${at === 1 ? "" : `-${at}`}`;
    if (!taken(name)) return name;
  }
}

/** The name of the copy from which a restore makes the store at `path`. */
const restoringName = (path: string) => `${path}.restoring`;

/**
 * Removes what a restore that was killed has left beside the store at `path`: a copy as large as a store. Only for who has the data folder to itself. A copy
 * that cannot be removed stays.
 */
export function removeHalfRestored(path: string): void {
  try {
    remove(restoringName(path));
  } catch {
    // It takes room, and harms nothing else.
  }
}

/**
 * Puts `file`, a backup, in the place of the store at `path`. It is copied, checked and brought up to date first, and `check` may refuse it by
 * throwing; until then the store is not touched. The store that was there is kept under the returned name; undefined where there was none.
 * Nobody else may have the store open. Throws StoreError, and what `check` throws.
 */
export function restoreStore(file: string, path: string, check: (store: Store) => void): string | undefined {
  const fresh = restoringName(path);
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
    // Faults of the backup were thrown under its own name; everything else was done where the store is.
    throw toStoreError(thrown, path);
  } finally {
    remove(fresh);
  }
}
