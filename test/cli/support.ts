import { buildBinary, runBinary, startBinary } from "../support/binary.ts";

/** The executable: from source each command would compile the whole program once more, which takes five times as long. */
export const COMMAND: readonly string[] = [buildBinary()];

/** Nothing is asked of this machine's own ports. */
const QUIET = { SLUICE_LOCAL_DISCOVERY: "false" };

type Env = Record<string, string>;

/** Runs a command line to its end in an empty home, with nothing of this process's environment. */
export function sluice(folder: string, args: readonly string[], env: Env = {}) {
  return runBinary(args, { folder, env: { ...QUIET, ...env } });
}

/** Starts a server and waits for its four lines. */
export function serve(folder: string, args: readonly string[] = [], env: Env = {}) {
  return startBinary(args, { folder, env: { ...QUIET, ...env } });
}
