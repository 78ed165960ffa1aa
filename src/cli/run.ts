import type { ConfigError } from "../config/faults.ts";
import { FAILED, WRONG_USAGE } from "./exit-codes.ts";
import { outliveReaders, warn } from "./output.ts";
import { readServeWords, startServing } from "./serving.ts";

/** Flags that ask about the program itself, which ends with the answer. */
const QUESTIONS: ReadonlySet<string> = new Set(["-h", "--help", "-V", "--version"]);

/** `sluice`, `sluice serve`, and either with flags. */
function isServing(words: readonly string[]): boolean {
  const [first] = words;
  return (
    (first === undefined || first === "serve" || first.startsWith("-")) && !words.some((word) => QUESTIONS.has(word))
  );
}

/** Errors whose message is a sentence for the operator. By name, so that a command without a store does not load their modules. */
const EXPLAINED = new Set(["Failure", "WrongUsage", "StoreError", "AccountError", "BadWish"]);
/** Those of them that mean wrong usage: the command line itself is at fault. */
const USAGE = new Set(["WrongUsage", "BadWish"]);

/** By name as well: what checks a configuration is not loaded for saying what is wrong with it. */
const isConfigError = (error: unknown): error is ConfigError => error instanceof Error && error.name === "ConfigError";

/** Prints what went wrong, for a person, and returns the exit code. */
function explain(error: unknown): number {
  if (isConfigError(error)) {
    for (const line of error.lines) warn(`error: ${line}`);
    return error.fromFlags ? WRONG_USAGE : FAILED;
  }
  if (error instanceof Error && EXPLAINED.has(error.name)) {
    warn(`error: ${error.message}`);
    return USAGE.has(error.name) ? WRONG_USAGE : FAILED;
  }
  warn(`error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return FAILED;
}

/** Runs one command line (without program and script name). Resolves to the exit code, or to undefined when `serve` goes on. Never rejects. */
export async function run(words: readonly string[]): Promise<number | undefined> {
  outliveReaders(!isServing(words));
  try {
    const options = readServeWords(words);
    if (options) return await startServing(options);
    return await (await import("./command-line.ts")).runCommandLine(words);
  } catch (error) {
    return explain(error);
  }
}
