import { eq } from "drizzle-orm";
import { usage } from "../../src/db/schema.ts";
import type { DialectName, UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { UPSTREAM_DIALECTS } from "../../src/dialects/dialect.ts";
import { upstreamDialects } from "../../src/dialects/index.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp, type TestApp, type UsageRow, vendorAt } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { type RawVendor, startHangUp, startRawVendor } from "./fault-sockets.ts";
import { CLIENT_PATH } from "./fault-wires.ts";
import { HIDDEN_MODEL, type Mode } from "./wires.ts";

/**
 * A name that does not exist, a closed port, listeners that hang up on everybody, an address that swallows everything, and a vendor that writes
 * bytes as they stand.
 */
const PLACES = ["no-such-name", "refused", "reset", "closed", "black-hole", "raw"] as const;
export type Place = (typeof PLACES)[number];

/** Where a fault is played. */
export type Target = UpstreamDialectName | Place;

/** Model IDs: one route to the target, and one that falls back to the spare vendor. */
export const modelOf = (target: Target, routes: 1 | 2): string => `lab/${routes === 1 ? "one" : "two"}-${target}`;
export const vendorIdOf = (target: Target): string => `vendor-${target}`;
export const SPARE = "vendor-spare";

/** USD 1,000,000 less one: no table comes to the end of it. */
const FUNDS_NANO = 999_999_000_000_000n;
/** The window of every model, tokens. */
const WINDOW = 8_192;

/** A gateway whose account pays, with a scripted vendor of each dialect, a spare one of the chat dialect, and places where nothing answers. */
export type FaultLab = {
  gateway: TestApp;
  clock: ManualClock;
  vendors: Record<UpstreamDialectName, Upstream>;
  spare: Upstream;
  raw: RawVendor;
  /** Connections that came to a listener that hangs up. */
  hungUp(place: Place): number;
  wallet(): { posted: bigint; held: bigint };
  /** Paid requests that the store holds as open. */
  openHolds(): number;
  /** Forgets calls, scripts, log lines, and which vendors are in trouble. */
  reset(): void;
  row(requestId: string): UsageRow | undefined;
  rowCount(): number;
  ports(): string[];
  stop(): Promise<void>;
};

/** Path of a generation at a scripted vendor. */
export function pathAt(dialect: UpstreamDialectName, mode: Mode): string {
  if (dialect !== "gemini") return CLIENT_PATH[dialect];
  return `/v1${upstreamDialects.gemini.pathFor(HIDDEN_MODEL, mode === "stream").split("?")[0]}`;
}

function vendorOf(upstream: Upstream, dialect: UpstreamDialectName): Vendor {
  const like: DialectName = dialect === "gemini" ? "chat" : dialect;
  const vendor = vendorAt(upstream, like, vendorIdOf(dialect));
  return dialect === "gemini" ? { ...vendor, dialect, auth: "x-goog-api-key" } : vendor;
}

/** Starts the lab on a clock that stands still; `black-hole` is a closed port unless it is given. */
export async function startFaultLab(given: { "black-hole"?: string } = {}): Promise<FaultLab> {
  const clock = manualClock();
  const vendors = {
    ...{ chat: startUpstream(), messages: startUpstream() },
    ...{ responses: startUpstream(), gemini: startUpstream() },
  };
  const spare = startUpstream();
  const gone = startUpstream();
  gone.close();
  const listeners = { reset: startHangUp("reset"), closed: startHangUp("close") };
  const raw = startRawVendor();
  const urls: Record<Place, string> = {
    // Longer than any name can be: no name server has to be asked, and none can be slow.
    "no-such-name": `http://${"a".repeat(64)}.invalid`,
    refused: gone.url,
    "black-hole": given["black-hole"] ?? gone.url,
    reset: listeners.reset.url,
    closed: listeners.closed.url,
    raw: raw.url,
  };
  const targets: readonly Target[] = [...UPSTREAM_DIALECTS, ...PLACES];
  const gateway = await startApp({
    vendors: [
      ...UPSTREAM_DIALECTS.map((dialect) => vendorOf(vendors[dialect], dialect)),
      ...PLACES.map((place) => ({ ...vendorAt(spare, "chat", vendorIdOf(place)), baseUrl: `${urls[place]}/v1` })),
      vendorAt(spare, "chat", SPARE),
    ],
    models: targets.flatMap((target) =>
      ([1, 2] as const).map((routes) => ({
        id: modelOf(target, routes),
        pricing: { input: 3, output: 15 },
        context_length: WINDOW,
        routes: [vendorIdOf(target), SPARE].slice(0, routes).map((vendor) => ({ vendor, model: HIDDEN_MODEL })),
      })),
    ),
    config: { plans: { paying: { requests_per_minute: 1_000_000, concurrent_generations: 100_000 } } },
    clock,
  });
  // How long is waited between two attempts is the routes' tests to see.
  gateway.app.services.pause = () => Promise.resolve();
  const { accountId, store } = gateway;
  store.database.run("UPDATE account SET plan = 'paying' WHERE id = ?", [accountId]);
  gateway.app.keys.reload();
  await gateway.app.book.deposit({ accountId, amountNano: FUNDS_NANO, reference: "funds" });
  const all = [...Object.values(vendors), spare];
  const rowOf = store.database.query<{ count: bigint }, []>("SELECT count(*) AS count FROM usage");
  const holds = store.database.query<{ count: bigint }, []>("SELECT count(*) AS count FROM ledger_hold");
  return {
    ...{ gateway, clock, vendors, spare, raw },
    hungUp: (place) => (place === "reset" || place === "closed" ? listeners[place].connections() : 0),
    wallet() {
      const { postedNano, heldNano } = gateway.app.book.balance(accountId);
      return { posted: postedNano, held: heldNano };
    },
    openHolds: () => Number(holds.get()?.count),
    reset() {
      for (const upstream of all) upstream.reset();
      for (const listener of [...Object.values(listeners), raw]) listener.reset();
      gateway.app.services.health.forgetTrouble();
      gateway.log.length = 0;
    },
    row: (requestId) => store.query.select().from(usage).where(eq(usage.requestId, requestId)).get(),
    rowCount: () => Number(rowOf.get()?.count),
    ports: () => [...all.map(({ url }) => url), ...Object.values(urls)].flatMap((url) => /\d+$/.exec(url)?.[0] ?? []),
    async stop() {
      await gateway.stop();
      for (const closable of [...all, ...Object.values(listeners), raw]) closable.close();
    },
  };
}
