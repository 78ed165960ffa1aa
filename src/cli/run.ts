import { type Command, CommanderError } from "commander";
import { ConfigError } from "../config/faults.ts";
import { nearest } from "../config/nearest.ts";
import { outliveReaders, WrongUsage, warn } from "./output.ts";
import { createProgram } from "./program.ts";
import { VERSION } from "./version.ts";

/** Exit codes (contract 1). */
export const DONE = 0;
export const FAILED = 1;
export const WRONG_USAGE = 2;

/**
 * A first word that is no command: without this it would be taken for an argument of `serve`, which takes none.
 * Returns the sentence to print, or undefined.
 */
function unknownCommand(program: Command, words: readonly string[]): string | undefined {
  const first = words[0];
  if (first === undefined || first.startsWith("-") || first === "help") return undefined;
  const names = program.commands.map((command) => command.name());
  if (names.includes(first)) return undefined;
  const meant = nearest(first, names);
  return `error: unknown command '${first}'${meant ? `\n(Did you mean ${meant}?)` : `\nThe commands are: ${names.join(", ")}.`}`;
}

/** `sluice`, `sluice serve`, and either with flags. */
const isServing = ([first]: readonly string[]): boolean =>
  first === undefined || first === "serve" || first.startsWith("-");

/** Commander ends with 1 on wrong usage, and for a group of commands without a subcommand; here that is 2. */
function codeOf(error: CommanderError): number {
  return error.exitCode === 0 ? DONE : WRONG_USAGE;
}

/** Errors whose message is a sentence for the operator. By name, so that a command without a store does not load one. */
const EXPLAINED = new Set(["Failure", "WrongUsage", "StoreError", "AccountError"]);

/** Says what went wrong, for a person, and returns the exit code. */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return codeOf(error);
  if (error instanceof ConfigError) {
    for (const line of error.lines) warn(`error: ${line}`);
    return error.fromFlags ? WRONG_USAGE : FAILED;
  }
  if (error instanceof Error && EXPLAINED.has(error.name)) {
    warn(`error: ${error.message}`);
    return error instanceof WrongUsage ? WRONG_USAGE : FAILED;
  }
  warn(`error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return FAILED;
}

/** Runs one command line (without program and script name). Gives the exit code, or undefined when `serve` goes on. Never throws. */
export async function run(words: readonly string[]): Promise<number | undefined> {
  let code: number | undefined = DONE;
  outliveReaders(!isServing(words));
  const program = createProgram(VERSION, (reported) => {
    code = reported;
  });
  const unknown = unknownCommand(program, words);
  if (unknown !== undefined) {
    warn(unknown);
    return WRONG_USAGE;
  }
  try {
    await program.parseAsync([...words], { from: "user" });
    return code;
  } catch (error) {
    return explain(error);
  }
}
