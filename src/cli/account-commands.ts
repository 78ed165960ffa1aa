import { type Command, Option } from "commander";
import { type Report, withConfig, withFolder, withJson } from "./command-parts.ts";
import type {
  AccountOptions,
  CreateAccountOptions,
  DepositOptions,
  FolderOptions,
  JsonOption,
  UsageOptions,
} from "./options.ts";

const load = () => import("./accounts.ts");
const withAll = (command: Command) => withJson(withConfig(command));

/** `sluice accounts …` (contract 1). */
export function addAccounts(program: Command, report: Report): void {
  const accounts = program.command("accounts").description("accounts: create, list, show, plan, deposit");
  withAll(accounts.command("create"))
    .description("make an account")
    .argument("<name>", "a name to know it by")
    .option("--plan <plan>", "its plan (default: free)")
    .action(async (name: string, options: CreateAccountOptions) =>
      report(await (await load()).createAccount(name, options)),
    );
  withAll(accounts.command("list"))
    .description("list the accounts")
    .action(async (options: AccountOptions) => report(await (await load()).listAccounts(options)));
  withAll(accounts.command("show"))
    .description("an account's plan, wallet, window and allowances")
    .argument("<account>", "its id or name")
    .action(async (name: string, options: AccountOptions) => report(await (await load()).showAccount(name, options)));
  withAll(accounts.command("plan"))
    .description("put an account on another plan, from its next request on")
    .argument("<account>", "its id or name")
    .argument("<plan>", "the plan's id")
    .action(async (name: string, plan: string, options: AccountOptions) =>
      report(await (await load()).setPlan(name, plan, options)),
    );
  withAll(accounts.command("deposit"))
    .description("put money into an account's wallet; the same reference is booked once")
    .argument("<account>", "its id or name")
    .argument("<usd>", "the amount, such as 25 or 0.5; a correction may be negative: -- -3")
    .option("--reference <text>", "your own name for this payment (default: a random one)")
    .option("--detail <text>", "a remark")
    .option("--promotion", "it is given away: it opens no premium model")
    .option("--correction", "it rights a wrong")
    .action(async (name: string, amount: string, options: DepositOptions) =>
      report(await (await load()).deposit(name, amount, options)),
    );
}

/** `sluice usage` (contract 1). */
export function addUsage(program: Command, report: Report): void {
  const what = ["model", "key", "day", "account", "request"];
  withJson(withFolder(program.command("usage")))
    .description("usage and cost by model, key, day or account, or request by request")
    .option("--account <account>", "only this account, by id or name")
    .option("--since <time>", "how far back: 30m, 24h, 7d, 4w, or to a date such as 2026-01-31; days are UTC", "7d")
    .option("--until <time>", "and up to when, as a month that is closed: --since 2026-01-01 --until 2026-02-01")
    .addOption(new Option("--group <what>", "what to put together (default: model)").choices(what))
    .addOption(new Option("--by <what>", "the same").choices(what).hideHelp())
    .addOption(
      new Option(
        "--csv",
        "print CSV, amounts in USD with nine decimals (what `--group request` prints anyway)",
      ).conflicts("json"),
    )
    .action(async (options: UsageOptions) => report(await (await import("./usage.ts")).showUsage(options)));
}

/** `sluice backup`, `sluice restore` (contract 1). */
export function addBackup(program: Command, report: Report): void {
  withJson(withFolder(program.command("backup")))
    .description("copy the store to a file, also while a server uses it")
    .argument("<file>", "the file to write; it must not exist")
    .action(async (file: string, options: FolderOptions & JsonOption) =>
      report(await (await import("./backup.ts")).backup(file, options)),
    );
  withJson(withFolder(program.command("restore")))
    .description("put a backup in the store's place; no server may be running")
    .argument("<file>", "a file that `sluice backup` wrote")
    .action(async (file: string, options: FolderOptions & JsonOption) =>
      report(await (await import("./backup.ts")).restore(file, options)),
    );
}
