import { type Account, LOCAL } from "../accounts/accounts.ts";
import type { KeyRow } from "../accounts/key-row.ts";
import type { CreatedKey, KeyChange, NewKey } from "../accounts/keys.ts";
import { toKeyView } from "../http/admin/shape.ts";
import { type Books, findAccount, withBooks } from "./context.ts";
import { describeLimits, describeState, readLimits } from "./key-limits.ts";
import type { ChangeKeyOptions, CreateKeyOptions, FolderOptions, JsonOption } from "./options.ts";
import { print, printJson, WrongUsage, warn } from "./output.ts";
import { formatTable, formatTime } from "./table.ts";

/** Whether a key for this account may make a new store. Only one for `local` may, as the first start makes it: no other account can exist yet. */
export const mayBegin = (wanted: string | undefined): boolean => wanted === undefined || wanted === LOCAL;

/**
 * Makes a key or token for the account of this id or name. Where no API key was ever made, `local` is made with it if it is not there yet, as the first start
 * would: both or neither. Throws Failure for an account that is not there, and AccountError.
 */
export async function makeKeyFor(
  books: Books,
  wanted: string | undefined,
  key: Omit<NewKey, "accountId">,
): Promise<{ account: Account; key: CreatedKey }> {
  const idOrName = wanted ?? LOCAL;
  const first = idOrName === LOCAL ? await books.accounts.ensureLocal(key) : undefined;
  if (first) return first;
  const account = findAccount(books, idOrName);
  return { account, key: await books.keys.create({ accountId: account.id, ...key }) };
}

/** `sluice keys create`: makes a key, which is shown this once. `--json` prints {id, key, name, account} (contract 1). */
export async function createKey(options: CreateKeyOptions): Promise<number> {
  const limits = readLimits(options, Date.now());
  return withBooks(
    options,
    async (books) => {
      const kind = options.admin ? "admin" : "api";
      const name = options.name ?? (options.admin ? "admin" : "key");
      const { account, key: created } = await makeKeyFor(books, options.account, { name, kind, ...limits });
      const { id, key } = created;
      if (options.json) printJson({ id, key, name, account: account.id });
      else {
        print(key);
        warn(`${options.admin ? "Admin key" : "Key"} ${id} of account ${account.name}. It is not shown again.`);
      }
      return 0;
    },
    { create: mayBegin(options.account), sound: true },
  );
}

/** A key or token in `--json`: as the admin API shows it, with its account's name beside the id. */
function toPublic(row: KeyRow, accounts: ReadonlyMap<string, string>) {
  const { object: _object, ...view } = toKeyView(row);
  return { ...view, account_name: accounts.get(row.accountId) ?? null };
}

const accountNames = ({ accounts }: Books) => new Map(accounts.list().map((account) => [account.id, account.name]));

/** Keys or tokens, oldest first, as a table or as JSON. */
export function printKeys(rows: readonly KeyRow[], books: Books, json: boolean | undefined): void {
  const names = accountNames(books);
  if (json) {
    printJson(rows.map((row) => toPublic(row, names)));
    return;
  }
  const titles = ["id", "name", "account", "kind", "key", "created", "last used", "state", "limits"];
  const now = Date.now();
  const cells = rows.map((row) => [
    row.id,
    row.name,
    names.get(row.accountId) ?? row.accountId,
    row.kind,
    `${row.prefix}…${row.last4}`,
    formatTime(row.createdAt),
    row.lastUsedAt === null ? "never" : formatTime(row.lastUsedAt),
    describeState(row, now),
    describeLimits(row),
  ]);
  const columns = titles.map((title) => ({ title }));
  print(...formatTable(columns, cells));
}

/** `sluice keys list`: all keys, revoked and expired ones included, oldest first. */
export async function listKeys(options: FolderOptions & JsonOption): Promise<number> {
  return withBooks(options, (books) => {
    printKeys(books.keys.list(), books, options.json);
    return 0;
  });
}

async function change(name: string, wanted: KeyChange, options: FolderOptions & JsonOption): Promise<number> {
  return withBooks(options, async (books) => {
    const row = await books.keys.change(name, wanted);
    if (options.json) printJson(toPublic(row, accountNames(books)));
    else print(`${row.id} (${row.name}): ${describeState(row, Date.now())}; limits: ${describeLimits(row)}.`);
    return 0;
  });
}

/** `sluice keys rename`: gives a key or token another name. */
export function renameKey(name: string, to: string, options: FolderOptions & JsonOption): Promise<number> {
  return change(name, { name: to }, options);
}

/** `sluice keys change`: changes a key's limits from the next request on; `none` removes one. Throws WrongUsage when no change is given. */
export async function changeKey(name: string, options: ChangeKeyOptions): Promise<number> {
  const wanted: KeyChange = readLimits(options, Date.now());
  if (options.name !== undefined) wanted.name = options.name;
  if (Object.keys(wanted).length === 0) throw new WrongUsage("say what to change: --expires, --models, --cap-usd, …");
  return change(name, wanted, options);
}

/** `sluice keys revoke`: the key stops counting on the next request (contract 4). */
export async function revokeKey(name: string, options: FolderOptions & JsonOption): Promise<number> {
  return withBooks(options, async (books) => {
    const row = await books.keys.revoke(name);
    if (options.json) printJson(toPublic(row, accountNames(books)));
    else print(`Revoked ${row.id} (${row.name}, ${row.prefix}…${row.last4}).`);
    return 0;
  });
}
