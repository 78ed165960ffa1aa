import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Carried, carryKeys } from "../accounts/carry-keys.ts";
import { storePath } from "../config/data-folder.ts";
import { backupStore, restoreStore } from "../db/backup.ts";
import { lockDataFolder } from "../db/folder-lock.ts";
import { makePrivateFolder, openStore, type Store } from "../db/open.ts";
import { Writer } from "../db/writer.ts";
import { imagesFolder, pathOfImage } from "../jobs/files.ts";
import { JobStore } from "../jobs/store.ts";
import { openLedger } from "../ledger/open-ledger.ts";
import { KEY_FILE } from "../relay/reasoning/seal.ts";
import { currentPlace, dataFolderOf, withBooks } from "./context.ts";
import type { FolderOptions, JsonOption } from "./options.ts";
import { Failure, print, printJson, warn } from "./output.ts";

/** Most images whose files are looked for after a restore; where there are more, a sentence says that files may be missing. */
const MOST_LOOKED_FOR = 100_000;

const resolveFile = (file: string) => resolve(currentPlace().workingFolder, file);
const count = (many: number, one: string) => `${many} ${many === 1 ? one : `${one}s`}`;

/** Names of the files of a store's images. */
const imagesOf = (store: Store): string[] => new JobStore(store).finishedFiles(MOST_LOOKED_FOR);

/** Sentences on what a copy of the store does not hold; none where nothing is missing. */
function leftOut(store: Store): string[] {
  const folder = dirname(store.path);
  const sentences: string[] = [];
  const images = imagesOf(store).length;
  if (images > 0 && existsSync(imagesFolder(folder))) {
    const what = images === MOST_LOOKED_FOR ? "image files" : `the files of ${count(images, "image")}`;
    sentences.push(`Not in it: ${what}. Copy the folder ${imagesFolder(folder)} too.`);
  }
  if (existsSync(join(folder, KEY_FILE))) {
    const what = `the key that kept reasoning is sealed with, ${join(folder, KEY_FILE)}`;
    sentences.push(`Not in it: ${what}. Without it that reasoning, of a day at most, is forgotten.`);
  }
  return sentences;
}

/** `sluice backup FILE`: makes a copy of the store, also while a server uses it (contract 1), and says what is not in it. */
export async function backup(file: string, options: FolderOptions & JsonOption): Promise<number> {
  const path = resolveFile(file);
  return withBooks(options, ({ store }) => {
    makePrivateFolder(dirname(path));
    backupStore(store, path);
    const notes = leftOut(store);
    if (options.json) printJson({ file: path, notes });
    else print(`The store is copied to ${path}.`, ...notes);
    return 0;
  });
}

/**
 * Refuses a backup whose ledger does not add up: no money may be moved in books that are wrong. Requests that were under way when it was made do not count:
 * the next start closes them, however long ago that was. Throws Failure.
 */
function checkLedger(store: Store): void {
  const [breach] = openLedger(store, new Writer(store)).book.verify({ starting: true });
  if (breach) throw new Failure(`the ledger in this file is not right: ${breach.invariant}, ${breach.detail}`);
}

/** What the store before knew: what became of its keys, and its images. */
type Before = Carried & { images: readonly string[] };

/** {@link carryKeys} from the store at `path`; why not, where it cannot be read. */
function carryFrom(path: string, older: Store): Before | Error {
  try {
    const newer = openStore(path, { check: false, brief: true });
    try {
      return { ...carryKeys(newer, older, Date.now()), images: imagesOf(newer) };
    } finally {
      newer.close();
    }
  } catch (thrown) {
    // A store that is restored because it is broken: what can still be told is told.
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

/** What became of the keys, in sentences. Undefined: no store was there before. */
function describeKeys(carried: Carried | Error | undefined): string[] {
  if (carried === undefined || carried instanceof Error) {
    const why = carried === undefined ? "No store was here before" : "The store before could not be read";
    return [
      `${why}: keys that were revoked or limited after the backup work again as before. \`sluice keys list\` shows those in force.`,
    ];
  }
  const sentences: string[] = [];
  const { revoked, limited, missing } = carried;
  if (revoked > 0) sentences.push(`${count(revoked, "key")} revoked since the backup: revoked in it too.`);
  if (limited > 0) sentences.push(`${count(limited, "key")} limited otherwise since the backup: so in it too.`);
  if (missing > 0)
    sentences.push(`${count(missing, "key")} made since the backup: gone, with all that was written since.`);
  return sentences;
}

/** Images of the restored store whose files are not in the folder, in a sentence; none where all are there. */
function describeImages(dataFolder: string, images: readonly string[]): string[] {
  const place = imagesFolder(dataFolder);
  const missing = images.filter((file) => !existsSync(pathOfImage(place, file))).length;
  if (missing === 0) return [];
  const sentence = `The files of ${count(missing, "image")} are not in ${place}: a backup does not hold them.`;
  return [`${sentence} Copy that folder back, unless they are kept in a bucket.`];
}

/** Images that the restored store knows nothing of, in a sentence; none where there are none. A server takes their files for left by a crash. */
function describeUnknown(dataFolder: string, before: readonly string[], images: readonly string[]): string[] {
  const known = new Set(images);
  const unknown = before.filter((file) => !known.has(file)).length;
  // Of a list that is not whole nobody knows what is missing in it.
  if (unknown === 0 || images.length === MOST_LOOKED_FOR) return [];
  const sentence = `The files of ${count(unknown, "image")} made since the backup are removed by a server soon after its start,`;
  const place = `from ${imagesFolder(dataFolder)} or the bucket that they are kept in.`;
  return [`${sentence} ${place} Copy them first where you may want the store before again.`];
}

/**
 * `sluice restore FILE`: puts a backup in the store's place. Refuses a damaged or foreign file, and a folder that a server runs on; the store that
 * was there is kept beside it (contract 1), and what was revoked or limited in it stays so.
 */
export async function restore(file: string, options: FolderOptions & JsonOption): Promise<number> {
  const folder = dataFolderOf(options);
  const lock = lockDataFolder(folder);
  try {
    const path = storePath(folder);
    const from = resolveFile(file);
    let carried: Before | Error | undefined;
    let images: string[] = [];
    const before = restoreStore(from, path, (store) => {
      checkLedger(store);
      if (existsSync(path)) carried = carryFrom(path, store);
      images = imagesOf(store);
    });
    const known = carried === undefined || carried instanceof Error ? [] : carried.images;
    const notes = [
      ...[...describeKeys(carried), ...describeImages(folder, images)],
      ...describeUnknown(folder, known, images),
    ];
    if (options.json) {
      printJson({ file: from, store: path, before: before ?? null, notes });
      return 0;
    }
    print(`The store is restored from ${from}.`);
    if (before !== undefined) print(`The one before is kept as ${before}; remove it when all is well.`);
    for (const sentence of notes) warn(sentence);
    return 0;
  } finally {
    lock.release();
  }
}
