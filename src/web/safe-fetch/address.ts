import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";

/**
 * Addresses that are not public although the list of ranges counts them so: at this one Azure's host server answers any virtual machine
 * (web-and-mcp.md C3).
 */
const NOT_PUBLIC = new Set(["168.63.129.16"]);

/** The range of all IPv6 addresses of the open internet. Others are assigned to no one, and the list of ranges counts many of them as public. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** An address as it is written; undefined for anything else, an address with a zone included. */
function parse(text: string): Address | undefined {
  return ipaddr.isValid(text) && !text.includes("%") ? ipaddr.parse(text) : undefined;
}

/** The one spelling of an address, brackets gone and an IPv4 address inside IPv6 unwrapped; undefined when it is none. */
export function canonicalAddress(text: string): string | undefined {
  const address = parse(text.replace(/^\[(.*)\]$/, "$1"));
  if (!address) return undefined;
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()
    ? address.toIPv4Address().toString()
    : address.toString();
}

/**
 * Whether `text` is an address of the open internet: global unicast, not of a private, loopback, link-local, shared, reserved,
 * documentation, benchmark or multicast range, and not an IPv6 form that hides an IPv4 address (reliability 7.5, web-and-mcp.md C3).
 * Pure. What cannot be read is not public.
 */
export function isPublicAddress(text: string): boolean {
  const address = parse(text);
  if (address?.range() !== "unicast") return false;
  if (address instanceof ipaddr.IPv4) return !NOT_PUBLIC.has(address.toString());
  return address.match(GLOBAL_UNICAST);
}

/** Loopback, and the unspecified address, which connects to loopback. */
function isLoopback(text: string): boolean {
  const range = parse(text)?.range();
  return range === "loopback" || range === "unspecified";
}

/** Every address of this machine's network interfaces, in its one spelling. */
function interfaceAddresses(): Set<string> {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return new Set(all.flatMap(({ address }) => canonicalAddress(address) ?? []));
}

/**
 * Whether `text` leads to this machine itself: loopback, or an address of one of its interfaces, which may be a public one. The system
 * is asked every time, since interfaces come and go.
 */
export function isOwnAddress(text: string): boolean {
  const canonical = canonicalAddress(text);
  return canonical !== undefined && (isLoopback(canonical) || interfaceAddresses().has(canonical));
}

/** Whether `text` is a range of addresses such as `10.0.0.0/8`. */
export const isRange = (text: string): boolean => ipaddr.isValidCIDR(text);

/** Whether `text` lies inside `range`, written as `10.0.0.0/8` or `fd00::/8`. */
export function isInRange(text: string, range: string): boolean {
  const canonical = canonicalAddress(text);
  const address = canonical === undefined ? undefined : parse(canonical);
  if (!address || !isRange(range)) return false;
  const [base, bits] = ipaddr.parseCIDR(range);
  return base.kind() === address.kind() && address.match(base as never, bits);
}
