import type { Vendor } from "./vendor.ts";

/** `rows`, with the object of `before` in the place of each vendor that has not changed: what is remembered by the object stays known. */
export const keepSame = (rows: readonly Vendor[], before: ReadonlyMap<string, Vendor>): readonly Vendor[] =>
  rows.map((vendor) => {
    const known = before.get(vendor.id);
    return known && Bun.deepEquals(known, vendor) ? known : vendor;
  });

/** Replaces what is in `vendors`, a map by id that others hold, by `rows`. Returns the ids of the rows that are new or have changed. */
export function replaceVendors(vendors: Map<string, Vendor>, rows: readonly Vendor[]): string[] {
  const changed = rows.filter((vendor) => vendors.get(vendor.id) !== vendor).map(({ id }) => id);
  vendors.clear();
  for (const vendor of rows) vendors.set(vendor.id, vendor);
  return changed;
}
