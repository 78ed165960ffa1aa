import { sql } from "drizzle-orm";
import { Accounts } from "../../src/accounts/accounts.ts";
import { type App, createApp } from "../../src/app.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { usage } from "../../src/db/schema.ts";
import { Writer } from "../../src/db/writer.ts";
import type { DialectName, Quirks } from "../../src/dialects/dialect.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/observe/log.ts";
import type { RequestLog } from "../../src/observe/request-log.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { AppWatch } from "./app-watch.ts";
import { givenExecutable } from "./binary.ts";
import { posting, startOutside } from "./black-box.ts";
import { leakNet, secretsOf } from "./leaks.ts";
import type { Upstream } from "./upstream.ts";

/** The configuration of a gateway without a file, an environment or a network. */
export const PLAIN_CONFIG: Config = {
  dataFolder: "",
  file: undefined,
  places: [],
  server: {
    host: "127.0.0.1",
    port: 0,
    portWasGiven: true,
    publicUrl: undefined,
    cdnUrl: undefined,
    corsOrigins: [],
    trustedProxies: [],
    allowedHosts: [],
  },
  vendors: [],
  models: [],
  plans: {},
  web: {},
  search: [],
  limits: { blockingSeconds: 95 },
  records: { usageDays: 400, requestLog: undefined },
  images: { keepDays: 90, bucket: undefined },
  localDiscovery: false,
  traces: undefined,
  logLevel: "info",
  warnings: [],
};

/**
 * For tables of wrong keys, after some of which one address has to wait: the gateway believes a proxy in front about the client's address, and against an
 * executable each call names another one.
 */
export const BEHIND_PROXY: Partial<Config> = { server: { ...PLAIN_CONFIG.server, trustedProxies: ["127.0.0.1"] } };

const TEST_VERSION = "0.0.0-test";

/** Path of generation, at the gateway and below the scripted vendor's address. */
export const GENERATION_PATH: Record<DialectName, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
};

/** A row for a scripted vendor. `id` is also the prefix of its models; it takes every model name. */
export function vendorAt(
  upstream: Pick<Upstream, "url">,
  dialect: DialectName,
  id: string = dialect,
  quirks: Quirks = {},
): Vendor {
  return {
    id,
    name: id,
    dialect,
    baseUrl: dialect === "messages" ? upstream.url : `${upstream.url}/v1`,
    auth: dialect === "messages" ? "x-api-key" : "bearer",
    apiKey: `vendor-key-of-${id}`,
    // As a row of a configuration file has it (see config/discover.ts).
    ...(dialect === "messages" && { headers: { "anthropic-version": "2023-06-01" } }),
    models: "any",
    quirks,
  };
}

export type TestAppOptions = {
  vendors?: readonly Vendor[];
  /** Rows of the configuration's `models:`. */
  models?: Config["models"];
  config?: Partial<Config>;
  /** Default: the system's. */
  clock?: Clock;
  /** The log of single requests. Default: none. */
  requests?: RequestLog;
  /** Default: one in memory. */
  store?: Store;
};

export type UsageRow = typeof usage.$inferSelect;

/** The whole gateway inside the test's process, on a store in memory. */
export type TestApp = {
  app: App;
  store: Store;
  clock: Clock;
  /** An API key of the account `local`, on plan `local`. */
  key: string;
  accountId: string;
  /** The origin of a page that the gateway itself would serve: `http://localhost`, with the port where it listens on one. */
  origin: string;
  /** The version that it tells. */
  version: string;
  /** Log lines so far, parsed. */
  log: Record<string, unknown>[];
  /** Calls a path as a client on this machine would. */
  call(path: string, init?: RequestInit): Promise<Response>;
  /** Posts a value as JSON, or a text as it is, with the key. */
  post(path: string, body: unknown, init?: Omit<RequestInit, "body" | "method">): Promise<Response>;
  /** Rows of usage in the order in which they were written, which request IDs do not tell within one millisecond. */
  rows(): UsageRow[];
  stop(): Promise<void>;
};

/** What an official SDK takes for `fetch`: it asks this gateway, without a socket. */
export const fetchBy =
  ({ app }: Pick<TestApp, "app">) =>
  async (input: string | URL | Request, init?: unknown): Promise<Response> =>
    app.gateway.answerRequest(new Request(String(input), init as RequestInit));

/**
 * Puts the gateway together as `sluice serve` does, without listening. With `SLUICE_EXECUTABLE` that executable is started in its place, as a process of
 * its own.
 */
export async function startApp(options: TestAppOptions = {}): Promise<TestApp> {
  const { vendors = [], models = [], clock = systemClock } = options;
  const executable = givenExecutable();
  const config = { ...PLAIN_CONFIG, models, ...options.config };
  // Whatever secrets a test gives it are looked for in everything it writes (reliability 8.1, G18).
  const secrets = secretsOf(config, vendors);
  leakNet.remember(secrets);
  if (executable) return startOutside(executable, config, options);
  const watch = new AppWatch(secrets);
  const store = options.store ?? openStore(":memory:");
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: "info",
    now: () => clock.now(),
    write: (line) => {
      watch.line(line);
      lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  const app = createApp({ config, vendors, store, clock, log, requests: options.requests, version: TEST_VERSION });
  const writer = new Writer(store, clock);
  const made = await new Accounts(store, writer, app.keys, clock).ensureLocal();
  await writer.close();
  if (!made) throw new Error("the store was not empty");
  const { key } = made.key;
  // Loaded in advance, so that a call of a test does not have to wait for it.
  await app.gateway.routes();
  const call = (path: string, init?: RequestInit) => {
    const answer = Promise.resolve(app.gateway.answerRequest(new Request(`http://localhost${path}`, init)));
    watch.asked(path, init, answer);
    return answer;
  };
  return {
    app,
    store,
    clock,
    key,
    accountId: made.account.id,
    origin: "http://localhost",
    version: TEST_VERSION,
    log: lines,
    call,
    post: posting(call, key),
    rows: () => store.query.select().from(usage).orderBy(sql`rowid`).all(),
    async stop() {
      await app.stop();
      await watch.end(store);
      store.close();
    },
  };
}
