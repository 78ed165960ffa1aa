import { join } from "node:path";
import { givenExecutable, runBinary, startBinary } from "../support/binary.ts";

const given = givenExecutable();
/** The program from source, as `npm start` runs it, or the executable that the suite is held against. */
export const COMMAND: readonly string[] = given
  ? [given]
  : [process.execPath, join(import.meta.dir, "../../src/main.ts")];

/** Nothing is asked of this machine's own ports. */
const QUIET = { SLUICE_LOCAL_DISCOVERY: "false" };

type Env = Record<string, string>;

/** Runs a command line to its end in an empty home, with nothing of this process's environment. */
export function sluice(folder: string, args: readonly string[], env: Env = {}) {
  return runBinary(args, { folder, env: { ...QUIET, ...env }, command: COMMAND });
}

/** Starts a server and waits for its four lines. */
export function serve(folder: string, args: readonly string[] = [], env: Env = {}) {
  return startBinary(args, { folder, env: { ...QUIET, ...env }, command: COMMAND });
}
