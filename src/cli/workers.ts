import type { RunningServer, ServerSettings } from "../server.ts";
import { WorkerPool } from "../workers/pool.ts";
import { printWarnings, WrongUsage } from "./output.ts";
import { secretsOf } from "./secrets.ts";
import { VERSION } from "./version.ts";

/** More processes than this are no gain on any machine. */
const MOST = 256;

/** Bun's own setting of how many requests its client may have in flight; and the most it takes. */
const IN_FLIGHT = "BUN_CONFIG_MAX_HTTP_REQUESTS";
const MOST_IN_FLIGHT = "65535";

/** The number of workers that was asked for; 0 where the platform lets no two processes share a port. Throws WrongUsage for what is no number. */
export function readWorkers(given: string, platform = process.platform): number {
  const count = /^\d{1,3}$/.test(given) ? Number(given) : Number.NaN;
  if (!(count <= MOST))
    throw new WrongUsage(`--workers takes a number from 0 to ${MOST}, not ${JSON.stringify(given)}.`);
  if (count === 0 || platform === "linux") return count;
  printWarnings(["only Linux lets several processes serve one port. This one serves alone."]);
  return 0;
}

/**
 * How this program is started once more: the executable, or the source under Bun, whose folder's .env was read before. By the running program's own
 * file, not by its path: an upgrade may have put another version there.
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
 * The environment of workers. Through Bun's client they pass on what they do not answer themselves, and by itself it has 256 requests in flight and lets
 * the others wait without a word (runtime.md 0.2): behind so many slow ones a health check would.
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
