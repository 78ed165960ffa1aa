import type { Environment } from "../lib/environment.ts";
import { isInIpRange, parseIp, parseIpRange } from "../lib/ip-range.ts";
import { isLoopback } from "../lib/loopback.ts";
import type { Vendor } from "./vendor.ts";

/** Set to 1, the environment's proxies are used for calls to vendors; otherwise they are taken out of it at the start (reliability 2 #21). */
const SWITCH = "SLUICE_USE_ENV_PROXY";

/** Variables that name a proxy for calls of a scheme, the first that is there; lower case is the older custom. */
const VARIABLES: Readonly<Record<string, readonly string[]>> = {
  "http:": ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
  "https:": ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
};

const read = (environment: Environment, names: readonly string[]): [name: string, value: string] | undefined => {
  for (const name of names) {
    const value = environment[name]?.trim();
    if (value) return [name, value];
  }
  return undefined;
};

/** Whether `host`, as it stands in a URL, is the address `entry`, or lies in the range of addresses `entry` (`10.0.0.0/8`, `fd00::/8`). */
function isInRange(entry: string, host: string): boolean {
  const address = parseIp(host.replace(/^\[|\]$/g, ""));
  const range = parseIpRange(entry.replace(/^\[([^\]]*)\]/, "$1"));
  return address !== undefined && range !== undefined && isInIpRange(address, range);
}

/**
 * Whether `no_proxy` names an address: `*`, a name with all below it (`example.com`, `.example.com`, `*.example.com`), maybe with a port, or an IP address
 * or a range of these, as curl, Go and Python read it.
 */
function isExcepted(url: URL, environment: Environment): boolean {
  const list = read(environment, ["no_proxy", "NO_PROXY"])?.[1] ?? "";
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return list.split(/[\s,]+/).some((entry) => {
    if (entry === "*" || isInRange(entry, url.hostname)) return true;
    const match = /^(?:\*?\.)?(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(entry.toLowerCase());
    if (!match?.[1] || (match[2] !== undefined && match[2] !== port)) return false;
    return url.hostname === match[1] || url.hostname.endsWith(`.${match[1]}`);
  });
}

/**
 * The proxy that the environment names for calls to `address`, where the operator has switched that on; undefined: none, so also for this
 * machine itself. Throws Error, naming the variable and not its value, for one that is no http or https proxy.
 */
export function environmentProxy(address: string, environment: Environment): string | undefined {
  if (environment[SWITCH] !== "1") return undefined;
  const url = URL.parse(address);
  const found = url && read(environment, VARIABLES[url.protocol] ?? []);
  if (!url || !found || isLoopback(url.hostname) || isExcepted(url, environment)) return undefined;
  const [name, value] = found;
  const proxy = URL.parse(/^[a-z][\w+.-]*:\/\//i.test(value) ? value : `http://${value}`);
  if (proxy && /^https?:$/.test(proxy.protocol) && proxy.hostname !== "") return proxy.href;
  throw new Error(`${name} is no http or https proxy, and no other kind can be used`);
}

/** Vendors as they are called through the proxies of the environment. Throws as {@link environmentProxy} does. */
export function throughProxies(vendors: readonly Vendor[], environment: Environment): Vendor[] {
  return vendors.map((vendor) => {
    const proxy = environmentProxy(vendor.baseUrl, environment);
    return proxy === undefined ? vendor : { ...vendor, proxy };
  });
}
