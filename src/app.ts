import { Accounts } from "./accounts/accounts.ts";
import { Keys } from "./accounts/keys.ts";
import { createPlans, type Plans, replacePlans } from "./accounts/plans.ts";
import type { ListedModel } from "./canon/listed-model.ts";
import { type Catalog, createCatalog } from "./catalog/catalog.ts";
import { builtInRows } from "./catalog/rows.ts";
import type { Config } from "./config/load.ts";
import type { Store } from "./db/open.ts";
import { StoreWatch } from "./db/store-watch.ts";
import { Writer } from "./db/writer.ts";
import { type Gateway, openGateway } from "./http/gateway.ts";
import { Observation } from "./http/observation.ts";
import { FolderFiles, type ImageFiles, imagesFolder, MemoryFiles } from "./jobs/files.ts";
import { BucketFiles } from "./jobs/files-s3.ts";
import { ImageJobs } from "./jobs/image-jobs.ts";
import type { Book } from "./ledger/book.ts";
import { openLedger } from "./ledger/open-ledger.ts";
import { Retention } from "./ledger/rollup-retention.ts";
import type { Clock } from "./lib/clock.ts";
import { type Rhythm, repeat } from "./lib/repeat.ts";
import { HOUR_MS, MINUTE_MS } from "./lib/spans.ts";
import { userAgentOf } from "./lib/user-agent.ts";
import { AddressLimiter } from "./limits/addresses.ts";
import { Admission } from "./limits/admission.ts";
import { Room } from "./limits/buckets.ts";
import { CappedLedger } from "./limits/capped-ledger.ts";
import { endedCleanly, noteStop } from "./limits/clean-stop.ts";
import { countInterrupted, KeySpend } from "./limits/key-spend.ts";
import { SpeedLimiter } from "./limits/limiter.ts";
import { memoryShare } from "./limits/memory-share.ts";
import { errorFields, type Log } from "./observe/log.ts";
import { LOOK_EVERY_MS } from "./observe/loop-lag.ts";
import { type RequestLog, withRequestLog } from "./observe/request-log.ts";
import { BodyLog } from "./relay/body-log.ts";
import { IdempotencyStore } from "./relay/idempotency-store.ts";
import type { Services } from "./relay/job.ts";
import { ProofMakers } from "./relay/reasoning/makers.ts";
import { ReasoningState } from "./relay/reasoning/state.ts";
import { ReasoningStore } from "./relay/reasoning/store.ts";
import { drain } from "./relay/running/drain.ts";
import { keyRevoked, shuttingDown } from "./relay/running/ended.ts";
import { Running } from "./relay/running/running.ts";
import { Tokenizer } from "./relay/tokenizer/tokenizer.ts";
import { builtinVendor } from "./vendors/builtin/vendor.ts";
import { Discovery } from "./vendors/discovery.ts";
import { VendorHealth } from "./vendors/health.ts";
import { createImageUpstreams } from "./vendors/images/index.ts";
import { keepSame, replaceVendors } from "./vendors/roster.ts";
import type { Vendor } from "./vendors/vendor.ts";
import { McpServer } from "./web/mcp/mcp.ts";
import { createMediaFetch } from "./web/safe-fetch/media.ts";
import { createSafeFetch } from "./web/safe-fetch/safe-fetch.ts";
import { createServedTools } from "./web/tools/served.ts";
import { WebTools } from "./web/tools/tools.ts";

/** What the app is made of. Everything outside of the process that it depends on is given here, but for the network. */
export type AppSettings = {
  config: Config;
  /** The vendors that are switched on, without the built-in one. */
  vendors: readonly Vendor[];
  store: Store;
  clock: Clock;
  log: Log;
  /** The log of single requests. Absent: none is kept. */
  requests?: RequestLog | undefined;
  version: string;
  /** How many processes this gateway has, this one included: they share its port (Linux only) and the machine's memory. Default: 1. */
  processes?: number;
};

/** What can be changed while the gateway runs. */
export type Reloaded = Pick<AppSettings, "config" | "vendors">;

/** What is configured and found: vendors without the built-in one, and the models that some of them listed themselves. */
export type Standing = Reloaded & {
  discovered: ReadonlyMap<string, readonly ListedModel[]>;
  /** How often the configuration was reloaded. */
  reloads: number;
};

/** The gateway without a listener, and the parts that its server and its tests look at. */
export type App = {
  /** The endpoints, and what a listener needs of them: see {@link Gateway}. */
  gateway: Gateway;
  catalog: Catalog;
  keys: Keys;
  running: Running;
  services: Services;
  /** Money, allowances and receipts. */
  book: Book;
  /** Image jobs and their files. */
  jobs: ImageJobs;
  plans: Plans;
  /** How the gateway does: figures, traces. */
  observation: Observation;
  /** Switches on a vendor that was found after the start; without effect for one that is on. */
  addVendor(vendor: Vendor): void;
  /**
   * Takes over other vendors, models, plans and limits (contract 2); requests that are under way keep what they have. Where it throws, nothing was changed.
   * Vendors that were found after the start stay, unless the configuration has one of the same id.
   */
  reload(next: Reloaded): void;
  /** The models that vendors list themselves. */
  discovery: Discovery;
  /** What is configured and found at present, for the processes that work for this one. */
  standing(): Standing;
  /** Calls back whenever {@link standing} has changed. */
  onChange(callback: () => void): void;
  /** Has `end` run when the gateway stops, beside the end of its running answers and before the books are closed. */
  onStop(end: () => Promise<void>): void;
  /** Has `end` run when running answers are to end at once, see {@link hurry}. */
  onHurry(end: () => void): void;
  /** From now on `count` is added to the generations under way: those in other processes whose charges this one will write. */
  onWork(count: () => number): void;
  /** How many generations are under way, in this process and by the count of {@link onWork}. */
  atWork(): number;
  /** Ends what is under way, as a stopping server does, and closes the books. */
  stop(): Promise<void>;
  /** Ends running answers now, wherever they are given, so that {@link stop} has none to wait for. */
  hurry(): void;
};

/** What changes while the gateway runs. */
type State = {
  ready: boolean;
  config: Config;
  reloads: number;
  /** How many generations are under way in other processes whose charges this one will write. */
  atWorkElsewhere(): number;
};

/** The parts that all others need: the vendors and their models, and what is kept in the store. */
type Ground = { settings: AppSettings; log: Log; state: State } & ReturnType<typeof createRoster> &
  ReturnType<typeof openRecords>;

/** These, and the services of the relay. */
type Relay = Ground & ReturnType<typeof createRelay>;

/** Everything but the endpoints. */
type Parts = Relay & { jobs: ImageJobs; web: WebTools } & ReturnType<typeof startUpkeep>;

/** Puts the parts together. Nothing listens yet, and no vendor is asked. Throws StoreError, and an error where the books are not right. */
export function createApp(settings: AppSettings): App {
  const { config, requests } = settings;
  const log = requests ? withRequestLog(settings.log, requests) : settings.log;
  const state: State = { ready: true, config, reloads: 0, atWorkElsewhere: () => 0 };
  // In this order: each step uses what those before it have made. Only the gateway's own port is known later, once it listens.
  const ground: Ground = { settings, log, state, ...createRoster(settings), ...openRecords(settings, log, state) };
  const relay: Relay = { ...ground, ...createRelay(ground, () => gateway.server()?.port) };
  const parts: Parts = { ...relay, jobs: startJobs(relay), web: startWebTools(relay), ...startUpkeep(relay) };
  const gateway: Gateway = openEndpoints(parts);
  const { catalog, keys, running, services, books, jobs, plans, observation, atWork } = parts;
  const ends: (() => Promise<void>)[] = [];
  const hurries: (() => void)[] = [() => running.endAll(shuttingDown())];
  return {
    gateway,
    catalog,
    keys,
    running,
    services,
    book: books.book,
    jobs,
    plans,
    observation,
    ...createChanges(parts),
    onStop: (end) => void ends.push(end),
    onHurry: (end) => void hurries.push(end),
    onWork(count) {
      state.atWorkElsewhere = count;
    },
    atWork,
    stop: () => stopParts(parts, ends),
    hurry() {
      for (const end of hurries) end();
    },
  };
}

/** The vendors that are switched on, and the catalog of their models. */
function createRoster({ config, clock, vendors: rows }: AppSettings) {
  const builtin = builtinVendor(clock);
  /** Vendors that were found after the start. */
  const found: Vendor[] = [];
  const vendors = new Map([builtin, ...rows].map((vendor) => [vendor.id, vendor]));
  const sources = { rows: builtInRows, overrides: config.models, vendors: [...vendors.values()] };
  const catalog = createCatalog(sources, () => clock.now());
  return { builtin, found, vendors, catalog };
}

/** Opens what is kept in the store, the books first, and watches whether the store can be written. */
function openRecords({ store, clock }: AppSettings, log: Log, state: State) {
  const running = new Running();
  const atWork = () => running.count + state.atWorkElsewhere();
  const writer = new Writer(store, clock, atWork);
  // First of all, and before anything is written: where the books are not right, this throws, and the gateway does not start.
  const books = openLedger(store, writer, { clock, onFault: (thrown) => log.error("ledger", errorFields(thrown)) });
  const recovered = books.start(countInterrupted(store, clock));
  if (recovered.settled + recovered.released > 0) log.warn("recovered", recovered);
  const watch = new StoreWatch(store, writer, clock, (fault) => {
    if (fault) log.error("store-failing", { fault: fault.fault, error: fault.message });
    else log.warn("store-writable");
  });
  const keys = new Keys(store, writer, { clock, onFault: (thrown) => log.error("keys", errorFields(thrown)) });
  const reasoning = new ReasoningStore(store, writer, clock, log);
  return { running, atWork, writer, books, watch, keys, reasoning };
}

/** The services of the relay, and the parts they are made of. `ownPort`: where this gateway listens, once it does. */
function createRelay(ground: Ground, ownPort: () => number | undefined) {
  const { settings, log, vendors, catalog, running, writer, books, keys, reasoning } = ground;
  const { config, store, clock, version } = settings;
  const plans = createPlans(config.plans);
  const limits = createLimits(settings, writer, plans);
  const userAgent = userAgentOf(version);
  const { allow_hosts: allowHosts = [] } = config.web.fetch ?? {};
  const safeFetch = createSafeFetch({ clock, userAgent, allowHosts, publicUrl: config.server.publicUrl, ownPort });
  const health = new VendorHealth(clock);
  const { admission, observation } = startObservation(ground, health);
  const keySpend = new KeySpend(store, writer, (keyId) => keys.capsOf(keyId), clock);
  const services: Services = {
    clock,
    log,
    limiter: limits.limiter,
    catalog,
    vendor: (id) => vendors.get(id),
    health,
    ledger: new CappedLedger(books.ledger, keySpend),
    plans,
    running,
    reasoning: new ReasoningState(reasoning, new ProofMakers(reasoning)),
    blockingMs: config.limits.blockingSeconds * 1000,
    userAgent,
    fetchMedia: createMediaFetch(safeFetch, clock),
    observer: observation.observer,
    admission,
  };
  return { plans, limits, safeFetch, health, observation, keySpend, services };
}

/** Begins to collect the gateway's figures, and to decide by its load who may be let in. */
function startObservation({ settings, log, vendors, running, writer, watch }: Ground, health: VendorHealth) {
  const { config, store, clock, version, processes = 1 } = settings;
  const admission = new Admission({
    clock,
    ...memoryShare(processes),
    running: () => running.count,
    waitedMs: () => writer.counts.waitedMs,
    storeFails: () => watch.failing,
  });
  const observation = new Observation({
    ...{ store, writer, clock, log, health, version, traces: config.traces },
    vendors: () => vendors.values(),
    vendor: (id) => vendors.get(id),
    running: () => running.count,
    others: () => admission.collect(),
    onLag: (lagMs) => admission.look(lagMs + LOOK_EVERY_MS),
  });
  observation.start();
  return { admission, observation };
}

/** Starts the image jobs; those that an earlier process has left go on. */
function startJobs(relay: Relay): ImageJobs {
  const { settings, log, vendors, catalog, writer, books, plans, safeFetch, health, keySpend, services } = relay;
  const { config, store, clock } = settings;
  const draw = createImageUpstreams({
    ...{ userAgent: services.userAgent, clock, fetchResult: safeFetch },
    onFault: (thrown) => log.warn("image-cancel", errorFields(thrown)),
  });
  const jobs = new ImageJobs({
    ...{ store, writer, book: books.book, plans, catalog, clock, log, health, observer: services.observer },
    files: openImageFiles(settings),
    keepDays: config.images.keepDays,
    upstream: (id) => draw(vendors.get(id)),
    spend: keySpend,
  });
  jobs.start();
  return jobs;
}

/** The web tools, also for models whose vendor has none. Units of calls that the end of an earlier process cut off are given back. */
function startWebTools(relay: Relay): WebTools {
  const { settings, log, writer, books, plans, limits, safeFetch, keySpend, services } = relay;
  const web = new WebTools({
    ...{ clock: settings.clock, log, limiter: limits.limiter, keySpend, plans, book: books.book, writer, safeFetch },
    ...{ userAgent: services.userAgent, sources: settings.config.search },
  });
  services.runWebTool = createServedTools(web, log);
  web.recover().catch((thrown: unknown) => log.error("web-recovery", errorFields(thrown)));
  return web;
}

/** How often files of the log of requests that are too old are removed, for a log to which nothing is added any more. */
const TIDYING: Rhythm = { everyMs: HOUR_MS, firstMs: MINUTE_MS };

/**
 * Begins to remove what is old from the store and the log of requests, and to end the running requests of keys that are revoked. `stopUpkeep` ends that, and
 * the tokenizer.
 */
function startUpkeep({ settings, log, writer, reasoning, keys, running }: Relay) {
  const { config, store, clock, requests } = settings;
  const tokenizer = new Tokenizer(clock);
  const kept = new IdempotencyStore(store, writer, clock, log);
  const stopSweeping = kept.watch();
  const retained = (thrown: unknown) => log.error("retention", errorFields(thrown));
  const stopRemoving = new Retention(store, writer, clock, config.records.usageDays, retained).watch();
  const stopTidying = requests && repeat(clock, TIDYING, () => requests.removeOld(), retained);
  const stopForgetting = reasoning.watch();
  const unwatch = endRevoked(keys, running);
  const stopUpkeep = () => {
    unwatch();
    stopSweeping();
    stopRemoving();
    stopTidying?.();
    stopForgetting();
    tokenizer.stop();
  };
  return { tokenizer, kept, stopUpkeep };
}

/** The endpoints, with the parts that they serve. */
function openEndpoints(parts: Parts): Gateway {
  const { settings, log, state, vendors, catalog, writer, books, watch, keys } = parts;
  const { plans, limits, health, observation, keySpend, services, jobs, web, kept, tokenizer } = parts;
  const { config, store, clock, requests, version } = settings;
  return openGateway({
    reach: config.server,
    log,
    catalog,
    keys,
    services,
    jobs,
    web,
    mcp: new McpServer({ tools: web, log, version }),
    keySpend,
    kept,
    bodies: requests?.bodies ? new BodyLog(requests) : undefined,
    tokenizer,
    addresses: limits.addresses,
    admin: {
      ...{ store, clock, keys, plans, health, book: books.book, limiter: limits.limiter },
      accounts: new Accounts(store, writer, keys, clock),
      vendors: () => vendors.values(),
      userAgent: services.userAgent,
    },
    observation,
    ready: () => state.ready && watch.look(),
  });
}

/** The parts of the app that change, or tell, which vendors, models, plans and limits there are. */
type Changes = Pick<App, "addVendor" | "reload" | "discovery" | "standing" | "onChange">;

function createChanges(relay: Relay): Changes {
  const { log, state, builtin, found, vendors, catalog, plans, health, services } = relay;
  const changes: (() => void)[] = [];
  const tellChange = () => {
    for (const callback of changes) callback();
  };
  const discovery = new Discovery({
    ...{ vendors, userAgent: services.userAgent, log },
    onList(vendorId, models) {
      catalog.setDiscovered(vendorId, models);
      tellChange();
    },
  });
  return {
    addVendor(vendor) {
      if (vendors.has(vendor.id)) return;
      found.push(vendor);
      vendors.set(vendor.id, vendor);
      catalog.addVendor(vendor);
      tellChange();
    },
    reload({ config: reloaded, vendors: rows }) {
      const { models, plans: figures, limits: bounds } = reloaded;
      const nextPlans = createPlans(figures);
      const configured = new Set(rows.map(({ id }) => id));
      const others = found.filter(({ id }) => !configured.has(id));
      const next = keepSame([builtin, ...rows, ...others], vendors);
      catalog.replace({ rows: builtInRows, overrides: models, vendors: next });
      const changed = replaceVendors(vendors, next);
      replacePlans(plans, nextPlans);
      services.blockingMs = bounds.blockingSeconds * 1000;
      // A vendor may have refused, or have been in trouble, because of what was changed.
      health.forgetTrouble(changed);
      discovery.replaced(changed);
      state.config = reloaded;
      state.reloads++;
      tellChange();
    },
    discovery,
    standing: () => ({
      config: state.config,
      reloads: state.reloads,
      vendors: [...vendors.values()].filter((vendor) => vendor !== builtin),
      discovered: discovery.lists,
    }),
    onChange: (callback) => void changes.push(callback),
  };
}

/** Ends what is under way, then closes the parts; the writer last, because the others write until they are closed. */
async function stopParts(parts: Parts, ends: readonly (() => Promise<void>)[]): Promise<void> {
  const { settings, state, running, services, writer, books, watch, keys, limits, observation, jobs, web, kept } =
    parts;
  state.ready = false;
  const others = Promise.all(ends.map((end) => end()));
  await Promise.all([drain(running, settings.clock, services.blockingMs, others), jobs.stop()]);
  await kept.idle();
  parts.stopUpkeep();
  web.stop();
  books.stop();
  watch.stop();
  await keys.close();
  await limits.close();
  await observation.close();
  await writer.close();
}

/** Where images are kept: in the configured bucket, else in the data folder, or in memory where the store is in memory too. */
function openImageFiles({ config, log, store }: AppSettings): ImageFiles {
  const { bucket } = config.images;
  if (bucket) {
    log.addSecret(bucket.secretAccessKey);
    return new BucketFiles(bucket);
  }
  return store.path === ":memory:" ? new MemoryFiles() : new FolderFiles(imagesFolder(config.dataFolder));
}

/**
 * The speed limits of callers and of addresses, which share one bound of memory; `close` notes in the store that this process ended cleanly. Where the last
 * one did not, the limits start half used up.
 */
function createLimits({ store, clock, log }: AppSettings, writer: Writer, plans: Plans) {
  const options = { clock, room: new Room(), startHalf: !endedCleanly(store) };
  const failed = (thrown: unknown) => log.error("limits", errorFields(thrown));
  const noted = noteStop(store, writer, false).catch(failed);
  return {
    limiter: new SpeedLimiter({ ...options, plans }),
    addresses: new AddressLimiter(options),
    close: () => noted.then(() => noteStop(store, writer, true)).catch(failed),
  };
}

/** A revoked key's running requests end within a second (contract 4). */
function endRevoked(keys: Keys, running: Running): () => void {
  keys.onRevoked((keyId) => running.endKey(keyId, keyRevoked()));
  return keys.watch();
}
