import { type Command, CommanderError } from "commander";
import { nearest } from "../config/nearest.ts";
import { DONE, WRONG_USAGE } from "./exit-codes.ts";
import { warn } from "./output.ts";
import { createProgram } from "./program.ts";
import { VERSION } from "./version.ts";

/** The sentence for a word that is none of a command's subcommands; undefined for one that is. */
function explainUnknown({ commands }: Command, word: string): string | undefined {
  const names = commands.map((command) => command.name());
  if (names.includes(word)) return undefined;
  const meant = nearest(word, names);
  return `error: unknown command '${word}'${meant ? `\n(Did you mean ${meant}?)` : `\nThe commands are: ${names.join(", ")}.`}`;
}

/**
 * A word that stands for a command and is none: as the first it would be taken for an argument of `serve`, which takes none, and after `help` it
 * would be answered by the help of everything, without a word on it. Returns the sentence to print, or undefined.
 */
function unknownCommand(program: Command, [first, second, third]: readonly string[]): string | undefined {
  const isName = (word: string | undefined): word is string => word !== undefined && !word.startsWith("-");
  if (!isName(first)) return undefined;
  if (first === "help") return isName(second) && second !== "help" ? explainUnknown(program, second) : undefined;
  const group = program.commands.find((command) => command.name() === first && command.commands.length > 0);
  if (group && second === "help") return isName(third) && third !== "help" ? explainUnknown(group, third) : undefined;
  return explainUnknown(program, first);
}

/** Commander ends with 1 on wrong usage, and for a group of commands without a subcommand; here that is 2. */
const codeOf = ({ exitCode }: CommanderError) => (exitCode === 0 ? DONE : WRONG_USAGE);

/**
 * Reads a command line (without program and script name) and runs what it asks for. Gives the exit code, or undefined when `serve` goes on. Rejects
 * as the command does; what is wrong with the line itself has been said.
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
    if (error instanceof CommanderError) return codeOf(error);
    throw error;
  }
}
