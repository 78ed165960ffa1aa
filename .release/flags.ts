/** Flags of the project's own programs: the build, the proofs, the benchmark. */
import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

/** Prints a sentence to stderr and ends the process with 2, for wrong usage. */
export function refuse(sentence: string): never {
  console.error(sentence);
  process.exit(2);
}

/** The values of `options` on the command line. `--help` prints `usage` and ends the process; anything unknown ends it with 2 and `usage`. */
export function readFlags<Options extends ParseArgsOptionsConfig>(usage: string, options: Options) {
  if (process.argv.slice(2).some((word) => word === "--help" || word === "-h")) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values;
  } catch (thrown) {
    return refuse(`${thrown instanceof Error ? thrown.message : String(thrown)}\n${usage}`);
  }
}
