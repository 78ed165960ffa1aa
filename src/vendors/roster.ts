import type { Vendor } from "./vendor.ts";

/** `rows`, in which each vendor that is as it was `before` is the same object: what is known of it stays known. */
export const keepSame = (rows: readonly Vendor[], before: ReadonlyMap<string, Vendor>): readonly Vendor[] =>
  rows.map((vendor) => {
    const known = before.get(vendor.id);
    return known && Bun.deepEquals(known, vendor) ? known : vendor;
  });

/** Has `vendors`, which others hold, be those of `rows`, by id. Gives the ids of those that are others than before. */
export function replaceVendors(vendors: Map<string, Vendor>, rows: readonly Vendor[]): string[] {
  const changed = rows.filter((vendor) => vendors.get(vendor.id) !== vendor).map(({ id }) => id);
  vendors.clear();
  for (const vendor of rows) vendors.set(vendor.id, vendor);
  return changed;
}
