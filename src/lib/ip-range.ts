import ipaddr from "ipaddr.js";

export type Ip = ipaddr.IPv4 | ipaddr.IPv6;
/** A network, and how many of its first bits count. */
export type IpRange = readonly [network: Ip, bits: number];

/** An IP address; undefined for anything else, including `127.1` and `0x7f.1`, which only the C library takes for addresses and nobody writes. */
export function parseIp(text: string): Ip | undefined {
  if (ipaddr.IPv6.isValid(text)) return ipaddr.IPv6.parse(text);
  return ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text) : undefined;
}

/** An address (`10.0.0.7`) or a range (`10.0.0.0/8`, `fd00::/8`); undefined for what is neither. `parse`: how its address is read. */
export function parseIpRange(text: string, parse: (text: string) => Ip | undefined = parseIp): IpRange | undefined {
  const [address = "", bits, ...more] = text.split("/");
  const network = parse(address);
  if (!network || more.length > 0) return undefined;
  const most = network.kind() === "ipv4" ? 32 : 128;
  if (bits === undefined) return [network, most];
  const length = /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN;
  return length <= most ? [network, length] : undefined;
}

/** Whether an address is in a range of its own kind. */
export const isInIpRange = (address: Ip, [network, bits]: IpRange): boolean =>
  network.kind() === address.kind() && address.match(network, bits);
