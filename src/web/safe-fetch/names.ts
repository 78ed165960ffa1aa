import { lookup, Resolver } from "node:dns/promises";

/**
 * How long addresses of one kind, once known, wait for those of the other, milliseconds: some name servers do not answer questions for IPv6 (RFC 4074, 4.1),
 * and would be asked again for 24 seconds. RFC 8305 waits 50 ms; here it is longer, since all of a name's addresses are to be checked.
 */
const OTHER_KIND_MS = 1_000;

/** Resolves to every address of a name. Rejects when there is none. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** The system's own resolver, which also knows names of the private network. */
export const resolveBySystem: Resolve = async (host) => {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
};

/** The addresses of both kinds in turn, so that few of a kind which this machine cannot reach are tried before one of the other. */
function interleave(one: readonly string[], other: readonly string[]): readonly string[] {
  const longest = one.length > other.length ? one : other;
  return longest.flatMap((_, at) => [one[at], other[at]].filter((address) => address !== undefined));
}

/**
 * A resolver by DNS alone. The system's runs in the runtime's threads, of which there are as many as processors, and a name whose servers do not answer takes
 * one for ten seconds and longer: on two processors, two dead links kept every vendor's name from being resolved. `servers`: name servers, with their ports;
 * default: the system's.
 */
export function resolveByDns(servers?: readonly string[]): Resolve {
  return async (host) => {
    // A new one each time: it reads the system's name servers when it is made, and they change with the network.
    const resolver = new Resolver();
    if (servers) resolver.setServers(servers);
    const asked = [resolver.resolve4(host), resolver.resolve6(host)] as const;
    const giveUp = () => setTimeout(() => resolver.cancel(), OTHER_KIND_MS);
    const patience = Promise.any(asked).then(giveUp, () => undefined);
    const [four, six] = await Promise.allSettled(asked);
    clearTimeout(await patience);
    if (four.status === "rejected" && six.status === "rejected") throw four.reason;
    const found = (kind: typeof four) => (kind.status === "fulfilled" ? kind.value : []);
    return interleave(found(four), found(six));
  };
}

/**
 * The resolver for names of the open internet. Elsewhere than on Linux it is the system's: either the runtime does not wait in threads there, or only the system
 * knows the name servers.
 */
export const resolvePublic: Resolve = process.platform === "linux" ? resolveByDns() : resolveBySystem;
