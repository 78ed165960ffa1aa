import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { giveToFolderOwner } from "./folder-owner.ts";
import { makePrivateFolder, withPrivateFiles } from "./open.ts";
import { StoreError, toStoreError } from "./store-error.ts";

/** A data folder that is this process's own. */
export type FolderLock = {
  /** Lets another server have the folder. Safe to call twice; the system does it when the process dies, however it dies. */
  release(): void;
};

/** How long to wait for the lock, ms. {@link serverIsRunning} of another process takes it for an instant, and must not pass for a server. */
const ASK_MS = 100;

/** Locks in force. Without this the garbage collector would close a connection that nobody asks again, and free the folder. */
const held = new Set<Database>();

/** Added to whatever keeps a server from its folder: not all of it can be put right, such as a home folder that may not be written to. */
const ELSEWHERE = "Put that right, or choose another folder with --data or SLUICE_DATA.";

const withAdvice = (fault: unknown): unknown =>
  fault instanceof StoreError ? new StoreError(fault.fault, `${fault.message} ${ELSEWHERE}`, fault.cause) : fault;

/**
 * Takes `folder` for one server: an exclusive transaction on the small file `sluice.lock` in it, held until `release` or the end of
 * the process, so that no stale lock can be left behind (reliability 3.9). The store itself stays open to commands of other processes.
 * Nothing else in this process may open that file: closing it again would drop the lock. Throws StoreError (locked) when another
 * server has the folder.
 */
export function lockDataFolder(folder: string): FolderLock {
  try {
    makePrivateFolder(folder);
  } catch (thrown) {
    throw withAdvice(thrown);
  }
  const path = join(folder, "sluice.lock");
  const isNew = !existsSync(path);
  let database: Database | undefined;
  try {
    const opened = withPrivateFiles(() => {
      database = new Database(path, { create: true, readwrite: true, strict: true });
      database.run(`PRAGMA busy_timeout = ${ASK_MS}`);
      database.run("BEGIN EXCLUSIVE");
      return database;
    });
    held.add(opened);
    if (isNew) giveToFolderOwner(path, `${path}-journal`);
    return {
      release() {
        if (!held.delete(opened)) return;
        opened.run("ROLLBACK");
        opened.close();
      },
    };
  } catch (thrown) {
    database?.close();
    if (!errorCode(thrown).startsWith("SQLITE_BUSY")) throw withAdvice(toStoreError(thrown, path));
    throw new StoreError(
      "locked",
      `Another Sluice server is already running on the data folder ${folder}. Stop it, or choose another folder with --data.`,
      thrown,
    );
  }
}

/** Whether a server has the data folder now. False also where the lock cannot be tried, for lack of rights for instance. */
export function serverIsRunning(dataFolder: string): boolean {
  if (!existsSync(dataFolder)) return false;
  try {
    lockDataFolder(dataFolder).release();
    return false;
  } catch (error) {
    return error instanceof StoreError && error.fault === "locked";
  }
}

/**
 * Throws StoreError (locked) while a server runs on `folder`. Called before the schema of its store is changed: such a server is of an older version, does
 * not know the newer schema, and could not even be started again.
 */
export function refuseUnderServer(folder: string): void {
  if (!serverIsRunning(folder)) return;
  throw new StoreError(
    "locked",
    `The server that runs on the data folder ${folder} is of an older version. Start it again with this program first; until then use its own.`,
  );
}
