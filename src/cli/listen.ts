import { type RunningServer, type ServerSettings, startServer } from "../server.ts";
import { Failure, warn } from "./output.ts";
import { choosePort, explainPort, PORTS_TRIED, readListenFault } from "./port.ts";

/**
 * Listens on the wanted port or, when nobody chose it, on the next free one. It is only looked for when listening has failed: a look
 * listens for an instant, and a client that knocks just then may wait a second. Throws Failure with a sentence when there is none.
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
  // A port that is shared could be had beside any other server of this user: it has to be looked at first.
  const first = sharesPort(parts) ? await findSharedPort(host, wanted, portWasGiven) : wanted;
  for (let attempt = 0, port = first; ; attempt++) {
    try {
      const server = await startServer({ ...parts, host, port });
      if (port !== wanted) warn(`Port ${wanted} is taken; listening on ${port} instead.`);
      return server;
    } catch (error) {
      const choice = choosePort(host, port, portWasGiven);
      if ("fault" in choice) throw new Failure(choice.fault);
      // The port is free: whoever had it is gone again, or something else failed.
      if (choice.port === port && readListenFault(error) !== "taken") throw error;
      if (attempt >= PORTS_TRIED) throw new Failure(explainPort("taken", host, port));
      port = choice.port;
    }
  }
}

/** How long a port that was given may still be taken by workers of a server that was killed, ms, and how often it is looked at. */
const LEAVING_MS = 2_000;
const LOOK_MS = 50;

/** A name of this machine's alone, which is nobody's again when its process ends (Linux: no file stands for it). */
const TURN = "\0sluice-listens";

/**
 * Has one server at a time look for a port to share and listen on it: of two that look at once each would find it free, and both would have it. Undefined
 * where there is no such name, or whoever has it stands still.
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

/** A port that nobody has. Throws Failure with a sentence when there is none. */
async function findSharedPort(host: string, wanted: number, given: boolean): Promise<number> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const choice = choosePort(host, wanted, given);
    if ("port" in choice) return choice.port;
    if (!given || waitedMs >= LEAVING_MS) throw new Failure(choice.fault);
    await Bun.sleep(LOOK_MS);
  }
}
