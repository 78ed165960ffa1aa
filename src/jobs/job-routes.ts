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

/** The other routes of the job's model to vendors that draw what it wants, as they stand before and behind the one that was asked. */
export function otherRoutes(job: JobRow, { catalog, upstream }: Drawers): { before: Route[]; after: Route[] } {
  const routes = catalog.find(job.model)?.routes ?? [];
  const at = routes.findIndex(({ vendor, model }) => vendor === job.vendor && model === job.upstreamModel);
  const draws = ({ vendor, model }: Route) => {
    const drawer = upstream(vendor);
    return drawer && (job.sourceFile === null || drawer.traits(model).takesSource);
  };
  return { before: routes.slice(0, Math.max(0, at)).filter(draws), after: routes.slice(at + 1).filter(draws) };
}

/** Those behind the route that was asked, and all along which the job may be tried next, in a circle from there: its own, which is the last, is always one. */
export function routesAround(job: JobRow, drawers: Drawers): { after: Route[]; around: Route[] } {
  const { before, after } = otherRoutes(job, drawers);
  return { after, around: [...after, ...before, { vendor: job.vendor, model: job.upstreamModel }] };
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
