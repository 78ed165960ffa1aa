import { statSync } from "node:fs";
import type { Store } from "../../db/open.ts";
import type { Writer } from "../../db/writer.ts";
import { isObject } from "../../lib/json.ts";
import { type Figure, figure, type Sample, single } from "../../observe/figures.ts";
import { fetchLimit } from "../../observe/process-figures.ts";
import type { RequestFigures } from "../../observe/request-figures.ts";
import type { VendorHealth } from "../../vendors/health.ts";
import { poolFigures } from "../../vendors/send.ts";
import type { Vendor } from "../../vendors/vendor.ts";

/** Ways in trouble that are named, at the most: names of models can be anybody's. */
const MAX_NAMED = 200;

/** Where the gateway's own figures come from. */
export type GatewaySources = {
  store: Store;
  writer: Writer;
  health: VendorHealth;
  vendors(): Iterable<Vendor>;
  /** Takes secrets out of text: a model is called whatever a client has written. */
  scrub(text: string): string;
  requests: RequestFigures;
  /** Requests that are under way. */
  running(): number;
  /** Configurations read again: taken over, and refused. */
  reloads: { taken: number; refused: number };
  /** Figures of other parts. */
  others(): readonly Figure[];
};

/** How vendors fare, as far as one process knows. */
export function collectVendors({
  health,
  vendors,
  scrub,
}: Pick<GatewaySources, "health" | "vendors" | "scrub">): Figure[] {
  const records = [...vendors()].map(({ id }) => ({ id, ...health.of(id) }));
  // Also of vendors that a reload has taken out: with those of a worker that died in it, their counts would fall.
  const counted = (result: "served" | "failed"): Sample[] =>
    [...health.all()].map(([vendor, record]) => ({ labels: { vendor, result }, value: record[result] }));
  const open = health.breakers.states().filter((state) => state.open);
  const named = (names: readonly string[]): Sample[] =>
    [...new Set(names.slice(0, MAX_NAMED).map(scrub))].map((way) => ({ labels: { way }, value: 1 }));
  return [
    figure(
      "sluice_vendor_calls_total",
      "counter",
      "What vendors were asked for, images too: served, or failed by their doing; a reply of several rounds is one.",
      [...counted("served"), ...counted("failed")],
    ),
    figure(
      "sluice_vendor_failing",
      "gauge",
      "1 while a vendor's last call failed.",
      records.map(({ id, failingSince }) => ({ labels: { vendor: id }, value: failingSince === undefined ? 0 : 1 })),
    ),
    single("sluice_breakers_open", "gauge", "Ways to models whose breaker is open.", open.length),
    figure(
      "sluice_breaker_open",
      "gauge",
      "Ways (vendor#key/model) whose breaker is open.",
      named(open.map(({ id }) => id)),
    ),
    figure(
      "sluice_key_resting",
      "gauge",
      "Keys (vendor#key) and ways that rest after a refusal or a limit.",
      named(health.rests.names()),
    ),
  ];
}

const sizeOf = (path: string): number => {
  try {
    return statSync(path).size;
  } catch {
    // In memory, or not there yet.
    return 0;
  }
};

function readPragma({ database }: Store, name: string): number {
  const row = database.query(`PRAGMA ${name}`).get();
  return isObject(row) ? Number(Object.values(row)[0]) : 0;
}

function collectStore({ store, writer }: GatewaySources): Figure[] {
  const { commits, operations, failures, waitedMs } = writer.counts;
  const pageSize = readPragma(store, "page_size");
  return [
    single("sluice_store_bytes", "gauge", "The store's file.", sizeOf(store.path)),
    single("sluice_store_wal_bytes", "gauge", "Its write-ahead log.", sizeOf(`${store.path}-wal`)),
    single(
      "sluice_store_free_bytes",
      "gauge",
      "Room inside the file that holds nothing.",
      readPragma(store, "freelist_count") * pageSize,
    ),
    single("sluice_store_commits_total", "counter", "Batches that were written durably.", commits),
    single("sluice_store_operations_total", "counter", "Operations in those batches.", operations),
    single(
      "sluice_store_commit_seconds_total",
      "counter",
      "How long everything waited while those batches went to the disk.",
      waitedMs / 1_000,
    ),
    single("sluice_store_failures_total", "counter", "Batches that could not be written.", failures),
    single("sluice_store_queued", "gauge", "Operations that wait for their commit.", writer.queued),
  ];
}

/** This process's connections to vendors. */
export function collectConnections(): Figure[] {
  const { open, idle, opened, reused } = poolFigures();
  const name = "sluice_upstream_connections";
  return [
    figure(name, "gauge", "Connections to vendors.", [
      { labels: { state: "busy" }, value: open - idle },
      { labels: { state: "idle" }, value: idle },
    ]),
    single(`${name}_opened_total`, "counter", "Connections to vendors that were opened.", opened),
    single(`${name}_reused_total`, "counter", "Calls that found an open one.", reused),
  ];
}

/** What one process knows of its generations. */
export function collectGenerations(requests: RequestFigures, running: number): Figure[] {
  return [
    ...requests.collect(),
    single("sluice_requests_running", "gauge", "Generations that are under way.", running),
    single("sluice_upstream_in_flight", "gauge", "Generations that a vendor is working on.", requests.upstream),
  ];
}

/** The gateway's own figures: requests, vendors, store, connections to vendors. A few hundred µs; asked for when somebody looks. */
export function collectGateway(sources: GatewaySources): Figure[] {
  const { requests, running, reloads, others } = sources;
  return [
    ...collectGenerations(requests, running()),
    single("sluice_upstream_limit", "gauge", "Requests that Bun's fetch may have in flight at once.", fetchLimit()),
    ...collectConnections(),
    ...collectVendors(sources),
    ...collectStore(sources),
    figure("sluice_config_reloads_total", "counter", "Configurations read again.", [
      { labels: { result: "taken" }, value: reloads.taken },
      { labels: { result: "refused" }, value: reloads.refused },
    ]),
    ...others(),
  ];
}
