import type { Account } from "../accounts/accounts.ts";
import type { KeyRow } from "../accounts/keys.ts";
import { type Books, withBooks } from "./context.ts";
import type { CreateKeyOptions, FolderOptions, JsonOption } from "./options.ts";
import { Failure, formatTable, formatTime, print, printJson, warn } from "./output.ts";

/** The account that is meant when none is named (contract 4). */
const LOCAL = "local";

/** The account of this id or name; `local` is made when there is none at all, as the first start would. */
async function findAccount({ accounts }: Books, wanted = LOCAL): Promise<Account> {
  const found = accounts.find(wanted);
  if (found) return found;
  if (wanted === LOCAL && accounts.list().length === 0) return accounts.create({ name: LOCAL, plan: LOCAL });
  const known = accounts.list().map((account) => account.name);
  throw new Failure(`there is no account ${JSON.stringify(wanted)}; there are: ${known.join(", ") || "none"}`);
}

/** `sluice keys create`: makes a key and shows it this once. `--json` prints {id, key, name, account} (contract 1). */
export async function createKey(options: CreateKeyOptions): Promise<number> {
  return withBooks(
    options,
    async (books) => {
      const account = await findAccount(books, options.account);
      const kind = options.admin ? "admin" : "api";
      const name = options.name ?? (options.admin ? "admin" : "key");
      const { id, key } = await books.keys.create({ accountId: account.id, name, kind });
      if (options.json) printJson({ id, key, name, account: account.id });
      else {
        print(key);
        warn(`${options.admin ? "Admin key" : "Key"} ${id} of account ${account.name}. It is not shown again.`);
      }
      return 0;
    },
    { create: true },
  );
}

const toPublic = (row: KeyRow, accounts: ReadonlyMap<string, string>) => ({
  id: row.id,
  name: row.name,
  account: row.accountId,
  account_name: accounts.get(row.accountId) ?? null,
  kind: row.kind,
  prefix: row.prefix,
  last4: row.last4,
  created_at: toIso(row.createdAt),
  last_used_at: toIso(row.lastUsedAt),
  revoked_at: toIso(row.revokedAt),
});

const toIso = (at: number | null) => (at === null ? null : new Date(at).toISOString());

/** `sluice keys list`: all keys, revoked ones included, oldest first. */
export async function listKeys(options: FolderOptions & JsonOption): Promise<number> {
  return withBooks(options, ({ keys, accounts }) => {
    const names = new Map(accounts.list().map((account) => [account.id, account.name]));
    const rows = keys.list();
    if (options.json) {
      printJson(rows.map((row) => toPublic(row, names)));
      return 0;
    }
    const titles = ["id", "name", "account", "kind", "key", "created", "last used", "state"];
    const cells = rows.map((row) => [
      row.id,
      row.name,
      names.get(row.accountId) ?? row.accountId,
      row.kind,
      `${row.prefix}…${row.last4}`,
      formatTime(row.createdAt),
      row.lastUsedAt === null ? "never" : formatTime(row.lastUsedAt),
      row.revokedAt === null ? "in force" : `revoked ${formatTime(row.revokedAt)}`,
    ]);
    print(
      ...formatTable(
        titles.map((title) => ({ title })),
        cells,
      ),
    );
    return 0;
  });
}

/** `sluice keys revoke`: the key stops counting on the next request (contract 4). */
export async function revokeKey(name: string, options: FolderOptions): Promise<number> {
  return withBooks(options, async ({ keys }) => {
    const row = await keys.revoke(name);
    print(`Revoked ${row.id} (${row.name}, ${row.prefix}…${row.last4}).`);
    return 0;
  });
}
