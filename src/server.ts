import { type App, type AppSettings, createApp, type Reloaded } from "./app.ts";
import { IDLE_MS } from "./http/server/connection.ts";
import { HttpServer } from "./http/server/listen.ts";
import { type Stoppable, stopListening } from "./http/server/stop-listening.ts";
import type { Clock } from "./lib/clock.ts";
import { repeat } from "./lib/repeat.ts";
import { openToVendors } from "./vendors/send.ts";
import type { Vendor } from "./vendors/vendor.ts";

/** Largest body that Bun's own server lets in, bytes. The endpoints' own bounds are lower, and answer with JSON (runtime.md 2). */
const MAX_BODY_BYTES = 40 * 1024 * 1024;
/** A connection on which nothing moves for this long is closed, seconds, where its endpoint does not say otherwise. */
export const IDLE_SECONDS = IDLE_MS / 1_000;
/** Environment variable: with the value `bun` the runtime's own server listens, in the place of ours. */
const WITH_BUN = "SLUICE_HTTP_SERVER";
/** How often vendors that list their own models are asked again, ms. */
const DISCOVERY_MS = 30 * 60_000;
/** After how long those that did not answer are asked again, ms: at first, doubled each time, and at the most. */
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 5 * 60_000;
/** How often model servers on this machine are asked, ms: a model comes there by a command (`ollama pull`), and is wanted at once. */
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
  /** Switches on vendors that were found after the start, and asks those that list their own models for them. */
  addVendors(vendors: readonly Vendor[]): void;
  /** {@link App.reload}; vendors that list their own models are asked anew. */
  reload(next: Reloaded): void;
  /** Refuses new connections, lets running answers end (streams within 30 s), and closes the books. */
  stop(): Promise<void>;
  /** Ends running answers now, so that {@link stop} has none to wait for. */
  hurry(): void;
};

/** Makes the app and listens. Rejects with the system's error, such as `EADDRINUSE` for a port that is taken, and with what {@link createApp} throws. */
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
  setServer(server);
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

/**
 * Asks vendors for their own lists of models, and again every half an hour; those that do not answer sooner, and more and more seldom: a key that is refused
 * stays so for days. The returned function ends that.
 */
function keepDiscovering({ discovery }: App, clock: Clock): () => void {
  if (!discovery.isNeeded) return () => {};
  let cancel = () => {};
  let stopped = false;
  let allAt = Number.NEGATIVE_INFINITY;
  let retryMs = FIRST_RETRY_MS;
  const round = async () => {
    const now = clock.monotonic();
    const isForAll = now >= allAt;
    if (isForAll) {
      allAt = now + DISCOVERY_MS;
      retryMs = FIRST_RETRY_MS;
    }
    const complete = await (isForAll ? discovery.askAll() : discovery.askMissing());
    if (stopped) return;
    const leftMs = allAt - clock.monotonic();
    cancel = clock.after(complete ? leftMs : Math.min(leftMs, retryMs), round);
    retryMs = Math.min(LONGEST_RETRY_MS, 2 * retryMs);
  };
  void round();
  const stopNearby = repeat(
    clock,
    { everyMs: NEARBY_MS },
    () => discovery.askNearby(),
    () => undefined,
  );
  return () => {
    stopped = true;
    cancel();
    stopNearby();
  };
}
