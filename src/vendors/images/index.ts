import type { ImageUpstream } from "../image-upstream.ts";
import { keysOf } from "../keys.ts";
import type { Vendor } from "../vendor.ts";
import { createUpstream, type ImageTools } from "./engine.ts";
import { overKeys } from "./keyed.ts";
import { rowOf } from "./rows.ts";

/**
 * Finds what draws for a vendor: its own `images`, else its wire by its row (dialects.md 7); undefined for a vendor that draws nothing. One
 * upstream is made for each vendor and kept. `tools.fetchResult` is the guarded fetch (contract 9): results come from addresses that
 * vendors write.
 */
export function createImageUpstreams(tools: ImageTools): (vendor: Vendor | undefined) => ImageUpstream | undefined {
  const made = new WeakMap<Vendor, ImageUpstream>();
  return (vendor) => {
    if (!vendor || vendor.images) return vendor?.images;
    const known = made.get(vendor);
    if (known) return known;
    const row = rowOf(vendor);
    if (!row) return undefined;
    const each = keysOf(vendor).map((keyed) => createUpstream(keyed, row, tools));
    const [only] = each;
    const upstream = each.length === 1 && only ? only : overKeys(each, tools.clock);
    made.set(vendor, upstream);
    return upstream;
  };
}
