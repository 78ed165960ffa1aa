import { canonicalAddress, isInRange, isRange } from "./address.ts";
import { FetchFault } from "./fault.ts";

/** Longest URL that is fetched, characters: signed addresses of file stores are long. */
export const MAX_URL = 8_192;
/** Ports of web servers; others only for hosts that the operator names. */
export const WEB_PORTS: ReadonlySet<number> = new Set([80, 443, 8080, 8443]);
/** Names of private networks by their form, whatever a resolver says (web-and-mcp.md C3). */
const INWARD = ["localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa", "onion"];
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** A URL that may be fetched, taken apart: the parts that are checked here are those that are connected to. */
export type Target = {
  url: URL;
  secure: boolean;
  port: number;
  /** The host without brackets and without a dot at its end. */
  host: string;
  /** `host` is an address already. */
  isAddress: boolean;
  /** The operator opened this host: its address may be private, but not this gateway's own. */
  allowed: boolean;
};

/** A host the operator opened (`web.fetch.allow_hosts`): a name, `*.name`, an address or a range, each perhaps with a port. */
type AllowRule = { host: string; port: number | undefined };

/** A host without the brackets of an IPv6 address and without a dot at its end. */
const bareHost = (host: string) => host.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");

/** Splits `[::1]:80`, `name:80` and `::1` into host and port. */
function parseRule(written: string): AllowRule {
  const text = written.trim().toLowerCase();
  const parts = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(text);
  const host = bareHost(parts?.[1] ?? text);
  return { host: canonicalAddress(host) ?? host, port: parts ? Number(parts[2]) : undefined };
}

function matches(rule: AllowRule, host: string, port: number): boolean {
  if (rule.port !== undefined && rule.port !== port) return false;
  if (rule.host.includes("/")) return isInRange(host, rule.host);
  if (rule.host.startsWith("*.")) return host.endsWith(rule.host.slice(1));
  return rule.host === (canonicalAddress(host) ?? host);
}

const isWellFormed = (host: string) => host.length <= 253 && host.split(".").every((label) => LABEL.test(label));

/** Whether `text` is a valid rule for hosts that the operator opens; any other would never match. Pure. */
export function isHostRule(text: string): boolean {
  const { host, port } = parseRule(text);
  if (port !== undefined && (port < 1 || port > 65_535)) return false;
  if (host.includes("/")) return isRange(host);
  return canonicalAddress(host) !== undefined || isWellFormed(host.replace(/^\*\./, ""));
}

const isInward = (host: string) =>
  !host.includes(".") || INWARD.some((name) => host === name || host.endsWith(`.${name}`));

function parseUrl(text: string): URL {
  if (text.length > MAX_URL) {
    throw new FetchFault("invalid_url", `The URL is longer than ${MAX_URL} characters.`);
  }
  const url = URL.parse(text);
  if (!url) throw new FetchFault("invalid_url", "This is not a URL.");
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new FetchFault("invalid_url", "Only http and https URLs are fetched.");
  }
  if (url.username !== "" || url.password !== "") {
    throw new FetchFault("invalid_url", "A URL must not hold a user name or a password.");
  }
  return url;
}

export type RuleSettings = {
  /** Hosts the operator opened (contract 9). They match the host as the URL has it, never what a stranger's name resolves to. */
  allowHosts: readonly string[];
  /** The host name of this gateway, as URLs have it. */
  ownHost: string | undefined;
  /** Ports of hosts that nobody opened. */
  ports: ReadonlySet<number>;
};

/**
 * Takes a URL apart and refuses what can be refused by its text alone: other schemes, credentials, malformed and private names, ports that
 * are no web server's. The returned function throws FetchFault (invalid_url, blocked).
 */
export function createRules({ allowHosts, ownHost, ports }: RuleSettings): (text: string | URL) => Target {
  const rules = allowHosts.map(parseRule);
  const own = ownHost === undefined ? undefined : bareHost(ownHost);
  return (text) => {
    const url = parseUrl(String(text));
    const secure = url.protocol === "https:";
    const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
    const host = bareHost(url.hostname);
    const isAddress = canonicalAddress(host) !== undefined;
    const allowed = rules.some((rule) => matches(rule, host, port));
    if (!isAddress && !isWellFormed(host)) throw new FetchFault("invalid_url", "The URL's host is not a name.");
    if (!allowed) {
      if (!isAddress && isInward(host)) throw new FetchFault("blocked", "This name leads into a private network.");
      if (!ports.has(port)) throw new FetchFault("blocked", "This port is not one of a web server.");
      if (host === own) throw new FetchFault("blocked", "This is the gateway itself.");
    }
    return { url, secure, port, host, isAddress, allowed };
  };
}
