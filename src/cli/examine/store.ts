import { accessSync, constants, existsSync, lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { Accounts } from "../../accounts/accounts.ts";
import { Keys } from "../../accounts/keys.ts";
import { requestLogFolder, storePath } from "../../config/data-folder.ts";
import type { Config } from "../../config/load.ts";
import { isThere } from "../../db/open.ts";
import { StoreError } from "../../db/store-error.ts";
import { Writer } from "../../db/writer.ts";
import { imagesFolder } from "../../jobs/files.ts";
import type { Book } from "../../ledger/book.ts";
import { openLedger } from "../../ledger/open-ledger.ts";
import { toShellWord } from "../../lib/shell-word.ts";
import { openForCommand } from "../context.ts";
import { type Finding, fault, note, ok } from "../findings.ts";
import { findLostPlans, LOST_PLAN_ADVICE } from "../lost-plans.ts";

/**
 * Rights of other users on the data folder, what is in it and the configuration file (contract 2: files 0600, folders 0700), and folders that are none.
 */
export function examineFiles(dataFolder: string, configFile: string | undefined): Finding[] {
  if (process.platform === "win32") return [note("files", "modes of files are not checked on this system")];
  const store = storePath(dataFolder);
  const folders = [requestLogFolder(dataFolder), imagesFolder(dataFolder)];
  const paths = [dataFolder, store, `${store}-wal`, `${store}-shm`, ...folders, ...(configFile ? [configFile] : [])];
  const findings = paths.filter(existsSync).flatMap((path) => {
    if (!folders.includes(path) || statSync(path).isDirectory()) return examineMode(path, path === configFile);
    return [fault("files", `${path} is a file, not a folder`, `move ${path} away and start again`)];
  });
  return findings.length > 0 ? findings : [ok("files", "nobody else can read or write them")];
}

function examineMode(path: string, isConfig: boolean): Finding[] {
  const facts = statSync(path);
  const mode = facts.mode & 0o777;
  const user = process.geteuid?.();
  if (user !== undefined && user !== 0 && facts.uid !== user) {
    return [
      fault("files", `${path} belongs to user ${facts.uid}, not to user ${user}`, `chown ${user} ${toShellWord(path)}`),
    ];
  }
  // A configuration file may be for all to read (its keys are references); only writing it is never for others.
  if ((mode & (isConfig ? 0o022 : 0o077)) === 0) return [];
  const right = facts.isDirectory() ? "700" : "600";
  return [
    fault(
      "files",
      `${path} has mode 0${mode.toString(8)}: other users have rights on it`,
      `chmod ${right} ${toShellWord(path)}`,
    ),
  ];
}

/** Breaches that are shown one by one. */
const SHOWN_BREACHES = 10;

/** All of the ledger's invariants, over all of its entries (reliability 3.3). Where no server runs, what the last one left open is for the next start to end. */
function examineLedger(book: Book, running: boolean): Finding[] {
  const breaches = book.verify({ starting: !running });
  if (breaches.length === 0) return [ok("ledger", "every charge, balance and link is right")];
  const advice = "restore the store from a backup: sluice restore FILE";
  return breaches
    .slice(0, SHOWN_BREACHES)
    .map(({ invariant, detail }) => fault("ledger", `${invariant}: ${detail}`, advice));
}

/** A link to what is not there, such as a disk that is not mounted: nothing can be made in its place. */
function leadsNowhere(path: string): boolean {
  try {
    return !existsSync(path) && lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}

/** There is no store that can be seen: whether a start could make it. Asked of the system, since nothing is made. */
function examineAbsence(dataFolder: string): Finding {
  let place = dataFolder;
  while (!existsSync(place) && !leadsNowhere(place) && dirname(place) !== place) place = dirname(place);
  const why = `there is none, and ${place}`;
  const elsewhere = "choose another folder with --data";
  if (leadsNowhere(place)) return fault("store", `${why} is a link that leads nowhere`, elsewhere);
  // On Windows, a drive or a share.
  if (!existsSync(place)) return fault("store", `there is none, and no ${place}`, elsewhere);
  if (!statSync(place).isDirectory()) return fault("store", `${why} is a file, not a folder`, elsewhere);
  try {
    accessSync(place, constants.W_OK | constants.X_OK);
  } catch {
    return fault("store", `${why} cannot be written by this user`, `correct its owner or mode, or ${elsewhere}`);
  }
  return note("store", `not there yet: the first start makes ${storePath(dataFolder)}`);
}

/**
 * Opens the store and looks for damage, in the file and in the ledger, and for accounts on plans that are not among `figures` (undefined: nobody knows
 * the plans); also the time of its newest account or key, Unix ms. `running`: a server has the folder.
 */
export function examineStore(
  dataFolder: string,
  running: boolean,
  figures: Config["plans"] | undefined,
): { findings: Finding[]; newestAt?: number } {
  const path = storePath(dataFolder);
  try {
    if (!isThere(path)) return { findings: [examineAbsence(dataFolder)] };
    const store = openForCommand(dataFolder, true);
    try {
      const writer = new Writer(store);
      const keys = new Keys(store, writer);
      const accounts = new Accounts(store, writer, keys).list();
      const rows = keys.list();
      const now = Date.now();
      const inForce = rows.filter(
        ({ revokedAt, expiresAt }) => revokedAt === null && (expiresAt ?? now + 1) > now,
      ).length;
      const newestAt = Math.max(0, ...accounts.map((row) => row.createdAt), ...rows.map((row) => row.createdAt));
      const warnings = store.warnings.map((sentence) => fault("store", sentence));
      const summary = ok("store", `${path}: sound; accounts: ${accounts.length}, keys in force: ${inForce}`);
      const keyless = inForce === 0 ? [note("keys", "there is no key in force", "sluice keys create")] : [];
      const lost = (figures ? findLostPlans(store, figures) : []).map((line) => fault("plans", line, LOST_PLAN_ADVICE));
      const findings = [
        summary,
        ...warnings,
        ...keyless,
        ...lost,
        ...examineLedger(openLedger(store, writer).book, running),
      ];
      return { findings, newestAt };
    } finally {
      store.close();
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { findings: [fault("store", error.message)] };
  }
}
