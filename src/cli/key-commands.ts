import type { Command } from "commander";
import { type Report, withFolder, withJson } from "./command-parts.ts";
import type { ChangeKeyOptions, CreateKeyOptions, CreateTokenOptions, FolderOptions, JsonOption } from "./options.ts";

/** What a key can be limited to; on `change`, `none` takes a limit away. */
const withLimits = (command: Command) =>
  command
    .option("--expires <time>", "how long it counts: 12h, 30d, 4w, or until a date such as 2027-01-31 begins (UTC)")
    .option("--models <patterns>", "models it may call, by ID or pattern, separated by commas: openai/*,sluice/echo")
    .option(
      "--endpoints <scopes>",
      "what it may be used for, separated by commas: chat,messages,responses,images,images:read,web,account,translate",
    )
    .option("--cap-usd-day <amount>", "most that it may cost in a UTC day, USD")
    .option("--cap-usd <amount>", "most that it may cost in all, USD")
    .option("--cap-requests-day <count>", "most requests in a UTC day");

/** `sluice keys …` (contract 1). */
export function addKeys(program: Command, report: Report): void {
  const keys = program.command("keys").description("API keys: create, list, rename, change, revoke");
  withLimits(withJson(withFolder(keys.command("create"))))
    .description("make a key and show it once")
    .option("--name <name>", "a name to know it by")
    .option("--account <account>", "id or name of the account it is for (default: local)")
    .option("--admin", "a key for /admin/v1 only")
    .action(async (options: CreateKeyOptions) => report(await (await import("./keys.ts")).createKey(options)));
  withJson(withFolder(keys.command("list")))
    .description("list the keys; the keys themselves are not stored")
    .action(async (options: FolderOptions & JsonOption) => report(await (await import("./keys.ts")).listKeys(options)));
  withJson(withFolder(keys.command("rename")))
    .description("give a key another name")
    .argument("<id>", "the key's id, as `sluice keys list` shows it")
    .argument("<name>", "the new name")
    .action(async (id: string, name: string, options: FolderOptions & JsonOption) =>
      report(await (await import("./keys.ts")).renameKey(id, name, options)),
    );
  withLimits(withJson(withFolder(keys.command("change"))))
    .description("change what a key may do, from the next request on; `none` takes a limit away")
    .argument("<id>", "the key's id, as `sluice keys list` shows it")
    .option("--name <name>", "another name")
    .action(async (id: string, options: ChangeKeyOptions) =>
      report(await (await import("./keys.ts")).changeKey(id, options)),
    );
  withJson(withFolder(keys.command("revoke")))
    .description("revoke a key, from the next request on")
    .argument("<id>", "the key's id, as `sluice keys list` shows it")
    .action(async (id: string, options: FolderOptions & JsonOption) =>
      report(await (await import("./keys.ts")).revokeKey(id, options)),
    );
}

/** `sluice tokens …` (contract 1 and 4). */
export function addTokens(program: Command, report: Report): void {
  const tokens = program
    .command("tokens")
    .description("narrow tokens, for clients that cannot send headers: create, list, revoke");
  withJson(withFolder(tokens.command("create")))
    .description("make a token and show it once")
    .option("--name <name>", "a name to know it by")
    .option("--account <account>", "id or name of the account it is for (default: local)")
    .option("--scopes <scopes>", "what it is for: web, images:read, or both separated by a comma (default: web)")
    .option(
      "--expires <time>",
      "how long it counts, 90 days at the most: 12h, 30d, or until a date begins (UTC) (default: 30d)",
    )
    .option("--cap-requests-day <count>", "most calls in a UTC day, or none (default: 1000)")
    .action(async (options: CreateTokenOptions) => report(await (await import("./tokens.ts")).createToken(options)));
  withJson(withFolder(tokens.command("list")))
    .description("list the tokens; the tokens themselves are not stored")
    .action(async (options: FolderOptions & JsonOption) =>
      report(await (await import("./tokens.ts")).listTokens(options)),
    );
  withJson(withFolder(tokens.command("revoke")))
    .description("revoke a token, from the next request on")
    .argument("<id>", "the token's id, as `sluice tokens list` shows it")
    .action(async (id: string, options: FolderOptions & JsonOption) =>
      report(await (await import("./keys.ts")).revokeKey(id, options)),
    );
}
