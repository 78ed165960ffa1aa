import type { Account } from "../accounts/accounts.ts";
import { type Plans, planOf } from "../accounts/plans.ts";
import { serverIsRunning } from "../db/folder-lock.ts";
import { toAccountView } from "../http/account/shape.ts";
import { toAccountEntry, toPostedView } from "../http/admin/shape.ts";
import { toIso } from "../http/usage/shape.ts";
import { type Book, LedgerError, type MoneyOrder } from "../ledger/book.ts";
import { formatUsd } from "../ledger/price.ts";
import { randomName } from "../lib/id.ts";
import { type Books, dataFolderOf, findAccount, readPlans, withBooks } from "./context.ts";
import { readUsd } from "./key-limits.ts";
import type { AccountOptions, CreateAccountOptions, DepositOptions } from "./options.ts";
import { Failure, print, printJson, WrongUsage } from "./output.ts";
import { formatTable, formatTime } from "./table.ts";

/** The plan of a new account for which none is named: everything on it is bounded. */
const DEFAULT_PLAN = "free";

/** Opens the books with the plans that the configuration knows. */
function withPlans(
  options: AccountOptions,
  work: (books: Books, plans: Plans) => Promise<number> | number,
  more: { sound?: boolean } = {},
): Promise<number> {
  const plans = readPlans(options);
  return withBooks(options, (books) => work(books, plans), more);
}

/** {@link withPlans} for what changes the books: a damaged store is refused. */
const changeWithPlans: typeof withPlans = (options, work) => withPlans(options, work, { sound: true });

/** A hint where a server runs on the folder and this command was given no configuration file: an unknown plan may be in the server's. "" otherwise. */
function hintAtServersFile({ data, config }: AccountOptions): string {
  const isTold = config !== undefined || Boolean(process.env["SLUICE_CONFIG"]?.trim());
  if (isTold || !serverIsRunning(dataFolderOf({ data }))) return "";
  return "; a server runs here: if it was started with --config, so must this command be";
}

/** Throws WrongUsage for a plan that is not configured. */
function requirePlan(plans: Plans, id: string, options: AccountOptions): string {
  if (plans.has(id)) return id;
  const known = [...plans.keys()].join(", ");
  throw new WrongUsage(`there is no plan ${JSON.stringify(id)}; there are: ${known}${hintAtServersFile(options)}`);
}

/** `sluice accounts create NAME`: makes an account on a plan. */
export function createAccount(name: string, options: CreateAccountOptions): Promise<number> {
  return changeWithPlans(options, async ({ accounts }, plans) => {
    const account = await accounts.create({ name, plan: requirePlan(plans, options.plan ?? DEFAULT_PLAN, options) });
    if (options.json) printJson(toAccountEntry(account));
    else print(`Account ${account.id} (${account.name}) on plan ${account.plan}.`);
    return 0;
  });
}

/** `sluice accounts list`: all accounts, oldest first, with the balances of their wallets. `--json` prints an array, balances as exact text. */
export function listAccounts(options: AccountOptions): Promise<number> {
  return withPlans(options, ({ accounts, book }) => {
    const rows = accounts.list();
    const walletOf = ({ id }: Account) => formatUsd(book.balance(id).postedNano);
    if (options.json) {
      printJson(rows.map((row) => ({ ...toAccountEntry(row), wallet_usd: walletOf(row) })));
      return 0;
    }
    const columns = [{ title: "id" }, { title: "name" }, { title: "plan" }, { title: "created" }];
    const cells = rows.map((row) => [row.id, row.name, row.plan, formatTime(row.createdAt), walletOf(row)]);
    print(...formatTable([...columns, { title: "wallet USD", align: "right" }], cells));
    return 0;
  });
}

const orNone = (value: unknown) => (value === null || value === undefined ? "no limit" : String(value));

function describe(account: Account, plans: Plans, book: Book, options: AccountOptions): string[] {
  const { balance, window, allowances, plan } = toAccountView(account, planOf(plans, account.plan), book);
  const used = ({ used, limit }: { used: number; limit: number | null }) => `${used} of ${orNone(limit)}`;
  const rows = [
    ["id", account.id],
    ["name", account.name],
    [
      "plan",
      plans.has(account.plan)
        ? account.plan
        : `${account.plan} (not configured: treated as ${plan.id}${hintAtServersFile(options)})`,
    ],
    ["created", toIso(account.createdAt)],
    ["wallet", `${balance.usd} USD, ${balance.available_usd} USD available`],
    ["real deposit", balance.has_deposit ? "yes" : "no"],
    [
      "window",
      window
        ? `${window.available_usd} of ${window.usd} USD, ends ${window.ends_at ?? "5 h after its first use"}`
        : "none",
    ],
    ["images, 24 h", used(allowances.images)],
    ["web calls, today", used(allowances.web)],
    ["requests a minute", orNone(plan.requests_per_minute)],
  ];
  const width = Math.max(...rows.map(([title = ""]) => title.length));
  return rows.map(([title = "", value = ""]) => `${title.padEnd(width)}  ${value}`);
}

/** `sluice accounts show ACCOUNT`: plan, wallet, window and allowances. */
export function showAccount(idOrName: string, options: AccountOptions): Promise<number> {
  return withPlans(options, (books, plans) => {
    const account = findAccount(books, idOrName);
    if (options.json) printJson(toAccountView(account, planOf(plans, account.plan), books.book));
    else print(...describe(account, plans, books.book, options));
    return 0;
  });
}

/** `sluice accounts plan ACCOUNT PLAN`: counts on the next request, also of a running server. */
export function setPlan(idOrName: string, plan: string, options: AccountOptions): Promise<number> {
  return changeWithPlans(options, async (books, plans) => {
    const account = await books.accounts.setPlan(findAccount(books, idOrName).id, requirePlan(plans, plan, options));
    if (options.json) printJson(toAccountEntry(account));
    else print(`Account ${account.name} is on plan ${account.plan}.`);
    return 0;
  });
}

/** Books a deposit, or by the options a promotion or a correction. Throws with the ledger's own sentence: WrongUsage for a bad reference, else Failure. */
async function post(book: Book, order: MoneyOrder, options: DepositOptions) {
  try {
    if (options.correction) return await book.correct(order);
    return await (options.promotion ? book.promote(order) : book.deposit(order));
  } catch (thrown) {
    if (!(thrown instanceof LedgerError)) throw thrown;
    throw new (thrown.code === "bad_reference" ? WrongUsage : Failure)(thrown.message);
  }
}

/** `sluice accounts deposit ACCOUNT USD`: money into a wallet, once for each reference. */
export function deposit(idOrName: string, amount: string, options: DepositOptions): Promise<number> {
  const negative = amount.startsWith("-");
  if (negative && !options.correction) throw new WrongUsage("the amount: what takes money away is a --correction");
  const size = readUsd("the amount", negative ? amount.slice(1) : amount);
  if (options.promotion && options.correction) throw new WrongUsage("--promotion and --correction do not go together");
  return changeWithPlans(options, async (books) => {
    const { id: accountId, name } = findAccount(books, idOrName);
    const reference = options.reference ?? `command-${randomName(16)}`;
    const order = { accountId, amountNano: negative ? -size : size, reference };
    const posted = await post(books.book, { ...order, ...(options.detail && { detail: options.detail }) }, options);
    if (options.json) {
      printJson(toPostedView(posted));
      return 0;
    }
    const done = posted.repeated ? "Booked before, nothing was written" : "Booked";
    const { amountNano, kind } = posted.entry;
    print(`${done}: ${kind} of ${negative ? "-" : ""}${formatUsd(amountNano)} USD, ${name}, reference ${reference}.`);
    print(`The wallet has ${formatUsd(books.book.balance(accountId).postedNano)} USD.`);
    return 0;
  });
}
