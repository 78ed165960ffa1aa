import { GatewayError } from "../canon/errors.ts";
import { remember } from "../lib/remember.ts";
import type { AskedHead } from "./asked.ts";
import { normalizeOrigin, OPAQUE } from "./cors.ts";
import { pathOf } from "./request.ts";

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

  const readServed = remember((text): Authority | undefined => {
    const authority = readAuthority(text);
    return authority && (named.has(authority.host) || loopback.has(authority.host)) ? authority : undefined;
  });

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
 * Whom a request was sent to; undefined where nobody can tell, or not every name that it says is served. Any port will do: it is the one that the client
 * connected to, of this process or of what forwards to it, and a browser that was led astray by a name still writes that name.
 */
function readHost(request: AskedHead, readServed: AuthorityReader): Authority | undefined {
  const target = targetOf(request.url);
  if (target === undefined) return undefined;
  // A target in absolute form may name another host than the field: neither may be a stranger's (reliability 8.1, G15). Bun's own server drops that of
  // the target. Without the header the request comes from inside this process: on the wire the URL would be relative.
  const field = request.headers.get("host") ?? target;
  return field === target || readServed(target) ? readServed(field) : undefined;
}

/**
 * What of a URL names its host: all between the scheme and the path. Undefined for a relative one: that is what a Host with a path, a user or odd bytes in it
 * leaves behind, and CONNECT, and no route may see it.
 */
function targetOf(url: string): string | undefined {
  const start = url.startsWith("http://") ? 7 : url.startsWith("https://") ? 8 : undefined;
  if (start === undefined) return undefined;
  const end = url.indexOf("/", start);
  return end < 0 ? undefined : url.slice(start, end);
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
