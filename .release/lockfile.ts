/** Tells by the lockfile which packages are in the executable: the dependencies of package.json, and all that those need. */

/** One package at one place of the tree. */
export type LockedPackage = {
  /** Its place: the names of the packages it lies in, and its own, with slashes between. Unique. */
  place: string;
  name: string;
  version: string;
  /** As npm writes it, `sha512-` and base64; absent for what did not come from a registry. */
  integrity?: string;
  /** Places of what it needs. */
  needs: string[];
};

type Names = Record<string, string>;
type Row = { dependencies?: Names; optionalDependencies?: Names; peerDependencies?: Names; optionalPeers?: string[] };
type Lockfile = {
  lockfileVersion: number;
  workspaces: Record<string, { dependencies?: Names }>;
  packages: Record<string, unknown[]>;
};

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** The parts of a place: a scoped name is one part. */
const splitPlace = (place: string): string[] => place.match(/@[^/]+\/[^/]+|[^/]+/g) ?? [];

/** Where `name` is found from `place`: inside it, else inside what it lies in, and so on outwards. */
function findPlace(packages: Lockfile["packages"], place: string, name: string): string | undefined {
  const parts = splitPlace(place);
  for (let length = parts.length; length >= 0; length--) {
    const candidate = [...parts.slice(0, length), name].join("/");
    if (Object.hasOwn(packages, candidate)) return candidate;
  }
  return undefined;
}

/** Names of the packages that a package needs, sorted. Optional peers are left out: they are installed only when another package names them. */
function namesNeeded({ dependencies, optionalDependencies, peerDependencies, optionalPeers = [] }: Row): string[] {
  const peers = Object.keys(peerDependencies ?? {}).filter((name) => !optionalPeers.includes(name));
  return [...new Set([...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers])].sort();
}

function readPackage(packages: Lockfile["packages"], place: string): LockedPackage {
  const row = packages[place];
  const spec = row?.[0];
  if (!row || typeof spec !== "string") throw new Error(`the lockfile's row of ${place} is not understood`);
  const at = spec.lastIndexOf("@");
  const integrity = row.find((value): value is string => typeof value === "string" && value.startsWith("sha512-"));
  const details = row.find(isRecord) as Row | undefined;
  const needs = namesNeeded(details ?? {}).map((name) => findPlace(packages, place, name));
  return {
    place,
    name: spec.slice(0, at),
    version: spec.slice(at + 1),
    ...(integrity && { integrity }),
    needs: needs.filter((found) => found !== undefined),
  };
}

/**
 * The packages of `text`, a bun.lock, that a production install has, by place. Throws Error when the file is of another version, or names a
 * dependency without a row.
 */
export function readLockedPackages(text: string): LockedPackage[] {
  const lock = Bun.JSONC.parse(text) as Lockfile;
  if (lock.lockfileVersion !== 2)
    throw new Error(`bun.lock is of version ${lock.lockfileVersion}, and 2 is understood`);
  const found = new Map<string, LockedPackage>();
  const waiting = Object.keys(lock.workspaces[""]?.dependencies ?? {});
  for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
    if (found.has(place)) continue;
    const read = readPackage(lock.packages, place);
    found.set(place, read);
    waiting.push(...read.needs);
  }
  return [...found.values()].sort((one, other) => (one.place < other.place ? -1 : 1));
}

/** Where a package lies once installed, from the top of the repository. */
export const folderOf = (place: string): string => `node_modules/${splitPlace(place).join("/node_modules/")}`;
