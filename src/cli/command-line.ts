import { type Command, CommanderError } from "commander";
import { nearest } from "../config/nearest.ts";
import { DONE, WRONG_USAGE } from "./exit-codes.ts";
import { warn } from "./output.ts";
import { createProgram } from "./program.ts";
import { VERSION } from "./version.ts";

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
