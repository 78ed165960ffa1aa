import { asc } from "drizzle-orm";
import { Accounts } from "../../src/accounts/accounts.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore } from "../../src/db/open.ts";
import { usage } from "../../src/db/schema.ts";
import { Writer } from "../../src/db/writer.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/observe/log.ts";
import { startServer } from "../../src/server.ts";
import { PLAIN_CONFIG, startApp, type UsageRow, vendorAt } from "../support/app.ts";
import { AppWatch } from "../support/app-watch.ts";
import { givenExecutable } from "../support/binary.ts";
import { leakNet, secretsOf } from "../support/leaks.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { RawClient } from "./http-wire-client.ts";
import { HIDDEN_MODEL } from "./wires.ts";

/** Model ID of the scripted vendor. */
export const MODEL = "lab/wire";
const ROWS: Config["models"] = [
  { id: MODEL, pricing: "free", routes: [{ vendor: "vendor-chat", model: HIDDEN_MODEL }] },
];

/** A gateway that listens, with a scripted vendor of the chat dialect behind it. */
export type WireLab = {
  port: number;
  key: string;
  vendor: Upstream;
  /** `PORT` and `KEY` in a request become the gateway's. */
  fill(text: string): string;
  /** A client of the gateway, whose text is filled. Rejects when it is refused. */
  connect(): Promise<RawClient>;
  /** Rows of the ledger, oldest first. */
  rows(): UsageRow[];
  /** Ends the gateway as an operator would, then the vendor. A second call waits for the first. */
  stop(): Promise<void>;
  /** Tears down every connection that was left open, then stops. */
  end(): Promise<void>;
};

/** Starts the gateway inside this process, or the executable that is given; `clock` defaults to the system's. */
export async function startWireLab(clock: Clock = systemClock): Promise<WireLab> {
  const vendor = startUpstream();
  const vendors = [vendorAt(vendor, "chat", "vendor-chat")];
  const gateway = givenExecutable() ? await startGiven(vendors, clock) : await startInside(vendors, clock);
  const clients: RawClient[] = [];
  const fill = (text: string) => text.replaceAll("PORT", String(gateway.port)).replaceAll("KEY", gateway.key);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= gateway.stop().then(() => vendor.close());
    return stopped;
  };
  return {
    ...gateway,
    vendor,
    fill,
    async connect() {
      const client = await RawClient.open(gateway.port, fill);
      clients.push(client);
      return client;
    },
    stop,
    end() {
      for (const client of clients) if (!client.ending) client.reset();
      return stop();
    },
  };
}

type Gateway = Pick<WireLab, "port" | "key" | "rows" | "stop">;

async function startGiven(vendors: ReturnType<typeof vendorAt>[], clock: Clock): Promise<Gateway> {
  const gateway = await startApp({ vendors, models: ROWS, clock });
  const { key, origin } = gateway;
  return { key, port: Number(new URL(origin).port), rows: gateway.rows, stop: gateway.stop };
}

async function startInside(vendors: ReturnType<typeof vendorAt>[], clock: Clock): Promise<Gateway> {
  const config = { ...PLAIN_CONFIG, models: ROWS };
  const secrets = secretsOf(config, vendors);
  leakNet.remember(secrets);
  const watch = new AppWatch(secrets);
  const store = openStore(":memory:");
  const log = createLog({ level: "info", now: () => clock.now(), write: (line) => watch.line(line) });
  const parts = { config, vendors, store, clock, log, version: "0.0.0-test" };
  const server = await startServer({ ...parts, host: "127.0.0.1", port: 0 });
  const writer = new Writer(store, clock);
  const made = await new Accounts(store, writer, server.app.keys, clock).ensureLocal();
  await writer.close();
  if (!made) throw new Error("the store was not empty");
  return {
    key: made.key.key,
    port: Number(new URL(server.url).port),
    rows: () => store.query.select().from(usage).orderBy(asc(usage.requestId)).all(),
    async stop() {
      await server.stop();
      await watch.end(store);
      store.close();
    },
  };
}
