import { keepNewest } from "../../lib/keep-newest.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import type { Job } from "../job.ts";
import type { Target } from "../target.ts";

/** Notes that are kept of one vendor, one for each account and model: the oldest go. */
const MAX_MODELS = 1_000;

type Asked = Pick<Job, "request" | "services">;
type Way = Pick<Target, "vendor" | "route">;

const keyOf = ({ request }: Asked, { route }: Way): string => `${request.caller.accountId} ${route.model}`;

/**
 * What vendors have shown of their models by refusing requests. Each account has notes of its own, so that what one account writes changes no other's requests.
 * They are lost with the vendor's row: one that is configured anew may have changed.
 */
export class ModelNotes<V> {
  readonly #vendors = new WeakMap<Vendor, Map<string, { note: V; until: number }>>();

  /** `keepMs`: how long a note counts, ms; absent: as long as there is room for it. */
  constructor(private readonly keepMs = Number.POSITIVE_INFINITY) {}

  /** What is noted of this way for whoever asks; undefined: nothing, or not any more. */
  find(asked: Asked, way: Way): V | undefined {
    const kept = this.#vendors.get(way.vendor)?.get(keyOf(asked, way));
    return kept && kept.until > asked.services.clock.monotonic() ? kept.note : undefined;
  }

  /** Notes something in the place of what was. Gives it. */
  keep(asked: Asked, way: Way, note: V): V {
    const models = this.#vendors.get(way.vendor) ?? new Map<string, { note: V; until: number }>();
    this.#vendors.set(way.vendor, models);
    const until = asked.services.clock.monotonic() + this.keepMs;
    return keepNewest(models, keyOf(asked, way), { note, until }, MAX_MODELS).note;
  }
}
