import { GatewayError } from "../canon/errors.ts";
import type { AuthForm, Vendor } from "./vendor.ts";

/**
 * By this header a vendor is told the request's own id: OpenAI's name for an id that a client gives. A server may take `x-request-id`, by which others tell
 * theirs, for its own and refuse with a bare 400 what is no UUID (llama-cpp-python's: abetlen/llama-cpp-python #1337).
 */
export const REQUEST_ID = "x-client-request-id";

/** Headers that are never taken from a client, even if its dialect's list should name one: they are ours, or the connection's own. */
const RESERVED: ReadonlySet<string> = new Set([
  "authorization",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "x-key",
  "proxy-authorization",
  "cookie",
  "host",
  "connection",
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "accept",
  "accept-encoding",
  "user-agent",
  "x-request-id",
  REQUEST_ID,
]);

/** How a key is written in its header, by the vendor's form. */
const AUTH: Record<AuthForm, (apiKey: string) => Record<string, string>> = {
  bearer: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  "x-api-key": (apiKey) => ({ "x-api-key": apiKey }),
  "api-key": (apiKey) => ({ "api-key": apiKey }),
  "x-goog-api-key": (apiKey) => ({ "x-goog-api-key": apiKey }),
  "x-key": (apiKey) => ({ "x-key": apiKey }),
  key: (apiKey) => ({ authorization: `Key ${apiKey}` }),
  basic: (apiKey) => ({ authorization: `Basic ${Buffer.from(apiKey).toString("base64")}` }),
  // These two need more than the key, see auth/authorize.ts.
  "service-account": () => ({}),
  sigv4: () => ({}),
  none: () => ({}),
};

/** A parameter of an address whose value is no secret, whoever wrote the vendor's row: `api-version=2026-01-01`. */
export const PLAIN_PARAMETER = /^(?:alt|api-version)=/;

/**
 * The address of `path` (with its leading slash, perhaps with a query) below a vendor's base URL, the vendor's own query joined to it.
 * Throws GatewayError (vendor_not_configured) when that is no http or https address: fetch would open others (runtime.md 7).
 */
export function upstreamUrl(vendor: Vendor, path: string): string {
  const joined = vendor.baseUrl.replace(/\/+$/, "") + path;
  const url = vendor.query ? `${joined}${joined.includes("?") ? "&" : "?"}${vendor.query}` : joined;
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) {
    throw new GatewayError(
      "vendor_not_configured",
      `The base URL of vendor ${vendor.id} is not an http or https address.`,
    );
  }
  return url;
}

/**
 * Path of a generation below the vendor's base URL: the vendor's own where its row names some, else the dialect's, which `pathFor` makes
 * of the upstream model and of whether a stream is wanted.
 */
export function generationPath(
  vendor: Vendor,
  pathFor: (upstreamModel: string, stream: boolean) => string,
  upstreamModel: string,
  stream: boolean,
): string {
  if (!vendor.paths) return pathFor(upstreamModel, stream);
  const template = stream ? vendor.paths.stream : vendor.paths.whole;
  // A step of a path may hold an @ as it is, and Vertex's own programs write `claude-haiku-4-5@20251001` so.
  return template.replace("{model}", () => encodeURIComponent(upstreamModel).replaceAll("%40", "@"));
}

/** What of a vendor's headers is the same for every call: its defaults, and its key. */
type FixedHeaders = { defaults: Readonly<Record<string, string>>; key: Readonly<Record<string, string>> };

const fixedOf = new WeakMap<Vendor, FixedHeaders>();

/** A vendor's fixed headers, made and checked once: to check them costs as much as all else here. Throws as {@link upstreamHeaders} does. */
function fixedHeaders(vendor: Vendor): FixedHeaders {
  const known = fixedOf.get(vendor);
  if (known) return known;
  const defaults: Record<string, string> = {};
  for (const [name, value] of Object.entries(vendor.headers ?? {})) defaults[name.toLowerCase()] = value;
  const key = vendor.apiKey ? AUTH[vendor.auth](vendor.apiKey) : {};
  try {
    new Headers({ ...defaults, ...key });
  } catch (cause) {
    // The cause names the header, not its value.
    const message = `The key or a fixed header of vendor ${vendor.id} holds characters that a header cannot carry.`;
    throw new GatewayError("vendor_not_configured", message, { cause });
  }
  const fixed = { defaults, key };
  fixedOf.set(vendor, fixed);
  return fixed;
}

/**
 * All headers of one upstream call; nothing else in the gateway makes any (reliability 6.3). `passed` are the client's own, already
 * cut down to the dialect's list; they win over the vendor's fixed defaults (dialect version, betas) and never over `own` or the key.
 * Throws GatewayError (vendor_not_configured) when the key or a fixed header cannot stand in a header.
 */
export function upstreamHeaders(
  vendor: Vendor,
  passed: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const { defaults, key } = fixedHeaders(vendor);
  const headers = { ...defaults };
  for (const name in passed) {
    const lowered = name.toLowerCase();
    if (!RESERVED.has(lowered)) headers[lowered] = passed[name] as string;
  }
  return Object.assign(headers, own, key);
}
