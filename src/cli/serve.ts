import { join } from "node:path";
import { Accounts } from "../accounts/accounts.ts";
import { requestLogFolder, storePath } from "../config/data-folder.ts";
import { localCandidates } from "../config/discover.ts";
import type { Config } from "../config/load.ts";
import { type FolderLock, lockDataFolder } from "../db/folder-lock.ts";
import { openStore, type Store } from "../db/open.ts";
import { ofStore } from "../db/store-error.ts";
import { Writer } from "../db/writer.ts";
import { systemClock } from "../lib/clock.ts";
import { messageOf } from "../lib/message-of.ts";
import { createLog, errorFields, type Log } from "../observe/log.ts";
import { RequestLog } from "../observe/request-log.ts";
import { outliveFaults } from "../observe/unhandled.ts";
import type { RunningServer } from "../server.ts";
import { type LocalServer, probeLocal } from "../vendors/probe-local.ts";
import { registry } from "../vendors/registry.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { readConfig, readVendors } from "./context.ts";
import { formatFirstLines } from "./first-lines.ts";
import { listen } from "./listen.ts";
import { findLostPlans } from "./lost-plans.ts";
import type { ServeOptions } from "./options.ts";
import { printFirst, printWarnings, warn } from "./output.ts";
import { systemCode } from "./port.ts";
import { type Hangup, hearHangup, keepReloading } from "./reload.ts";
import { secretsOf } from "./secrets.ts";
import { VERSION } from "./version.ts";

/** What a running server holds, to be given back in reverse order. */
type Running = {
  server: RunningServer;
  store: Store;
  lock: FolderLock;
  log: Log;
  requests: RequestLog | undefined;
  /** Ends the watch on the configuration. */
  stopReloading?: () => void;
  /** A signal has told it to end; a second one, at once. */
  stopping?: boolean;
  hurried?: boolean;
};

function createServerLog(config: Config, vendors: readonly Vendor[]): Log {
  const log = createLog({ level: config.logLevel });
  addSecrets(log, config, vendors);
  return log;
}

/** No line of the log holds a secret from now on. */
function addSecrets(log: Log, config: Config, vendors: readonly Vendor[]): void {
  for (const secret of secretsOf(config, vendors)) log.addSecret(secret);
}

/** How long a fault that goes on is not told again, ms: lines are written twice a second, and a disk is full for longer. */
const TELL_AGAIN_MS = 60_000;

/** The files in which requests are noted, unless the configuration says no. Without them the server works all the same. */
function openRequestLog(config: Config, log: Log): RequestLog | undefined {
  const settings = config.records.requestLog;
  if (!settings) return undefined;
  const folder = requestLogFolder(config.dataFolder);
  let told: { code: string; at: number } | undefined;
  const tell = (thrown: unknown, until: string) => {
    const code = systemCode(thrown);
    if (told?.code === code && performance.now() - told.at < TELL_AGAIN_MS) return;
    told = { code, at: performance.now() };
    const sentence = `Requests are not noted until ${until}: ${folder} cannot be written (${code}). \`sluice doctor\` may say why.`;
    log.error("request-log", code === "" ? errorFields(thrown) : { error: sentence });
  };
  try {
    const onFault = (thrown: unknown) => tell(thrown, "they can be");
    return new RequestLog({ ...settings, folder, scrub: log.scrub, onFault });
  } catch (thrown) {
    tell(thrown, "the next start");
    return undefined;
  }
}

/**
 * The key of a first start, made when nothing stands between it and its line any more: a start that fails, or is ended while it looks for model
 * servers, must not use up its one showing.
 */
async function makeFirstKey({ server, store }: Running): Promise<string | undefined> {
  if (Accounts.hadApiKey(store)) return undefined;
  const writer = new Writer(store);
  const made = await new Accounts(store, writer, server.app.keys).ensureLocal();
  await writer.close();
  return made?.key.key;
}

async function close({ server, store, lock, requests, stopReloading }: Running): Promise<void> {
  stopReloading?.();
  await server.stop();
  await requests?.flush();
  store.close();
  lock.release();
}

/** Exit code of a process that a second signal ended at once. */
const ENDED_AT_ONCE = 130;

/** What is cut off by a second signal has so long to be written down, ms: of what no money is held for, nothing else knows. */
const AT_ONCE_MS = 1_000;

function endAtOnce(running: Running): void {
  if (running.hurried) process.exit(ENDED_AT_ONCE);
  running.hurried = true;
  setTimeout(() => process.exit(ENDED_AT_ONCE), AT_ONCE_MS);
  running.server.hurry();
}

/** What tells other servers to begin new log files, say. It means nothing here, and would end a process that does not hear it, with all that runs. */
const WITHOUT_MEANING = ["SIGUSR1", "SIGUSR2"] as const;

/** The first signal lets running answers end and closes the books; the second cuts them off, and the third ends the process where it stands. */
function stopOnSignals(running: Running): void {
  const onSignal = async () => {
    if (running.stopping) return endAtOnce(running);
    running.stopping = true;
    if (running.server.app.atWork() > 0) warn("Stopping: running answers may end. A second signal ends at once.");
    try {
      await close(running);
      process.exit(running.hurried ? ENDED_AT_ONCE : 0);
    } catch (error) {
      warn(`error: ${messageOf(error)}`);
      process.exit(1);
    }
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
}

/** Takes over what changes in the configuration (contract 2), with the flags this server was started with. */
function startReloading(
  options: ServeOptions,
  config: Config,
  { server, log, store }: Running,
  hangup: Hangup,
): Promise<() => void> {
  const read = () => {
    const next = readConfig(options);
    const { vendors, warnings } = readVendors(next);
    return { config: next, vendors, warnings: [...warnings, ...findLostPlans(store, next.plans)] };
  };
  return keepReloading({
    ...{ server, log, config, read, hangup, clock: systemClock },
    addSecrets: (next, vendors) => addSecrets(log, next, vendors),
  });
}

/**
 * The model servers of this machine. They are asked once this one listens, so that nobody waits for a silent port, and never at the
 * port of `url`: this gateway would find itself.
 */
function findLocalServers(vendors: readonly Vendor[], url: string): Promise<LocalServer[]> {
  const own = new URL(url).port;
  return probeLocal(localCandidates(registry, vendors).filter((row) => new URL(row.baseUrl).port !== own));
}

/** Wildcard addresses are for listening, not for asking: the request to try goes to loopback. */
const askable = (url: string) => url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");

/** Starts what belongs to a server that listens already; it is stopped when that fails. */
async function startBeside(server: RunningServer, begin: () => Promise<void>): Promise<void> {
  try {
    await begin();
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Takes the data folder and starts listening, and the workers. Whatever was taken is given back when a later step fails. */
async function start(config: Config, vendors: readonly Vendor[], workers: number): Promise<Running> {
  const lock = lockDataFolder(config.dataFolder);
  const path = storePath(config.dataFolder);
  let store: Store | undefined;
  try {
    store = openStore(path);
    printWarnings(store.warnings);
    const log = createServerLog(config, vendors);
    outliveFaults(log);
    const requests = openRequestLog(config, log);
    const parts = { config, vendors, store, clock: systemClock, log, requests, version: VERSION };
    const server = await listen({ ...parts, processes: workers + 1 });
    if (workers > 0)
      await startBeside(server, async () => (await import("./workers.ts")).startWorkers(workers, server, parts));
    return { server, store, lock, log, requests };
  } catch (error) {
    store?.close();
    lock.release();
    // What an earlier process left open is ended before anybody is served, and may find the disk full or the store damaged.
    throw ofStore(error, path);
  }
}

/**
 * `sluice serve`: starts the gateway and says four lines on stdout (contract 1); everything else goes to stderr. Returns undefined
 * once it listens: the process then ends by a signal. Throws ConfigError, StoreError or Failure when it cannot start.
 */
export async function serve(options: ServeOptions): Promise<undefined> {
  const hangup = hearHangup();
  for (const signal of WITHOUT_MEANING) process.on(signal, () => {});
  const config = readConfig(options);
  const { vendors, warnings } = readVendors(config);
  printWarnings([...config.warnings, ...warnings]);
  const running = await start(
    config,
    vendors,
    options.workers === undefined ? 0 : (await import("./workers.ts")).readWorkers(options.workers),
  );
  stopOnSignals(running);
  printWarnings(findLostPlans(running.store, config.plans));
  const { url } = running.server;
  const servers = config.localDiscovery ? await findLocalServers(vendors, url) : [];
  running.server.addVendors(servers.map((found) => found.vendor));
  const isExecutable = Bun.isStandaloneExecutable;
  running.stopReloading = await startReloading(options, config, running, hangup);
  const configFile = config.file ?? join(config.dataFolder, "sluice.yaml");
  if (running.stopping) return undefined;
  let key: string | undefined;
  try {
    key = await makeFirstKey(running);
  } catch (error) {
    await close(running);
    throw error;
  }
  const facts = { version: VERSION, url, askUrl: askable(url), key, vendors, servers, isExecutable };
  printFirst(...formatFirstLines({ ...facts, configFile, dataFlag: options.data, platform: process.platform }));
}
