import { homedir } from "node:os";
import { type Account, Accounts } from "../accounts/accounts.ts";
import { Keys } from "../accounts/keys.ts";
import { createPlans, type Plans } from "../accounts/plans.ts";
import { findDataFolder, type Place, storePath } from "../config/data-folder.ts";
import { resolveVendors } from "../config/discover.ts";
import { type Config, type LoadContext, loadConfig, loadPlans } from "../config/load.ts";
import { nearest } from "../config/nearest.ts";
import { refuseUnderServer } from "../db/folder-lock.ts";
import { isThere, openStore, type Store } from "../db/open.ts";
import { ofStore } from "../db/store-error.ts";
import { Writer } from "../db/writer.ts";
import { hideFromExcerpts } from "../dialects/scrub.ts";
import type { Book } from "../ledger/book.ts";
import { openLedger } from "../ledger/open-ledger.ts";
import { messageOf } from "../lib/message-of.ts";
import { throughProxies } from "../vendors/environment-proxy.ts";
import { fromEnvironment } from "../vendors/from-environment.ts";
import { registry } from "../vendors/registry.ts";
import type { ConfigOptions, FolderOptions, ServeOptions } from "./options.ts";
import { Failure, printWarnings, warn } from "./output.ts";
import { secretsOf } from "./secrets.ts";

/** How long a command waits while a server writes to the same store, ms. */
const WAIT_MS = 2_000;
/** The vendor inside this process (contract 10). */
export const BUILTIN_VENDORS = ["sluice"];

/** The user's home folder. "" where there is none: under an id that has no account, without HOME. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

/** This process's environment, platform and folders. */
export function currentPlace(): Place {
  return { environment: process.env, platform: process.platform, home: homeFolder(), workingFolder: process.cwd() };
}

/** The data folder of a command that reads no configuration. */
export const dataFolderOf = (options: FolderOptions): string =>
  findDataFolder(options.data || process.env["SLUICE_DATA"]?.trim(), currentPlace());

/** What a configuration is read with, this command's flags included. */
function loadContext({ host, port, data, config, publicUrl, cdnUrl }: ServeOptions): LoadContext {
  const flags = { host, port, data, config, publicUrl, cdnUrl };
  return { ...currentPlace(), flags, registryIds: registry.map((row) => row.id), builtinIds: BUILTIN_VENDORS };
}

/** The configuration by this command's flags. Throws ConfigError. */
export const readConfig = (options: ServeOptions): Config => loadConfig(loadContext(options));

/** The plans by this command's flags; nothing else of the configuration is checked. Throws ConfigError. */
export const readPlans = (options: ConfigOptions): Plans => createPlans(loadPlans(loadContext(options)));

/**
 * The vendors that configuration and environment switch on, without local servers and the built-in vendor. Throws Failure for a proxy of
 * the environment that cannot be used. From then on secrets are removed from what commands show of a vendor's words.
 */
export function readVendors(config: Config): ReturnType<typeof resolveVendors> {
  const { vendors: rows, models } = config;
  const { vendors, warnings } = resolveVendors({ registry, fromEnvironment, environment: process.env, rows, models });
  try {
    const reached = throughProxies(vendors, process.env);
    for (const secret of secretsOf(config, reached)) hideFromExcerpts(secret);
    return { vendors: reached, warnings };
  } catch (thrown) {
    throw new Failure(messageOf(thrown));
  }
}

/**
 * The store of a data folder, open for one command, whether a server runs on that folder or not: its schema is not changed while one does. `check`: a
 * damaged store is refused. Throws StoreError.
 */
export const openForCommand = (folder: string, check: boolean): Store =>
  openStore(storePath(folder), { waitMs: WAIT_MS, check, brief: true, mayMigrate: () => refuseUnderServer(folder) });

/** The books of a data folder, open for one command. */
export type Books = { store: Store; keys: Keys; accounts: Accounts; book: Book };

/** Most accounts that are listed where one is not found; of more, only the nearest is named. */
const MOST_NAMED = 20;

/** A sentence that helps a person who named an account that does not exist, given the names of those that do. */
function hintAtAccounts(wanted: string, names: readonly string[]): string {
  if (names.length <= MOST_NAMED) return `there are: ${names.join(", ") || "none"}`;
  const meant = nearest(wanted, names);
  return `${meant ? `did you mean ${meant}? ` : ""}\`sluice accounts list\` shows the ${names.length} there are`;
}

/** The account of this id or name. Throws Failure, which names accounts that exist. */
export function findAccount({ accounts }: Books, idOrName: string): Account {
  const found = accounts.find(idOrName);
  if (found) return found;
  const names = accounts.list().map((account) => account.name);
  throw new Failure(`there is no account ${JSON.stringify(idOrName)}; ${hintAtAccounts(idOrName, names)}`);
}

/**
 * Opens the store of the data folder, lets `work` use it, and closes it, whether a server runs on that folder or not. Unless `create`
 * is set, a folder without a store is a Failure: a mistyped `--data` must not become a new, empty store; with it, a sentence says that one was made.
 * `sound`: a damaged store is refused, since what is written to it would be lost when it is restored; commands that only read, or close something, try
 * all the same. Throws StoreError.
 */
export async function withBooks<T>(
  options: FolderOptions,
  work: (books: Books) => Promise<T> | T,
  { create = false, sound = create }: { create?: boolean; sound?: boolean } = {},
): Promise<T> {
  const folder = dataFolderOf(options);
  const path = storePath(folder);
  const isNew = !isThere(path);
  if (isNew && !create) {
    const made = "`sluice` makes one at its first start";
    throw new Failure(`there is no store in ${folder} yet; ${made}. A server's own folder is named with --data.`);
  }
  const store = openForCommand(folder, sound);
  const writer = new Writer(store);
  try {
    printWarnings(store.warnings);
    // Another user than the server's, such as root beside a service, has another data folder, and would get a key that no server knows.
    if (isNew) warn(`note: ${folder} had no store, and has a new one now. A server's own folder is named with --data.`);
    const keys = new Keys(store, writer);
    const { book } = openLedger(store, writer);
    return await work({ store, keys, accounts: new Accounts(store, writer, keys), book });
  } catch (thrown) {
    // The store is damaged in a part that was not read when it was opened.
    throw ofStore(thrown, path);
  } finally {
    await writer.close();
    store.close();
  }
}
