import ipaddr from "ipaddr.js";
import { type Ip, type IpRange, isInIpRange, parseIp, parseIpRange } from "../../lib/ip-range.ts";
import type { Address } from "../../limits/addresses.ts";
import type { AskedHead } from "../asked.ts";

/** Headers that a proxy in between writes: then the connection's own address says nothing of who asks. */
const FORWARDING = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-real-ip",
  "via",
] as const;
/** Hops of `X-Forwarded-For` that are looked at, from the right. */
const MAX_HOPS = 20;
/** Longest text that can be an address with a zone and a port, characters. */
const MAX_LENGTH = 80;

/** Whatever knows from where a request's connection comes: Bun's server. */
export type PeerSource = { requestIP(request: AskedHead): { address: string } | null } | null;

/** An address, an IPv4 one in IPv6 clothes as what it is; undefined for anything else. */
function parse(text: string): Ip | undefined {
  const ip = text.length > MAX_LENGTH ? undefined : parseIp(text);
  return ip instanceof ipaddr.IPv6 && ip.isIPv4MappedAddress() ? ip.toIPv4Address() : ip;
}

/** A hop as proxies write it: `1.2.3.4`, `2001:db8::1`, and either with a port. */
function parseHop(text: string): Ip | undefined {
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text)?.[1];
  if (bracketed !== undefined) return parse(bracketed);
  const withPort = /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/.exec(text)?.[1];
  return parse(withPort ?? text);
}

/** One configured proxy, an address or a range; undefined when the text is neither. */
export const parseProxyRange = (text: string): IpRange | undefined => parseIpRange(text, parse);

/**
 * How an address is counted (reliability 4): IPv4 each by itself, with its /24 for when there are too many; IPv6 always by its /64,
 * because one household has that many.
 */
function toAddress(parsed: Ip): Address {
  if (parsed instanceof ipaddr.IPv4) {
    const [a, b, c] = parsed.octets;
    return { name: parsed.toString(), network: `${a}.${b}.${c}.0/24` };
  }
  const half = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  const name = `${half.join(":")}::/64`;
  return { name, network: `${half.slice(0, 3).join(":")}::/48` };
}

/** The client behind trusted proxies: from the right the first hop that is none of them; the connection's own address when no hop tells more. */
function behindProxies(peer: Ip, forwarded: string, trusted: readonly IpRange[]): Ip {
  let client = peer;
  const hops = forwarded.split(",");
  for (let at = hops.length - 1; at >= Math.max(0, hops.length - MAX_HOPS); at--) {
    if (!trusted.some((range) => isInIpRange(client, range))) return client;
    const hop = parseHop(hops[at]?.trim() ?? "");
    if (!hop) return client;
    client = hop;
  }
  return client;
}

const isLoopback = (address: string) => /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/.test(address) || address === "::1";

/** A Host that names this machine as it is known to itself. */
const OWN_NAME = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$/i;

/**
 * Asked from this machine itself, and by nobody in between. `address`: of the connection. Who is led here by a proxy that writes no header of its own
 * (HAProxy without `option forwardfor`, Envoy unless told to use the remote address) asks for the gateway's public name.
 */
export const isFromHere = ({ headers }: Pick<AskedHead, "headers">, address: string): boolean =>
  isLoopback(address) &&
  !FORWARDING.some((name) => headers.has(name)) &&
  // Without the header the request comes from inside this process.
  OWN_NAME.test(headers.get("host") ?? "localhost");

/**
 * Reads from where a request comes. `X-Forwarded-For` counts only when the connection comes from a trusted proxy: anybody can write it
 * (reliability 4). Undefined where no connection is known: a call inside the process, a Unix socket. Throws TypeError for a proxy that is no address or range.
 */
export function createAddressReader(
  peers: () => PeerSource,
  trustedProxies: readonly string[],
): (request: AskedHead) => Address | undefined {
  const trusted = trustedProxies.map((text) => {
    const range = parseProxyRange(text);
    if (!range) throw new TypeError(`${JSON.stringify(text)} is no address and no range.`);
    return range;
  });
  return (request) => {
    const address = "peer" in request ? request.peer : peers()?.requestIP(request)?.address;
    const peer = parse(address ?? "");
    if (!peer) return undefined;
    if (isFromHere(request, address ?? "")) return { ...toAddress(peer), isLocal: true };
    const forwarded = trusted.length > 0 ? request.headers.get("x-forwarded-for") : null;
    return toAddress(forwarded === null ? peer : behindProxies(peer, forwarded, trusted));
  };
}
