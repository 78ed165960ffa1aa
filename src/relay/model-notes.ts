import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import type { Target } from "./read-reply.ts";

/** Accounts' models of one vendor of which something is kept in mind: the oldest go. */
const MAX_MODELS = 1_000;

type Asked = Pick<Job, "request">;
type Way = Pick<Target, "vendor" | "route">;

const keyOf = ({ request }: Asked, { route }: Way): string => `${request.caller.accountId} ${route.model}`;

/** Puts an entry into `map`, from which the oldest one goes where there are more than `most`. Gives the entry. */
export function keepNewest<V>(map: Map<string, V>, key: string, value: V, most: number): V {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
  return value;
}

/**
 * What vendors have shown of their models, by account and by their own names of models: what one account writes changes no other's requests. A vendor
 * whose row is read again begins anew.
 */
export class ModelNotes<V> {
  readonly #vendors = new WeakMap<Vendor, Map<string, V>>();

  /** What is noted of this way for whoever asks; undefined: nothing. */
  find(asked: Asked, way: Way): V | undefined {
    return this.#vendors.get(way.vendor)?.get(keyOf(asked, way));
  }

  /** Notes something in the place of what was. Gives it. */
  keep(asked: Asked, way: Way, note: V): V {
    const models = this.#vendors.get(way.vendor) ?? new Map<string, V>();
    this.#vendors.set(way.vendor, models);
    return keepNewest(models, keyOf(asked, way), note, MAX_MODELS);
  }
}
