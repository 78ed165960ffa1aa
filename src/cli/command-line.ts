import { type Command, CommanderError } from "commander";
import { nearest } from "../config/nearest.ts";
import { DONE, WRONG_USAGE } from "./exit-codes.ts";
import { warn } from "./output.ts";
import { createProgram } from "./program.ts";
import { VERSION } from "./version.ts";

/** The sentence that refuses a word which is not one of a command's subcommands; undefined for one that is. */
function explainUnknown({ commands }: Command, word: string): string | undefined {
  const names = commands.map((command) => command.name());
  if (names.includes(word)) return undefined;
  const meant = nearest(word, names);
  return `error: unknown command '${word}'${meant ? `\n(Did you mean ${meant}?)` : `\nThe commands are: ${names.join(", ")}.`}`;
}

/**
 * The sentence to print for a word in a command's place that is no command; undefined where there is none. Without it, commander would take a first such word
 * for an argument of `serve`, which has none, and answer one after `help` with the help of everything.
 */
function unknownCommand(program: Command, [first, second, third]: readonly string[]): string | undefined {
  const isName = (word: string | undefined): word is string => word !== undefined && !word.startsWith("-");
  if (!isName(first)) return undefined;
  if (first === "help") return isName(second) && second !== "help" ? explainUnknown(program, second) : undefined;
  const group = program.commands.find((command) => command.name() === first && command.commands.length > 0);
  if (group && second === "help") return isName(third) && third !== "help" ? explainUnknown(group, third) : undefined;
  return explainUnknown(program, first);
}

/**
 * How a line would have to stand on which options come before the command: commander takes those for `serve`'s, and the command for an argument of it.
 * Undefined for any other line.
 */
function inOrder({ commands }: Command, words: readonly string[]): string | undefined {
  if (!words[0]?.startsWith("-")) return undefined;
  const names = commands.map((command) => command.name());
  const at = words.findIndex((word) => names.includes(word));
  if (at === -1) return undefined;
  return `(The command comes before its options: ${["sluice", ...words.slice(at), ...words.slice(0, at)].join(" ")})`;
}

/** Commander ends with 1 on wrong usage, and for a group of commands without a subcommand; here that is 2. */
const codeOf = ({ exitCode }: CommanderError) => (exitCode === 0 ? DONE : WRONG_USAGE);

/**
 * Reads a command line (without program and script name) and runs its command. Resolves to the exit code, or to undefined when `serve` goes on. Rejects
 * as the command does; a fault of the line itself was printed already, and only gives the exit code.
 */
export async function runCommandLine(words: readonly string[]): Promise<number | undefined> {
  let code: number | undefined = DONE;
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
    if (!(error instanceof CommanderError)) throw error;
    const meant = error.exitCode === 0 ? undefined : inOrder(program, words);
    if (meant !== undefined) warn(meant);
    return codeOf(error);
  }
}
