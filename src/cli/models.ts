import { type Catalog, createCatalog, type Listing } from "../catalog/catalog.ts";
import { type Entry, toChatEntry } from "../catalog/entry.ts";
import { builtInRows } from "../catalog/rows.ts";
import { localCandidates } from "../config/discover.ts";
import type { Config } from "../config/load.ts";
import { serverIsRunning } from "../db/folder-lock.ts";
import { messageOf } from "../lib/message-of.ts";
import { userAgentOf } from "../lib/user-agent.ts";
import { listDiscovered } from "../vendors/models-list.ts";
import { probeLocal } from "../vendors/probe-local.ts";
import { registry, variableOf } from "../vendors/registry.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { BUILTIN_VENDORS, readConfig, readVendors } from "./context.ts";
import type { ModelsOptions } from "./options.ts";
import { print, printJson, printWarnings, warn } from "./output.ts";
import { type Column, formatCount, formatTable } from "./table.ts";
import { VERSION } from "./version.ts";

/** How long a vendor may take to list its models, ms. */
const LIST_TIMEOUT_MS = 5_000;

/** Asks the vendors that list their own models; one that does not answer is left out, with a warning. */
async function discover(catalog: Catalog, vendors: readonly Vendor[]): Promise<void> {
  const asked = listDiscovered(vendors, { userAgent: userAgentOf(VERSION), timeoutMs: LIST_TIMEOUT_MS });
  for (const { vendor, models, reason } of await Promise.all(asked)) {
    if (models) catalog.setDiscovered(vendor.id, models);
    else printWarnings([`${vendor.id} did not list its models: ${messageOf(reason)}`]);
  }
}

/** The catalog that a server started now would have. */
async function buildCatalog(config: Config): Promise<Catalog> {
  const { vendors, warnings } = readVendors(config);
  printWarnings([...config.warnings, ...warnings]);
  const servers = config.localDiscovery ? await probeLocal(localCandidates(registry, vendors)) : [];
  const builtin = BUILTIN_VENDORS.map((id) => ({ id, models: "catalog" as const }));
  const policies = [...builtin, ...vendors, ...servers.map((server) => server.vendor)];
  const catalog = createCatalog({ rows: builtInRows, overrides: config.models, vendors: policies });
  for (const server of servers) catalog.setDiscovered(server.vendor.id, server.models);
  await discover(catalog, vendors);
  return catalog;
}

const formatPrice = (price: number | undefined) => (price === undefined ? "-" : String(price));

/** The price of one image, USD, of a model that has one. */
function imagePrice({ pricing }: Entry): number | undefined {
  const price = pricing?.["per_image"];
  return typeof price === "number" ? price : undefined;
}

function formatEntry(entry: Entry, withImages: boolean): string[] {
  const { pricing, capabilities } = entry;
  const abilities = Object.entries(capabilities).filter(([, has]) => has);
  return [
    entry.id,
    entry.modality,
    entry.accessTier,
    formatCount(entry.contextLength),
    formatCount(entry.maxOutputTokens),
    formatPrice(pricing?.input),
    formatPrice(pricing?.output),
    ...(withImages ? [formatPrice(imagePrice(entry))] : []),
    abilities.map(([name]) => name).join(" ") || "-",
  ];
}

const columnsFor = (withImages: boolean): Column[] => [
  { title: "id" },
  { title: "modality" },
  { title: "tier" },
  { title: "context", align: "right" },
  { title: "max output", align: "right" },
  { title: "input", align: "right" },
  { title: "output", align: "right" },
  ...(withImages ? [{ title: "image", align: "right" } as const] : []),
  { title: "capabilities" },
];

/** What a person must set to switch a vendor on: its variable, or a row of the configuration file. */
const switchOf = (vendorId: string): string => variableOf(vendorId) ?? `vendor ${vendorId}`;

function formatSwitches({ routable, switchedOnBy }: Listing): string {
  if (routable) return "on";
  // Its vendors are on, and their rows name other models only.
  if (switchedOnBy.length === 0) return "had from no vendor";
  return `needs ${switchedOnBy.map(switchOf).join(" or ")}`;
}

function printTable(listings: readonly Listing[], withState: boolean): void {
  const withImages = listings.some(({ entry }) => imagePrice(entry) !== undefined);
  const columns = [...columnsFor(withImages), ...(withState ? [{ title: "state" }] : [])];
  const rows = listings.map((listing) => [
    ...formatEntry(listing.entry, withImages),
    ...(withState ? [formatSwitches(listing)] : []),
  ]);
  print(...formatTable(columns, rows));
  if (!listings.some(({ entry }) => entry.pricing !== undefined)) return;
  const images = withImages ? " (image: per image)" : "";
  warn(`Prices are USD per 1M tokens${images}, or per the unit that --json names.`);
}

/** A service has its keys from a file of its own, which a shell beside it has not read. */
const OF_THESE_VARIABLES =
  "This is what this command's variables switch on; what the server that runs here offers, its GET /v1/models says.";

/**
 * `sluice models`: the catalog as a table, or as the entries of `GET /v1/models` with `--json` (contract 1, interface 2.3). With
 * `--all-models` also models that no switched-on vendor serves, and what would switch one on.
 */
export async function showModels(options: ModelsOptions): Promise<number> {
  const config = readConfig(options);
  const catalog = await buildCatalog(config);
  const all = options.allModels === true;
  const listings = catalog
    .all()
    .filter((listing) => all || listing.routable)
    .filter((listing) => options.modality === "all" || listing.entry.modality === options.modality);
  if (options.json) {
    const state = ({ routable, switchedOnBy }: Listing) => ({ routable, switched_on_by: switchedOnBy.map(switchOf) });
    printJson(listings.map((listing) => ({ ...toChatEntry(listing.entry), ...(all && state(listing)) })));
  } else {
    printTable(listings, all);
    if (serverIsRunning(config.dataFolder)) warn(OF_THESE_VARIABLES);
  }
  return 0;
}
