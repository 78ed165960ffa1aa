import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { type AnyElysia, Elysia } from "elysia";
import { Accounts } from "./accounts/accounts.ts";
import { Keys } from "./accounts/keys.ts";
import { createPlans, type Plans, replacePlans } from "./accounts/plans.ts";
import { Tokens } from "./accounts/tokens.ts";
import { GatewayError } from "./canon/errors.ts";
import { type Catalog, createCatalog } from "./catalog/catalog.ts";
import { builtInRows } from "./catalog/rows.ts";
import type { Config } from "./config/load.ts";
import type { Store } from "./db/open.ts";
import { Writer } from "./db/writer.ts";
import { accountRoutes } from "./http/account.ts";
import { createAddressReader, type PeerSource } from "./http/address.ts";
import { type AdminDependencies, adminRoutes } from "./http/admin.ts";
import { chatRoutes } from "./http/chat.ts";
import { countTokensRoutes } from "./http/count-tokens.ts";
import { debugTranslateRoutes } from "./http/debug-translate.ts";
import { boundPublic, createDoorman } from "./http/doorman.ts";
import { answerError, renderElysiaError } from "./http/errors.ts";
import { createCors, createGuard } from "./http/guard.ts";
import { healthRoutes } from "./http/health.ts";
import { imageFileRoutes, imageRoutes } from "./http/images.ts";
import { mcpRoutes } from "./http/mcp.ts";
import { messagesRoutes } from "./http/messages.ts";
import { metricsRoutes } from "./http/metrics.ts";
import { modelsRoutes } from "./http/models.ts";
import { Observation } from "./http/observation.ts";
import { openapiRoutes } from "./http/openapi.ts";
import { responsesRoutes } from "./http/responses.ts";
import { rootRoutes } from "./http/root.ts";
import { webRoutes } from "./http/web.ts";
import { FolderFiles, type ImageFiles, MemoryFiles } from "./jobs/files.ts";
import { BucketFiles } from "./jobs/files-s3.ts";
import { ImageJobs } from "./jobs/image-jobs.ts";
import type { Book } from "./ledger/book.ts";
import { openLedger } from "./ledger/open-ledger.ts";
import { Retention } from "./ledger/rollup-retention.ts";
import type { Clock } from "./lib/clock.ts";
import { AddressLimiter } from "./limits/addresses.ts";
import { Admission, memoryBound } from "./limits/admission.ts";
import { Room } from "./limits/buckets.ts";
import { CappedLedger } from "./limits/capped-ledger.ts";
import { endedCleanly, noteStop } from "./limits/clean-stop.ts";
import { KeySpend } from "./limits/key-spend.ts";
import { SpeedLimiter } from "./limits/limiter.ts";
import { errorFields, type Log } from "./observe/log.ts";
import { LOOK_EVERY_MS } from "./observe/loop-lag.ts";
import { type RequestLog, withRequestLog } from "./observe/request-log.ts";
import { BodyLog } from "./relay/body-log.ts";
import { Ended } from "./relay/exchange.ts";
import { IdempotencyStore } from "./relay/idempotency-store.ts";
import type { Services } from "./relay/job.ts";
import { ReasoningState } from "./relay/reasoning-state.ts";
import { ReasoningStore } from "./relay/reasoning-store.ts";
import { Running } from "./relay/running.ts";
import { Tokenizer } from "./relay/tokenizer/tokenizer.ts";
import { builtinVendor } from "./vendors/builtin/vendor.ts";
import { VendorHealth } from "./vendors/health.ts";
import { createImageUpstreams } from "./vendors/images/index.ts";
import { listDiscovered } from "./vendors/models-list.ts";
import type { Vendor } from "./vendors/vendor.ts";
import { McpServer } from "./web/mcp.ts";
import { createSafeFetch, type SafeFetch } from "./web/safe-fetch.ts";
import { createMediaFetch } from "./web/safe-fetch-media.ts";
import { WebTools } from "./web/tools.ts";
import { createServedTools } from "./web/tools-served.ts";

/** Nothing larger is let into the process, bytes; the endpoints' own caps lie below and answer with JSON (runtime.md 2). */
const MAX_BODY_BYTES = 40 * 1024 * 1024;
/** How long running answers may go on when the server is told to stop (reliability 6.5). */
const DRAIN_MS = 30_000;
/** How often vendors that list their own models are asked again. */
const DISCOVERY_MS = 30 * 60_000;
/** A vendor that could not be asked is asked again after this. */
const DISCOVERY_RETRY_MS = 30_000;

/** What the app is made of: everything that reaches outside comes in here. */
export type AppSettings = {
  config: Config;
  /** The vendors that are switched on, without the built-in one. */
  vendors: readonly Vendor[];
  store: Store;
  clock: Clock;
  log: Log;
  /** Where requests are noted one by one. Absent: nowhere. */
  requests?: RequestLog | undefined;
  version: string;
};

/** What can be changed while the gateway runs. */
export type Reloaded = Pick<AppSettings, "config" | "vendors">;

/** The gateway without a listener, and the parts that its server and its tests look at. */
export type App = {
  elysia: Elysia;
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
   * Other vendors, models, plans and limits from now on (contract 2); requests that are under way keep what they have. Throws before anything is
   * changed. Vendors that were found after the start stay, unless the configuration has their id.
   */
  reload(next: Reloaded): void;
  /** Some vendor lists its own models. */
  discovers(): boolean;
  /** Asks the vendors that list their own models; resolves when each has answered or failed, with whether all have answered. */
  discover(): Promise<boolean>;
  /** Ends what is under way, as a stopping server does, and closes the books. */
  stop(): Promise<void>;
};

/** Puts the parts together. Nothing listens and nothing is asked of the network yet. */
export function createApp(settings: AppSettings): App {
  const { config, store, clock, requests } = settings;
  const log = requests ? withRequestLog(settings.log, requests) : settings.log;
  const builtin = builtinVendor(clock);
  /** Vendors that were found after the start. */
  const found: Vendor[] = [];
  const vendors = switchedOn([builtin, ...settings.vendors], found, new Map());
  const catalog = createCatalog({ rows: builtInRows, overrides: config.models, vendors: [...vendors.values()] });
  const writer = new Writer(store, clock);
  // First of all, and before anything is written: books that are not right stop the start.
  const books = openLedger(store, writer, { clock, onFault: (thrown) => log.error("ledger", errorFields(thrown)) });
  const recovered = books.start();
  if (recovered.settled + recovered.released > 0) log.warn("recovered", recovered);
  const keys = new Keys(store, writer, { clock, onFault: (thrown) => log.error("keys", errorFields(thrown)) });
  const running = new Running();
  const reasoning = new ReasoningStore(store, writer, clock, log);
  const plans = createPlans(config.plans);
  const limits = createLimits(settings, writer, plans);
  const safeFetch = guardedFetch(settings, () => elysia.server?.port);
  const health = new VendorHealth(clock);
  const admission = new Admission({
    cores: availableParallelism(),
    memoryBytes: memoryBound(process.constrainedMemory(), totalmem()),
    readMemory: () => process.memoryUsage.rss(),
    running: () => running.count,
  });
  const observation = new Observation({
    ...{ store, writer, clock, log, health, version: settings.version, traces: config.traces },
    vendors: () => vendors.values(),
    running: () => running.count,
    others: () => admission.collect(),
    onLag: (lagMs) => admission.look(lagMs, LOOK_EVERY_MS),
  });
  observation.start();
  const keySpend = new KeySpend(store, writer, (keyId) => keys.capsOf(keyId), clock);
  const services: Services = {
    clock,
    log,
    limiter: limits.limiter,
    catalog,
    vendor: (id) => vendors.get(id),
    health,
    ledger: new CappedLedger(books.ledger, keySpend),
    keySpend,
    plans,
    running,
    reasoning: new ReasoningState(reasoning),
    blockingMs: config.limits.blockingSeconds * 1000,
    userAgent: `sluice/${settings.version}`,
    fetchMedia: createMediaFetch(safeFetch, clock),
    observer: observation.observer,
    admission,
  };
  const draw = createImageUpstreams({
    ...{ userAgent: services.userAgent, now: () => clock.now(), fetchResult: safeFetch },
    onFault: (thrown) => log.warn("image-cancel", errorFields(thrown)),
  });
  const jobs = new ImageJobs({
    ...{ store, writer, book: books.book, plans, catalog, clock, log, health },
    files: openImageFiles(settings),
    keepDays: config.images.keepDays,
    upstream: (id) => draw(vendors.get(id)),
    spend: keySpend,
  });
  jobs.start();
  const web = new WebTools({
    ...{ clock, log, limiter: limits.limiter, keySpend, plans, book: books.book, writer, safeFetch },
    ...{ userAgent: services.userAgent, sources: config.search },
  });
  services.runWebTool = createServedTools(web, log);
  web.recover().catch((thrown: unknown) => log.error("web-recovery", errorFields(thrown)));
  const tokenizer = new Tokenizer(clock);
  const kept = new IdempotencyStore(store, writer, clock, log);
  const stopSweeping = kept.watch();
  const retained = (thrown: unknown) => log.error("retention", errorFields(thrown));
  const stopRemoving = new Retention(store, writer, clock, config.records.usageDays, retained).watch();
  const stopForgetting = reasoning.watch();
  const unwatch = endRevoked(keys, running);
  const state = { ready: true };
  const { addresses } = limits;
  const elysia = mountRoutes({
    config,
    log,
    catalog,
    keys,
    services,
    jobs,
    web,
    mcp: new McpServer({ tools: web, log, version: settings.version }),
    keySpend,
    kept,
    bodies: requests?.bodies ? new BodyLog(requests) : undefined,
    tokenizer,
    addresses,
    admin: {
      ...{ store, clock, keys, plans, health, book: books.book, limiter: limits.limiter },
      accounts: new Accounts(store, writer, keys, clock),
      tokens: new Tokens(keys, () => clock.now()),
      vendors: () => vendors.values(),
      userAgent: services.userAgent,
    },
    observation,
    ready: () => state.ready,
  });
  return {
    elysia,
    catalog,
    keys,
    running,
    services,
    book: books.book,
    jobs,
    plans,
    observation,
    addVendor(vendor) {
      if (vendors.has(vendor.id)) return;
      found.push(vendor);
      vendors.set(vendor.id, vendor);
      catalog.addVendor(vendor);
    },
    reload({ config: { models, plans: figures, limits: bounds }, vendors: rows }) {
      const nextPlans = createPlans(figures);
      const next = switchedOn([builtin, ...rows], found, vendors);
      catalog.replace({ rows: builtInRows, overrides: models, vendors: [...next.values()] });
      vendors.clear();
      for (const [id, vendor] of next) vendors.set(id, vendor);
      replacePlans(plans, nextPlans);
      services.blockingMs = bounds.blockingSeconds * 1000;
      // What was refused or in trouble may have been what was changed.
      health.forgetTrouble();
    },
    discovers: () => [...vendors.values()].some((vendor) => vendor.models === "discover"),
    discover: () => discoverModels([...vendors.values()], catalog, log, services.userAgent),
    async stop() {
      state.ready = false;
      await Promise.all([drain(running, clock), jobs.stop()]);
      await kept.idle();
      unwatch();
      stopSweeping();
      stopRemoving();
      stopForgetting();
      tokenizer.stop();
      web.stop();
      books.stop();
      await limits.close();
      await observation.close();
      await writer.close();
    },
  };
}

/** The vendors that are on, by id: those of `rows`, and what was found beside them. One that has not changed stays the same object. */
function switchedOn(
  rows: readonly Vendor[],
  found: readonly Vendor[],
  before: ReadonlyMap<string, Vendor>,
): Map<string, Vendor> {
  const next = new Map(rows.map((vendor) => [vendor.id, vendor]));
  for (const vendor of found) if (!next.has(vendor.id)) next.set(vendor.id, vendor);
  for (const [id, vendor] of next) {
    const known = before.get(id);
    if (known && Bun.deepEquals(known, vendor)) next.set(id, known);
  }
  return next;
}

/** Where images are kept: a configured bucket, the data folder, or memory for a store that is there itself. */
function openImageFiles({ config, log, store }: AppSettings): ImageFiles {
  const { bucket } = config.images;
  if (bucket) {
    log.addSecret(bucket.secretAccessKey);
    return new BucketFiles(bucket);
  }
  return store.path === ":memory:" ? new MemoryFiles() : new FolderFiles(join(config.dataFolder, "images"));
}

/** The speed limits of callers and of addresses, in one room; and the note on the store that tells the next start how this one ended. */
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

/** The one fetch for addresses that come from outside (contract 9). `ownPort`: where this gateway listens, once it does. */
function guardedFetch({ config, clock, version }: AppSettings, ownPort: () => number | undefined): SafeFetch {
  const { publicUrl } = config.server;
  return createSafeFetch({
    clock,
    userAgent: `sluice/${version}`,
    allowHosts: config.web.fetch?.allow_hosts ?? [],
    ownHosts: publicUrl === undefined ? [] : [new URL(publicUrl).hostname],
    ownPort,
  });
}

/** A revoked key's running requests end within a second (contract 4). */
function endRevoked(keys: Keys, running: Running): () => void {
  keys.onRevoked((keyId) => {
    running.endKey(
      keyId,
      new Ended("client-left", new GatewayError("invalid_api_key", "The API key is not valid any more.")),
    );
  });
  return keys.watch();
}

async function drain(running: Running, clock: Clock): Promise<void> {
  const stopping = new GatewayError("upstream_overloaded", "The gateway is shutting down. Try again.");
  const cancel = clock.after(DRAIN_MS, () => running.endAll(new Ended("upstream-failed", stopping)));
  await running.idle();
  cancel();
}

async function discoverModels(
  vendors: readonly Vendor[],
  catalog: Catalog,
  log: Log,
  userAgent: string,
): Promise<boolean> {
  const listed = await listDiscovered(vendors, { userAgent });
  for (const { vendor, names, reason } of listed) {
    if (names) catalog.setDiscovered(vendor.id, names);
    else log.warn("discovery", { vendor: vendor.id, ...errorFields(reason) });
  }
  return listed.every(({ names }) => names !== undefined);
}

type Routes = {
  config: Config;
  log: Log;
  catalog: Catalog;
  keys: Keys;
  services: Services;
  jobs: ImageJobs;
  web: WebTools;
  mcp: McpServer;
  keySpend: KeySpend;
  kept: IdempotencyStore;
  bodies: BodyLog | undefined;
  tokenizer: Tokenizer;
  addresses: AddressLimiter;
  observation: Observation;
  admin: AdminDependencies;
  ready(): boolean;
};

function mountRoutes(routes: Routes): Elysia {
  const { config, log, catalog, keys, services, jobs, keySpend, kept, bodies, tokenizer, addresses } = routes;
  const { admin, observation, ready } = routes;
  const { allowedHosts, corsOrigins, trustedProxies, publicUrl, cdnUrl } = config.server;
  const readAddress = createAddressReader(() => app.server as PeerSource, trustedProxies);
  keys.doorman = createDoorman(addresses, readAddress);
  const bounds = { addresses, readAddress, keys, limiter: services.limiter };
  const guard = createGuard({ allowedHosts, corsOrigins });
  const cors = createCors(corsOrigins);
  const generation = { services, keys, kept, bodies, server: () => app.server };
  const { clock, limiter, running } = services;
  const webTools = {
    tools: routes.web,
    mcp: routes.mcp,
    keys,
    kept,
    limiter,
    running,
    clock,
    server: () => app.server,
  };
  const images = {
    jobs,
    catalog,
    limiter: services.limiter,
    spend: keySpend,
    clock: services.clock,
    publicUrl,
    cdnUrl,
  };
  const app: AnyElysia = new Elysia({ normalize: false, strictPath: true })
    .onRequest(({ request }) => {
      const refused = guard(request);
      return refused ? cors.mark(request, answerError(refused, request)) : cors.preflight(request);
    })
    .onError(({ code, error, request }) => cors.mark(request, renderElysiaError(code, error, request, log)));
  // Before the routes: a hook counts for those that come after it.
  if (corsOrigins.length > 0) {
    app.mapResponse(({ request, responseValue }) =>
      responseValue instanceof Response ? cors.mark(request, responseValue) : undefined,
    );
  }
  app
    .use(chatRoutes(generation))
    .use(messagesRoutes(generation))
    .use(countTokensRoutes({ ...generation, tokenizer }))
    .use(responsesRoutes(generation))
    .use(debugTranslateRoutes(generation))
    .use(imageRoutes({ ...generation, ...images }))
    .use(mcpRoutes(webTools))
    .use(webRoutes(webTools))
    .use(accountRoutes(admin))
    .use(adminRoutes(admin))
    .use(metricsRoutes({ keys, server: () => app.server as PeerSource, collect: () => observation.collect() }))
    .use(new Elysia().onBeforeHandle(boundPublic("models", bounds)).use(modelsRoutes({ catalog })))
    .use(
      new Elysia()
        .onBeforeHandle(boundPublic("open", bounds))
        .use(healthRoutes({ ready }))
        .use(imageFileRoutes(images))
        .use(rootRoutes())
        .use(openapiRoutes()),
    );
  return app as unknown as Elysia;
}

/** What a server is started with, beside what its app is made of. */
export type ServerSettings = AppSettings & { host: string; port: number };

export type RunningServer = {
  /** Where it listens: `http://127.0.0.1:4600`. */
  url: string;
  app: App;
  /** Switches on vendors that were found after the start, and asks those for their models that list them. */
  addVendors(vendors: readonly Vendor[]): void;
  /** {@link App.reload}; vendors that list their own models are asked anew. */
  reload(next: Reloaded): void;
  /** Refuses new connections, lets running answers end (30 s at most), and closes the books. */
  stop(): Promise<void>;
};

/** Listens. Throws the system's error (`EADDRINUSE`) when the port is taken. */
export async function startServer(settings: ServerSettings): Promise<RunningServer> {
  const app = createApp(settings);
  const { host, port, clock } = settings;
  try {
    app.elysia.listen({
      hostname: host,
      port,
      reusePort: false,
      development: false,
      maxRequestBodySize: MAX_BODY_BYTES,
      idleTimeout: 60,
    });
  } catch (thrown) {
    await app.stop();
    throw thrown;
  }
  const server = app.elysia.server!;
  let stopDiscovery = keepDiscovering(app, clock);
  const discoverAgain = () => {
    stopDiscovery();
    stopDiscovery = keepDiscovering(app, clock);
  };
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${server.port}`,
    app,
    addVendors(vendors) {
      if (vendors.length === 0) return;
      for (const vendor of vendors) app.addVendor(vendor);
      discoverAgain();
    },
    reload(next) {
      app.reload(next);
      discoverAgain();
    },
    async stop() {
      stopDiscovery();
      const closed = server.stop();
      await app.stop();
      await Promise.race([closed, new Promise((resolve) => clock.after(1_000, () => resolve(undefined)))]);
      await server.stop(true);
    },
  };
}

/** Asks for the vendors' own model lists now and then; sooner again while one of them could not be asked. */
function keepDiscovering(app: App, clock: Clock): () => void {
  if (!app.discovers()) return () => {};
  let cancel = () => {};
  let stopped = false;
  const round = async () => {
    const complete = await app.discover();
    if (!stopped) cancel = clock.after(complete ? DISCOVERY_MS : DISCOVERY_RETRY_MS, round);
  };
  void round();
  return () => {
    stopped = true;
    cancel();
  };
}
