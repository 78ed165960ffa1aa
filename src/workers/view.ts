import type { PlanFigures } from "../accounts/plans.ts";
import type { ListedModel } from "../canon/listed-model.ts";
import type { CatalogRow } from "../catalog/rows.ts";
import type { LogLevel } from "../observe/log.ts";
import type { TraceSettings } from "../observe/traces.ts";
import type { Vendor } from "../vendors/vendor.ts";

/**
 * All that a worker is told of the gateway: at its start, and again whole whenever something of it changes. Plain data; it holds the vendors' keys
 * and crosses between the two processes alone.
 */
export type View = {
  version: string;
  host: string;
  port: number;
  /** Where the authority takes what is passed on to it: a Unix socket, as the worker finds it. */
  passage: string;
  /** The store's file, which a worker reads and never writes. */
  store: string;
  /** Processes that share this machine's memory and processors. */
  processes: number;
  allowedHosts: readonly string[];
  corsOrigins: readonly string[];
  publicUrl: string | null;
  /** Hosts of private networks from which files may be fetched. */
  fetchHosts: readonly string[];
  /** Vendors that are on, without the built-in one. */
  vendors: readonly Vendor[];
  /** Models that vendors listed themselves, by vendor. */
  discovered: readonly (readonly [vendor: string, models: readonly ListedModel[]])[];
  models: readonly CatalogRow[];
  plans: Readonly<Record<string, PlanFigures>>;
  blockingMs: number;
  /** How often the configuration was taken over anew. */
  reloads: number;
  /** What no line of a log and no upstream's words may show. */
  secrets: readonly string[];
  logLevel: LogLevel;
  /** What becomes of requests is noted in files, and prompts and answers too. */
  notesRequests: boolean;
  notesBodies: boolean;
  traces: TraceSettings | null;
  /** With which proofs of reasoning are told apart in every process alike: a whole number as text. */
  proofSeed: string;
};
