import { dirname, resolve } from "node:path";
import { findDataFolder, storePath } from "../config/data-folder.ts";
import { backupStore, restoreStore } from "../db/backup.ts";
import { lockDataFolder } from "../db/folder-lock.ts";
import { makePrivateFolder, type Store } from "../db/open.ts";
import { Writer } from "../db/writer.ts";
import { openLedger } from "../ledger/open-ledger.ts";
import { currentPlace, withBooks } from "./context.ts";
import type { FolderOptions } from "./options.ts";
import { Failure, print } from "./output.ts";

const resolveFile = (file: string) => resolve(currentPlace().workingFolder, file);

/** `sluice backup FILE`: a copy of the store as it stands, also while a server uses it (contract 1). */
export async function backup(file: string, options: FolderOptions): Promise<number> {
  const path = resolveFile(file);
  return withBooks(options, ({ store }) => {
    makePrivateFolder(dirname(path));
    backupStore(store, path);
    print(`The store is copied to ${path}.`);
    return 0;
  });
}

/** Money is not to be moved in books that are wrong: a backup whose ledger does not add up is refused. Throws Failure. */
function checkLedger(store: Store): void {
  const [breach] = openLedger(store, new Writer(store)).book.verify();
  if (breach) throw new Failure(`the ledger in this file is not right: ${breach.invariant}, ${breach.detail}`);
}

/**
 * `sluice restore FILE`: puts a backup in the store's place. Refuses a damaged or foreign file, and a folder that a server runs on; the store that
 * was there is kept beside it (contract 1).
 */
export async function restore(file: string, options: FolderOptions): Promise<number> {
  const folder = findDataFolder(options.data || process.env["SLUICE_DATA"]?.trim(), currentPlace());
  const lock = lockDataFolder(folder);
  try {
    const before = restoreStore(resolveFile(file), storePath(folder), checkLedger);
    print(`The store is restored from ${resolveFile(file)}.`);
    if (before !== undefined) print(`The one before is kept as ${before}; remove it when all is well.`);
    return 0;
  } finally {
    lock.release();
  }
}
