import type { Route } from "../../catalog/entry.ts";
import type { VendorHealth, Way } from "../../vendors/health.ts";
import { keysOf } from "../../vendors/keys.ts";
import type { Vendor } from "../../vendors/vendor.ts";

/** One way to a model that may be tried: a route, and its vendor with one of its keys. */
export type Candidate = { route: Route; vendor: Vendor; way: Way };

/** What decides in which order ways are tried. */
export type RouteQuestion = {
  routes: readonly Route[];
  /** A vendor that is switched on. */
  vendor(id: string): Vendor | undefined;
  /** Names the conversation: asked only where there is a choice. */
  conversation(): string;
};

const wayOf = ({ id, serve }: Vendor, { model }: Route, key: number, keys: number): Way => ({
  ...{ vendor: id, key, keys, model },
  ...(serve && { inside: true }),
});

/** The way of a model that has but one, by its route: remembered as long as the vendor is the same. */
const onlyWays = new WeakMap<Route, Candidate[]>();

/** The way of nearly every request, where there is no choice and nothing to ask; undefined where there is one, or none. */
export function onlyWay(routes: readonly Route[], find: RouteQuestion["vendor"]): readonly Candidate[] | undefined {
  const [route] = routes;
  if (!route || routes.length > 1) return undefined;
  const vendor = find(route.vendor);
  if (!vendor || vendor.apiKeys !== undefined) return undefined;
  const known = onlyWays.get(route);
  if (known?.[0]?.vendor === vendor) return known;
  const ways = [{ route, vendor, way: wayOf(vendor, route, 0, 1) }];
  onlyWays.set(route, ways);
  return ways;
}

/**
 * The ways to a model in the order in which they are tried. Routes stand in the order of the catalog, or, where one of them has a weight,
 * so that each comes first for its part of the conversations; the keys of a vendor share its part evenly. A conversation always has the
 * same order, so that its vendor's prompt cache is found again: where a way falls away, the others keep their places. Pure.
 */
export function orderWays({ routes, vendor: find, conversation }: RouteQuestion): Candidate[] {
  const groups: Candidate[][] = [];
  for (const route of routes) {
    const vendor = find(route.vendor);
    if (!vendor) continue;
    const each = vendor.apiKeys === undefined ? [vendor] : keysOf(vendor);
    const keys = each.length;
    groups.push(each.map((keyed, key) => ({ route, vendor: keyed, way: wayOf(vendor, route, key, keys) })));
  }
  if (groups.length > 1 && routes.some(({ weight }) => weight !== undefined)) {
    return drawLots(groups.flat(), conversation());
  }
  if (groups.every(({ length }) => length === 1)) return groups.flat();
  const head = conversation();
  return groups.flatMap((group) => drawLots(group, head));
}

/**
 * Weighted rendezvous hashing: every way draws a lot from its own name and the conversation's, and the best lot is first. A way comes first
 * with the odds of its weight, and nothing has to be remembered, in this process or another.
 */
function drawLots(candidates: readonly Candidate[], head: string): Candidate[] {
  const drawn = candidates.map((candidate) => {
    const { way, route } = candidate;
    const hash = Bun.hash.xxHash64(`${way.vendor}#${way.key}/${way.model}\n${head}`);
    // Above 0 and below 1, from the upper 52 bits.
    const lot = (Number(hash >> 12n) + 0.5) / 2 ** 52;
    return { candidate, score: -((route.weight ?? 1) / way.keys) / Math.log(lot) };
  });
  return drawn.sort((first, second) => second.score - first.score).map(({ candidate }) => candidate);
}

/**
 * The ways that are free, in their order. Where every one is in trouble, those that may answer, the one whose rest ends first in front: a
 * gateway that asks nobody helps nobody (reliability 6.2). What was refused is asked only where all were; what is limited for a time that its
 * vendor named is not, so that there may be none.
 */
export function freeWays(ways: readonly Candidate[], health: VendorHealth): readonly Candidate[] {
  if (health.calm) return ways;
  const free = ways.filter(({ way }) => health.isFree(way));
  if (free.length > 0) return free;
  const accepted = ways.filter(({ way }) => !health.isRefused(way));
  const asked = accepted.filter(({ way }) => !health.isHeld(way));
  const left = accepted.length > 0 ? asked : [...ways];
  return left.sort((first, second) => health.freeAt(first.way) - health.freeAt(second.way));
}

/** When the first limit of these ways ends, monotonic ms; undefined where none is limited. */
export function limitEnds(ways: readonly Candidate[], health: VendorHealth): number | undefined {
  const ends = ways.map(({ way }) => health.limitedUntil(way)).filter((end) => end > 0);
  return ends.length > 0 ? Math.min(...ends) : undefined;
}
