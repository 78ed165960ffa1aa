import type { Vendor } from "./vendor.ts";

const keyed = new WeakMap<Vendor, readonly Vendor[]>();

/**
 * A copy of the vendor for each of its keys, in their order, that has this key alone; the vendor itself where it has one or none. The same object always gives
 * the same copies.
 */
export function keysOf(vendor: Vendor): readonly Vendor[] {
  let each = keyed.get(vendor);
  if (!each) {
    const { apiKeys: keys = [], ...row } = vendor;
    each = keys.length < 2 ? [vendor] : keys.map((apiKey): Vendor => ({ ...row, apiKey }));
    keyed.set(vendor, each);
  }
  return each;
}
