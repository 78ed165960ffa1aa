import type { RunningServer, ServerSettings } from "../server.ts";
import { WorkerPool } from "../workers/pool.ts";
import { printWarnings, WrongUsage } from "./output.ts";
import { secretsOf } from "./secrets.ts";
import { VERSION } from "./version.ts";

/** Most workers. More are no gain on any machine. */
const MOST = 256;

/** The variable that says how many requests Bun's client may have in flight, and its largest value. */
const IN_FLIGHT = "BUN_CONFIG_MAX_HTTP_REQUESTS";
const MOST_IN_FLIGHT = "65535";

/** The number of workers to start; 0 where the platform does not let two processes share a port. Throws WrongUsage for a value that is no such number. */
export function readWorkers(given: string, platform = process.platform): number {
  const count = /^\d{1,3}$/.test(given) ? Number(given) : Number.NaN;
  if (!(count <= MOST))
    throw new WrongUsage(`--workers takes a number from 0 to ${MOST}, not ${JSON.stringify(given)}.`);
  if (count === 0 || platform === "linux") return count;
  printWarnings(["only Linux lets several processes serve one port. This one serves alone."]);
  return 0;
}

/**
 * The command that starts this program once more: the executable, or the source under Bun, without reading the folder's .env again. It names the file that
 * is running, not its path: an upgrade may have put another version there.
 */
function workerCommand(): string[] {
  const source = () => [
    "--no-env-file",
    ...process.execArgv.filter((word) => word !== "--no-env-file"),
    process.argv[1]!,
  ];
  return ["/proc/self/exe", ...(Bun.isStandaloneExecutable ? [] : source()), "serve", "--as-worker"];
}

/**
 * The environment of workers. They pass requests that they do not answer themselves on through Bun's client, which by default has 256 in flight and lets
 * the others wait (runtime.md 0.2): a health check would wait behind that many slow ones.
 */
function workerEnvironment(): Record<string, string | undefined> {
  return { ...process.env, [IN_FLIGHT]: process.env[IN_FLIGHT] || MOST_IN_FLIGHT };
}

/** Starts the workers of a listening server; they end with it. Resolves when they listen too. */
export async function startWorkers(
  count: number,
  { app }: RunningServer,
  { config, store, clock, log, requests }: Omit<ServerSettings, "host" | "port">,
): Promise<void> {
  const pool = new WorkerPool({
    ...{ app, count, clock, log, requests, folder: config.dataFolder },
    secretsOf,
    command: workerCommand(),
    shownAs: process.execPath,
    environment: workerEnvironment(),
    place: { version: VERSION, host: config.server.host, port: app.gateway.server()!.port!, store: store.path },
  });
  await pool.start();
}
