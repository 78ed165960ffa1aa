import { Command, InvalidArgumentError, Option } from "commander";
import { MODALITIES } from "../catalog/entry.ts";
import { addAccounts, addBackup, addUsage } from "./account-commands.ts";
import { type Report, withConfig, withFolder, withJson } from "./command-parts.ts";
import { addKeys, addTokens } from "./key-commands.ts";
import type { JsonOption, LogsOptions, ModelsOptions, ServeOptions } from "./options.ts";
import { startServing } from "./serving.ts";

function addServe(program: Command, report: Report): void {
  withConfig(program.command("serve", { isDefault: true }))
    .description("serve the gateway (what runs when no command is named)")
    .option("--host <host>", "address to listen on (default: 127.0.0.1)")
    .option("--port <port>", "port to listen on (default: 4600, or the next free one)")
    .option("--public-url <url>", "address clients use, when it is another one")
    .option("--cdn-url <url>", "address of the image files, when it is another one")
    .option("--workers <count>", "processes that share the work beside this one (Linux; default: 0)")
    .addOption(new Option("--as-worker").hideHelp())
    .action(async (options: ServeOptions) => report(await startServing(options)));
}

function addReports(program: Command, report: Report): void {
  withJson(withConfig(program.command("models")))
    .description("the models that can be called now")
    .addOption(new Option("--modality <modality>", "kind of model").choices([...MODALITIES, "all"]).default("chat"))
    .option("--all-models", "also those whose vendor is not switched on, and what would switch it on")
    .action(async (options: ModelsOptions) => report(await (await import("./models.ts")).showModels(options)));
  withJson(withFolder(program.command("logs")))
    .description(
      "what became of generations and image jobs: status, time to the first token, tokens, cost, tries; times are UTC",
    )
    .option("--follow", "go on with what comes")
    .option("--model <model>", "only this model ID; anthropic/* for all of a vendor's")
    .option("--status <status>", "only this status (429), its kind (5xx), an outcome, or an error's code")
    .option("--id <request>", "everything known of this request, or image job")
    .option("--since <time>", "from this time on: 30m, 24h, 7d, or a date (UTC)")
    .option("--limit <lines>", "the last so many (default: 50)")
    .action(async (options: LogsOptions) => report(await (await import("./logs.ts")).showLogs(options)));
  withJson(withConfig(program.command("doctor")))
    .description("check configuration, store, vendors, port, clock and limits, and say what to do")
    .option("--host <host>", "address `serve` would listen on")
    .option("--port <port>", "port `serve` would listen on")
    .action(async (options: ServeOptions & JsonOption) => report(await (await import("./doctor.ts")).examine(options)));
  // Its output is JSON anyway; `--json` is taken for scripts that give it to every command.
  withJson(program.command("openapi"))
    .description("print the OpenAPI document as JSON")
    .action(async () => report(await (await import("./openapi.ts")).showOpenapi()));
  withJson(program.command("version"))
    .description("version, commit, Bun and SQLite")
    .action(async (options: JsonOption) => report((await import("./version.ts")).showVersion(options)));
}

/** Returns a word as it is. Throws InvalidArgumentError for an empty one, which comes from a variable of a script that is not set. */
function readWord(word: string): string {
  if (word.trim() === "") throw new InvalidArgumentError("Expected a value, found an empty text.");
  return word;
}

/** Makes every option and argument refuse an empty word: if it counted as absent, another store, account or file would be used than was meant. */
function refuseEmptyWords(command: Command): void {
  for (const option of command.options) if (option.required && !option.parseArg) option.argParser(readWord);
  for (const argument of command.registeredArguments) if (!argument.parseArg) argument.argParser(readWord);
  for (const below of command.commands) refuseEmptyWords(below);
}

/** The whole command line (contract 1). Parsing throws CommanderError instead of ending the process. */
export function createProgram(version: string, report: Report): Command {
  const program = new Command("sluice");
  program
    .description("Every vendor's AI models behind one gate, in the OpenAI-style and the Anthropic-style dialect.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .addHelpText("after", "\n`sluice` alone is `sluice serve`; its options: `sluice serve --help`.");
  // Set before commands are added: they copy it.
  program.exitOverride().showSuggestionAfterError(true).allowExcessArguments(false);
  addServe(program, report);
  addKeys(program, report);
  addTokens(program, report);
  addAccounts(program, report);
  addUsage(program, report);
  addBackup(program, report);
  addReports(program, report);
  refuseEmptyWords(program);
  return program;
}
