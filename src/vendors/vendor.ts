import type { DialectName, Quirks } from "../dialects/dialect.ts";

/** How an upstream wants its key: a header's name and form. */
export type AuthForm = "bearer" | "x-api-key" | "api-key" | "x-goog-api-key" | "none";

/**
 * Which models of a vendor this gateway offers. `catalog`: those of the catalog that name it in a route. `discover`: what its own
 * model list says, asked at start and now and then. `any`: whatever name the caller writes behind the prefix. A list: these.
 */
export type VendorModels = "catalog" | "discover" | "any" | readonly string[];

/** A request on its way upstream: all that leaves the process. */
export type UpstreamRequest = {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
};

/** Who serves models upstream: a row of data (design 1). `id` is the prefix of its model IDs. */
export type Vendor = {
  id: string;
  name: string;
  dialect: DialectName;
  /** What the vendor's own SDK takes as base URL (contract 2), without a slash at the end. */
  baseUrl: string;
  auth: AuthForm;
  /** Environment variable that switches the vendor on. */
  env?: string;
  /** The key itself, once read from environment or file. Never logged, never shown. */
  apiKey?: string;
  /** Fixed headers, such as a dialect version. */
  headers?: Readonly<Record<string, string>>;
  /** Query string of every call, without its question mark (Azure's api-version). */
  query?: string;
  models: VendorModels;
  quirks: Quirks;
  /** An upstream inside this process: answers as a server on the network would. */
  serve?: (request: UpstreamRequest) => Promise<Response>;
};

/**
 * A vendor this gateway knows of (contract 2), before any key is at hand. `{NAME}` in `baseUrl` and `query` stands for a variable of
 * the environment: a base URL with one missing leaves the vendor off, a query with one missing is left out.
 */
export type VendorRow = Omit<Vendor, "apiKey" | "serve"> & {
  /** A model server on this machine: found by asking its usual port, not by a key. */
  local?: boolean;
};
