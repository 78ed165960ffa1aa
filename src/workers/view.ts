import type { PlanFigures } from "../accounts/plans.ts";
import type { ListedModel } from "../canon/listed-model.ts";
import type { CatalogRow } from "../catalog/rows.ts";
import type { LogLevel } from "../observe/log.ts";
import type { TraceSettings } from "../observe/traces.ts";
import type { Vendor } from "../vendors/vendor.ts";

/**
 * All that a worker has to know of the gateway: it is told at its start, and again whole whenever some of it changes. Plain data. It holds the vendors'
 * keys, so it goes through the pipe between the two processes and nowhere else.
 */
export type View = {
  version: string;
  host: string;
  port: number;
  /** Path of the Unix socket where the authority takes requests that are passed on, as it is seen from the worker. */
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
  /** How often the configuration was reloaded. */
  reloads: number;
  /** Values that may be shown neither in the log nor in what clients are told of a vendor's words. */
  secrets: readonly string[];
  logLevel: LogLevel;
  /** Whether the gateway keeps a log of requests, and whether that holds prompts and answers too. */
  notesRequests: boolean;
  notesBodies: boolean;
  traces: TraceSettings | null;
  /** Seed of the digests of reasoning proofs, so that every process computes the same: a whole number as text. */
  proofSeed: string;
};
