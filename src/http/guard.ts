import { GatewayError } from "../canon/errors.ts";
import { STRICT_HEADER } from "../wire/header-names.ts";
import type { AskedHead } from "./asked.ts";
import { commonHeaders } from "./errors.ts";
import { ANSWER_HEADERS } from "./openapi/headers.ts";
import { pathOf, requestIdOf } from "./request.ts";

export type GuardSettings = {
  /** Host names served beside loopback, without port: `gateway.example.com`, `[2001:db8::1]`. Any case. */
  allowedHosts: readonly string[];
  /** Exact origins of web pages, and of programs made of one, that may call from elsewhere: `https://chat.example.com`, `app://obsidian.md`. */
  corsOrigins: readonly string[];
};

/** Why a request must not be served, or undefined. */
export type Guard = (request: AskedHead) => GatewayError | undefined;

/** Names of this machine that are always served, as a Host header has them: no others, which a page elsewhere could have. Others of its addresses are where they are listened on. */
export const OWN_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/**
 * One host and no more: a name or IPv4 address, or an IPv6 address in brackets, then maybe a port (reliability 7.3). The names of containers have
 * underscores (Compose makes them of a project's and a service's), and clients in others write them.
 */
const AUTHORITY = /^([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(\d{1,5}))?$/;

/** A host in lower case, and its port where one is named. */
type Authority = { host: string; port: number | undefined };
type AuthorityReader = (text: string) => Authority | undefined;

function readAuthority(text: string): Authority | undefined {
  const match = AUTHORITY.exec(text.toLowerCase());
  if (!match) return undefined;
  const port = match[2] === undefined ? undefined : Number(match[2]);
  return port === undefined || (port >= 1 && port <= 65_535) ? { host: match[1] ?? "", port } : undefined;
}

/** What the browser's own loading of our pages asks for with `no-cors`: styles, scripts and icons. */
const PAGE_ASSETS = ["/openapi/", "/assets/", "/favicon."] as const;

/** Images are links meant to be shown by other pages (interface 2.1): the Host is checked, where they are shown is not. */
const SHOWN_ANYWHERE = "/v1/images/files/";

/** Pages that other sites may link to. */
const LINKED_PAGES: ReadonlySet<string> = new Set(["/", "/openapi"]);

const refuse = (message: string) => new GatewayError("permission_denied", message);

/**
 * Builds the check that runs on every request before it is routed (reliability 7.3): no page of a stranger reaches a listener on this
 * machine, neither by DNS rebinding (Host), nor by a cross-site call (Origin, Fetch metadata). Clients that are no browsers send
 * none of those headers but Host, and pass. The check returns a `permission_denied` error instead of throwing it.
 */
export function createGuard(settings: GuardSettings): Guard {
  const loopback = new Set(OWN_HOSTS);
  const named = new Set(settings.allowedHosts.map((host) => host.toLowerCase()));
  const origins = new Set(settings.corsOrigins.map(normalizeOrigin));

  const readServed: AuthorityReader = (text) => {
    const authority = readAuthority(text);
    return authority && (named.has(authority.host) || loopback.has(authority.host)) ? authority : undefined;
  };

  // Pages of other ports of this machine are strangers: what matters is the port that was asked, since that is where a page of ours is from.
  const isOwnOrigin = (origin: string, asked: Authority): boolean => {
    const secure = origin.startsWith("https://");
    if (!secure && !origin.startsWith("http://")) return false;
    const from = readAuthority(origin.slice(secure ? 8 : 7));
    if (!from) return false;
    if (named.has(from.host)) return true;
    const usual = secure ? 443 : 80;
    return loopback.has(from.host) && loopback.has(asked.host) && (from.port ?? usual) === (asked.port ?? usual);
  };

  const isConfigured = (origin: string, request: AskedHead): boolean =>
    origins.has(origin.toLowerCase()) && (origin !== OPAQUE || request.headers.get("sec-fetch-site") === null);

  return (request) => {
    const asked = readHost(request, readServed);
    if (!asked) {
      return refuse("This gateway does not answer to that host name. Its operator can add it: server.public_url.");
    }
    const origin = request.headers.get("origin");
    if (origin !== null && !isOwnOrigin(origin, asked) && !isConfigured(origin, request)) {
      return refuse(
        "Web pages of this origin may not call this gateway. Its operator can allow them: server.cors_origins.",
      );
    }
    return checkFetchMetadata(request, origin !== null);
  };
}

/**
 * The origin of a page that hides where it is from, as any page can. Programs that ask by themselves write it as well (Tauri's HTTP client, and so
 * Jan: janhq/jan#8131); they say nothing of a site, as browsers do. It is taken from them alone, and where it is configured.
 */
const OPAQUE = "null";

/** A configured origin as browsers write it: lower case, no slash behind its host. */
function normalizeOrigin(origin: string): string {
  return origin.toLowerCase().replace(/(?<!\/)\/$/, "");
}

/**
 * Whom a request was sent to; undefined where nobody can tell, or not every name that it says is served. Any port will do: it is the one that the client
 * connected to, of this process or of what forwards to it, and a browser that was led astray by a name still writes that name.
 */
function readHost(request: AskedHead, readServed: AuthorityReader): Authority | undefined {
  // A relative URL is what a Host with a path, a user or odd bytes in it leaves behind, and CONNECT: no route may see it.
  const target = /^https?:\/\/([^/?#]*)(?=\/)/.exec(request.url)?.[1];
  if (target === undefined) return undefined;
  // A target in absolute form may name another host than the field: neither may be a stranger's (reliability 8.1, G15). Bun's own server drops that of
  // the target. Without the header the request comes from inside this process: on the wire the URL would be relative.
  const field = request.headers.get("host") ?? target;
  return field === target || readServed(target) ? readServed(field) : undefined;
}

function checkFetchMetadata(request: AskedHead, originAllowed: boolean): GatewayError | undefined {
  const site = request.headers.get("sec-fetch-site");
  const mode = request.headers.get("sec-fetch-mode");
  if (site === null && mode === null) return undefined;
  const path = pathOf(request.url);
  const reads = request.method === "GET" || request.method === "HEAD";
  if (reads && path.startsWith(SHOWN_ANYWHERE)) return undefined;
  // A link on another site may lead a person to our pages: a navigation shows them and hands the other page nothing.
  if (reads && mode?.toLowerCase() === "navigate" && LINKED_PAGES.has(path)) return undefined;
  if (site?.toLowerCase() === "cross-site" && !originAllowed) {
    return refuse("Web pages of other sites may not call this gateway.");
  }
  if (mode?.toLowerCase() === "no-cors") {
    const isAsset = PAGE_ASSETS.some((prefix) => path.startsWith(prefix));
    const own = site?.toLowerCase() === "same-origin" && reads && isAsset;
    if (!own) return refuse("A web page may call this gateway with CORS only, not in no-cors mode.");
  }
  return undefined;
}

/** Answers for web pages of the configured origins. Without origins it never says anything. */
export type Cors = {
  /** There are no origins: nothing is ever said. */
  readonly isOff: boolean;
  /** The answer to a preflight of an allowed origin, else undefined. */
  preflight(request: Request): Response | undefined;
  /** Headers for every answer: `vary`, and for an allowed origin its name. */
  headers(request: AskedHead): Record<string, string>;
  /** An answer with those headers on it. */
  mark(request: Request, response: Response): Response;
};

/**
 * What the official SDKs, MCP clients and chat programs send from a browser, beside the names that always may cross; some of it is of no use here, and
 * yet without leave for it nothing is sent at all. Programs name themselves as OpenRouter asks them to, and many do so everywhere
 * (n4ze3m/page-assist, CherryHQ/cherry-studio), or as another gateway does (`x-client`: lobehub/lobe-chat, provider "New API").
 */
const ALLOWED_HEADERS = [
  "authorization",
  "content-type",
  "x-api-key",
  "idempotency-key",
  "prefer",
  "anthropic-version",
  "anthropic-beta",
  "anthropic-user-profile-id",
  "anthropic-workspace-id",
  "anthropic-dangerous-direct-browser-access",
  "openai-organization",
  "openai-project",
  "openai-beta",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
  "mcp-session-id",
  "last-event-id",
  "traceparent",
  "tracestate",
  "user-agent",
  "http-referer",
  "x-title",
  "x-openrouter-title",
  "x-client",
  STRICT_HEADER,
  "x-stainless-arch",
  "x-stainless-async",
  "x-stainless-custom-poll-interval",
  "x-stainless-helper",
  "x-stainless-helper-method",
  "x-stainless-lang",
  "x-stainless-os",
  "x-stainless-package-version",
  "x-stainless-poll-helper",
  "x-stainless-retry-count",
  "x-stainless-runtime",
  "x-stainless-runtime-version",
  "x-stainless-timeout",
].join(", ");

const EXPOSED_HEADERS = ANSWER_HEADERS.join(", ");

/** How long a browser may keep a preflight's answer, seconds (reliability 7.3 rule 5). */
const PREFLIGHT_MAX_AGE_SECONDS = 600;

/** CORS for exactly these origins, without credentials: keys travel in headers, never in cookies. */
export function createCors(corsOrigins: readonly string[]): Cors {
  const origins = new Set(corsOrigins.map(normalizeOrigin));
  origins.delete(OPAQUE);
  const headers = (request: AskedHead): Record<string, string> => {
    if (origins.size === 0) return {};
    const origin = request.headers.get("origin");
    if (origin === null || !origins.has(origin.toLowerCase())) return { vary: "Origin" };
    return { vary: "Origin", "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED_HEADERS };
  };
  return {
    isOff: origins.size === 0,
    headers,
    mark(request, response) {
      const { vary, ...own } = headers(request);
      for (const [name, value] of Object.entries(own)) response.headers.set(name, value);
      // What an answer varies with by itself, it varies with still. One may pass by here twice.
      const varies = response.headers.get("vary") ?? "";
      if (vary !== undefined && !varies.includes(vary)) response.headers.append("vary", vary);
      return response;
    },
    preflight(request) {
      if (request.method !== "OPTIONS" || !request.headers.has("access-control-request-method")) return undefined;
      const allowed = headers(request);
      if (!("access-control-allow-origin" in allowed)) return undefined;
      return new Response(null, {
        status: 204,
        headers: {
          ...commonHeaders(requestIdOf(request)),
          ...allowed,
          "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
          "access-control-allow-headers": ALLOWED_HEADERS,
          "access-control-max-age": String(PREFLIGHT_MAX_AGE_SECONDS),
          ...(request.headers.get("access-control-request-private-network") === "true" && {
            "access-control-allow-private-network": "true",
          }),
        },
      });
    },
  };
}
