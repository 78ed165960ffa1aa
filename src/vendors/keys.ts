import type { Vendor } from "./vendor.ts";

const keyed = new WeakMap<Vendor, readonly Vendor[]>();

/**
 * A vendor once for each of its keys, in their order; the vendor itself where it has one or none. The same objects as long as the vendor is
 * the same.
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
