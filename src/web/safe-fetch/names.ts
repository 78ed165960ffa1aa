import { lookup, Resolver } from "node:dns/promises";

/**
 * For how long addresses of one kind wait for those of the other, milliseconds: there are name servers that say nothing when they are asked for IPv6 (RFC
 * 4074, 4.1), and those are asked again and again for 24 seconds. RFC 8305 waits a twentieth of a second; here as many as there are shall be checked.
 */
const OTHER_KIND_MS = 1_000;

/** Every address of a name. Rejects when there is none. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** As the system has it, which knows the names of the network inside too. */
export const resolveBySystem: Resolve = async (host) => {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
};

/** The addresses of both kinds in turn: of a kind that this machine has no way to, only a few are tried before the other. */
function interleave(one: readonly string[], other: readonly string[]): readonly string[] {
  const longest = one.length > other.length ? one : other;
  return longest.flatMap((_, at) => [one[at], other[at]].filter((address) => address !== undefined));
}

/**
 * By DNS alone. The system's resolver works in the runtime's threads, as many as there are processors, and each is taken for ten seconds and longer by a
 * name whose servers are silent: two dead links that somebody wanted read, and no vendor's name was found any more, for anybody. `servers`: who is asked,
 * with their ports; default: as the system has it.
 */
export function resolveByDns(servers?: readonly string[]): Resolve {
  return async (host) => {
    // A new one each time: it reads who is to be asked when it is made, and that changes with the network.
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

/** For names of the open internet. On other systems than Linux the runtime does not wait in threads, or who is to be asked is known to the system alone. */
export const resolvePublic: Resolve = process.platform === "linux" ? resolveByDns() : resolveBySystem;
