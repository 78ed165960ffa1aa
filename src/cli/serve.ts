import { join } from "node:path";
import { Accounts } from "../accounts/accounts.ts";
import { requestLogFolder, storePath } from "../config/data-folder.ts";
import { localCandidates } from "../config/discover.ts";
import type { Config } from "../config/load.ts";
import { removeHalfRestored } from "../db/backup.ts";
import { type FolderLock, lockDataFolder } from "../db/folder-lock.ts";
import { openStore, type Store } from "../db/open.ts";
import { ofStore } from "../db/store-error.ts";
import { Writer } from "../db/writer.ts";
import { systemClock } from "../lib/clock.ts";
import { errorCode } from "../lib/error-code.ts";
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
import { type Hangup, hearHangup, keepReloading } from "./reload.ts";
import { secretsOf } from "./secrets.ts";
import { VERSION } from "./version.ts";

/** What a running server has opened, to be closed in reverse order. */
type Running = {
  server: RunningServer;
  store: Store;
  lock: FolderLock;
  log: Log;
  requests: RequestLog | undefined;
  /** Ends the watch on the configuration. */
  stopReloading?: () => void;
  /** `stopping`: a signal has told it to end; `hurried`: a second one has, at once. */
  stopping?: boolean;
  hurried?: boolean;
};

function createServerLog(config: Config, vendors: readonly Vendor[]): Log {
  const log = createLog({ level: config.logLevel });
  addSecrets(log, config, vendors);
  return log;
}

/** From now on, secrets are removed from every line of the log. */
function addSecrets(log: Log, config: Config, vendors: readonly Vendor[]): void {
  for (const secret of secretsOf(config, vendors)) log.addSecret(secret);
}

/** How long a lasting fault is not reported again, ms: lines are written twice a second, and a full disk stays full for longer. */
const TELL_AGAIN_MS = 60_000;

/** The request log's files, unless the configuration switches them off. Where they cannot be written the server works all the same. */
function openRequestLog(config: Config, log: Log): RequestLog | undefined {
  const settings = config.records.requestLog;
  if (!settings) return undefined;
  const folder = requestLogFolder(config.dataFolder);
  let told: { code: string; at: number } | undefined;
  const tell = (thrown: unknown, until: string) => {
    const code = errorCode(thrown);
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
 * The key of a first start, made right before it is shown: a start that fails, or is ended while it looks for model servers, must not
 * make a key that nobody has seen.
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

/** How long requests that a second signal cuts off have to be booked, ms: those for which no money is held are recorded nowhere else. */
const AT_ONCE_MS = 1_000;

function endAtOnce(running: Running): void {
  if (running.hurried) process.exit(ENDED_AT_ONCE);
  running.hurried = true;
  setTimeout(() => process.exit(ENDED_AT_ONCE), AT_ONCE_MS);
  running.server.hurry();
}

/** Signals that tell other servers, say, to begin new log files. They mean nothing here, but would end a process that does not handle them. */
const WITHOUT_MEANING = ["SIGUSR1", "SIGUSR2"] as const;

/** Handles signals: the first lets running answers end and then closes everything; the second cuts them off; the third ends the process at once. */
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

/** Applies changes of the configuration while the server runs (contract 2), with the flags that it was started with. */
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
 * The model servers on this machine. They are looked for once this one listens, so that a silent port delays no client, and never at the
 * port of `url`, where this gateway would find itself.
 */
function findLocalServers(vendors: readonly Vendor[], url: string): Promise<LocalServer[]> {
  const own = new URL(url).port;
  return probeLocal(localCandidates(registry, vendors).filter((row) => new URL(row.baseUrl).port !== own));
}

/** The address for a request from this machine: a wildcard address is only for listening, and becomes loopback. */
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

/** Opens the data folder and starts listening, and the workers. What was opened is closed again when a later step fails. */
async function start(config: Config, vendors: readonly Vendor[], workers: number): Promise<Running> {
  const lock = lockDataFolder(config.dataFolder);
  const path = storePath(config.dataFolder);
  let store: Store | undefined;
  try {
    removeHalfRestored(path);
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
    // What an earlier process left open is closed before anybody is served. This may fail, with a full disk or a damaged store.
    throw ofStore(error, path);
  }
}

/**
 * `sluice serve`: starts the gateway and prints four lines on stdout (contract 1); everything else goes to stderr. Returns undefined
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
