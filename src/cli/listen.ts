import { type RunningServer, type ServerSettings, startServer } from "../server.ts";
import { Failure, warn } from "./output.ts";
import { choosePort, explainPort, PORTS_TRIED, readListenFault } from "./port.ts";

/**
 * Listens on the wanted port or, where nobody chose it, on the next free one. That is looked for only after listening has failed: to look
 * means to listen for an instant, and a client that connects just then may wait a second. Throws Failure with a sentence when there is none.
 */
export async function listen(parts: Omit<ServerSettings, "host" | "port">): Promise<RunningServer> {
  const turn = sharesPort(parts) ? await takeTurn() : undefined;
  try {
    return await listenAlone(parts);
  } finally {
    turn?.stop(true);
  }
}

const sharesPort = ({ processes = 1 }: Pick<ServerSettings, "processes">): boolean => processes > 1;

async function listenAlone(parts: Omit<ServerSettings, "host" | "port">): Promise<RunningServer> {
  const { host, port: wanted, portWasGiven } = parts.config.server;
  // A port can be shared with any other server of this user without an error: whether it is free must be checked first.
  const first = sharesPort(parts) ? await findSharedPort(host, wanted, portWasGiven) : wanted;
  for (let attempt = 0, port = first; ; attempt++) {
    try {
      const server = await startServer({ ...parts, host, port });
      if (port !== wanted) warn(`Port ${wanted} is taken; listening on ${port} instead.`);
      return server;
    } catch (error) {
      const choice = choosePort(host, port, portWasGiven);
      if ("fault" in choice) throw new Failure(choice.fault);
      // The port is free now: the program that had it has ended, or something else failed.
      if (choice.port === port && readListenFault(error) !== "taken") throw error;
      if (attempt >= PORTS_TRIED) throw new Failure(explainPort("taken", host, port));
      port = choice.port;
    }
  }
}

/** How long a given port is waited for, which workers of a killed server may still hold, and how often it is tried meanwhile, ms. */
const LEAVING_MS = 2_000;
const LOOK_MS = 50;

/** The name of a socket that exists on this machine alone, and is free again when its process ends (on Linux such a name has no file). */
const TURN = "\0sluice-listens";

/**
 * A lock, so that one server at a time looks for a port to share and listens on it: of two at once each would find it free, and both would listen. Undefined
 * where the system has no such names, or another process holds the lock for too long.
 */
async function takeTurn(): Promise<{ stop(force: boolean): void } | undefined> {
  for (let waitedMs = 0; waitedMs < LEAVING_MS; waitedMs += LOOK_MS) {
    try {
      return Bun.listen({ unix: TURN, socket: { data() {} } });
    } catch (error) {
      if (readListenFault(error) !== "taken") return undefined;
      await Bun.sleep(LOOK_MS);
    }
  }
  return undefined;
}

/** A port that is free. Throws Failure with a sentence when there is none. */
async function findSharedPort(host: string, wanted: number, given: boolean): Promise<number> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const choice = choosePort(host, wanted, given);
    if ("port" in choice) return choice.port;
    if (!given || waitedMs >= LEAVING_MS) throw new Failure(choice.fault);
    await Bun.sleep(LOOK_MS);
  }
}
