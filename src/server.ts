import { type App, type AppSettings, createApp, type Reloaded } from "./app.ts";
import { IDLE_MS } from "./http/server/connection.ts";
import { HttpServer } from "./http/server/listen.ts";
import { type Stoppable, stopListening } from "./http/server/stop-listening.ts";
import type { Clock } from "./lib/clock.ts";
import { repeat } from "./lib/repeat.ts";
import { openToVendors } from "./vendors/send.ts";
import type { Vendor } from "./vendors/vendor.ts";

/** Nothing larger is let into the process, bytes; the endpoints' own caps lie below and answer with JSON (runtime.md 2). */
const MAX_BODY_BYTES = 40 * 1024 * 1024;
/** A connection on which nothing moves for this long is closed, seconds, where its endpoint does not say otherwise. */
export const IDLE_SECONDS = IDLE_MS / 1_000;
/** `bun` has the runtime's own server listen. */
const WITH_BUN = "SLUICE_HTTP_SERVER";
/** How often vendors that list their own models are asked again. */
const DISCOVERY_MS = 30 * 60_000;
/** A vendor that could not be asked is asked again after this. */
const DISCOVERY_RETRY_MS = 30_000;
/** How often model servers on this machine are asked: a model comes there by a command (`ollama pull`), and is wanted at once. */
const NEARBY_MS = 60_000;

/** What a server is started with, beside what its app is made of. */
export type ServerSettings = AppSettings & {
  host: string;
  port: number;
};

export type RunningServer = {
  /** Where it listens: `http://127.0.0.1:4600`. */
  url: string;
  app: App;
  /** Switches on vendors that were found after the start, and asks those for their models that list them. */
  addVendors(vendors: readonly Vendor[]): void;
  /** {@link App.reload}; vendors that list their own models are asked anew. */
  reload(next: Reloaded): void;
  /** Refuses new connections, lets running answers end (streams within 30 s), and closes the books. */
  stop(): Promise<void>;
  /** Ends running answers now, so that {@link stop} has none to wait for. */
  hurry(): void;
};

/** Listens. Throws the system's error (`EADDRINUSE`) when the port is taken. */
export async function startServer(settings: ServerSettings): Promise<RunningServer> {
  const app = createApp(settings);
  const { host, clock } = settings;
  let server: Listener;
  try {
    server = Bun.env[WITH_BUN] === "bun" ? await listenWithBun(app, settings) : listen(app, settings);
  } catch (thrown) {
    await app.stop();
    throw thrown;
  }
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
      await stopListening(server, { clock, end: () => app.stop(), hasWhole: () => app.running.hasWhole });
    },
    hurry: () => app.hurry(),
  };
}

type Listener = Stoppable & { readonly port?: number | undefined };

function listen({ gateway }: App, { host, port, clock, processes = 1 }: ServerSettings): Listener {
  const { entrance, setServer } = gateway;
  const server = new HttpServer({
    ...{ hostname: host, port, sharesPort: processes > 1, clock, door: entrance },
    elsewhere: openToVendors,
  });
  setServer(server as object as Parameters<typeof setServer>[0]);
  return server;
}

async function listenWithBun({ gateway }: App, { host, port, processes = 1 }: ServerSettings): Promise<Listener> {
  const elysia = await gateway.routes();
  elysia.listen({
    hostname: host,
    port,
    reusePort: processes > 1,
    development: false,
    maxRequestBodySize: MAX_BODY_BYTES,
    idleTimeout: IDLE_SECONDS,
  });
  return elysia.server!;
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
  const stopNearby = repeat(
    clock,
    { everyMs: NEARBY_MS },
    () => app.discoverNearby(),
    () => undefined,
  );
  return () => {
    stopped = true;
    cancel();
    stopNearby();
  };
}
