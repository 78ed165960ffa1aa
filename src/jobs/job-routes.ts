import type { Catalog } from "../catalog/catalog.ts";
import type { Route } from "../catalog/entry.ts";
import { readRatio } from "../lib/pixels.ts";
import type { ImageUpstream } from "../vendors/image-upstream.ts";
import { nearestRatio } from "./aspect-ratio.ts";
import type { JobRow } from "./job.ts";

/** What tells which vendors draw a model by now. */
export type Drawers = {
  catalog: Catalog;
  /** How a vendor draws; undefined for one that is not switched on or draws nothing. */
  upstream(vendor: string): ImageUpstream | undefined;
};

/** Routes of the job's model to other vendors that draw what it wants, as they stand before and behind the one that was asked. */
export function otherRoutes(job: JobRow, { catalog, upstream }: Drawers): { before: Route[]; after: Route[] } {
  const routes = catalog.find(job.model)?.routes ?? [];
  const at = routes.findIndex(({ vendor, model }) => vendor === job.vendor && model === job.upstreamModel);
  const draws = ({ vendor, model }: Route) => {
    const drawer = upstream(vendor);
    return drawer && (job.sourceFile === null || drawer.traits(model).takesSource);
  };
  return { before: routes.slice(0, Math.max(0, at)).filter(draws), after: routes.slice(at + 1).filter(draws) };
}

/** The route along which the job is tried next: that of the model's next vendor which draws, in a circle; its own where there is no other. */
export function routeAfter(job: JobRow, drawers: Drawers): Route {
  const { before, after } = otherRoutes(job, drawers);
  return after[0] ?? before[0] ?? { vendor: job.vendor, model: job.upstreamModel };
}

/**
 * The ratio in which a route's vendor draws what was asked for. Vendors differ in those that they have: the job's own is that of the vendor before, and may be
 * farther from the size that was wanted.
 */
export function ratioAt({ vendor, model }: Route, { ratio, width, height }: JobRow, { upstream }: Drawers): string {
  const ratios = upstream(vendor)?.traits(model).ratios;
  if (!ratios) return ratio;
  return nearestRatio(width !== null && height !== null ? { width, height } : readRatio(ratio), ratios);
}
