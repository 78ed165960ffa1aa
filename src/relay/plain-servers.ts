import type { GatewayError } from "../canon/errors.ts";
import type { Quirks } from "../dialects/dialect.ts";
import { isSame } from "../dialects/translate.ts";
import { MINUTE_MS } from "../lib/spans.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import type { Target } from "./read-reply.ts";

/** How long it is kept in mind that a server took a request only when it was told it plainly, ms. */
export const PLAIN_MS = 10 * MINUTE_MS;
/** Accounts' models of one vendor that are kept in mind: the oldest go. */
const MAX_MODELS = 1_000;

type Asked = Pick<Job, "request" | "services" | "body" | "plainly">;

/** Until when whom's requests to which of a vendor's models are told plainly: what one account writes changes no other's requests. */
const known = new WeakMap<Vendor, Map<string, number>>();

const keyOf = ({ request }: Asked, { route }: Target): string => `${request.caller.accountId} ${route.model}`;

/** The terms in which every server of the dialect can be told this request; undefined where they are the ones in which it was written. */
const plainTermsOf = ({ body }: Asked, { client, upstream, vendor }: Target): Quirks | undefined =>
  isSame(client, upstream) ? upstream.plainer?.(body.value as Record<string, unknown>, vendor.quirks) : undefined;

/**
 * Whether the vendor refused a request that can be told more plainly: some servers of a dialect know less of it than its own vendor does, and their rows
 * need not say so. `job` is told so, once. Nothing was billed.
 */
export function tellPlainly({ code }: GatewayError, target: Target, job: Asked): boolean {
  const { vendor } = target;
  if (code !== "invalid_request" || job.plainly?.vendor === vendor) return false;
  const quirks = plainTermsOf(job, target);
  if (quirks) job.plainly = { vendor, quirks };
  return quirks !== undefined;
}

/** The request was answered: where it had to be told plainly for that, the next ones are told so at once. */
export function keepPlain(job: Asked, target: Target): void {
  const { vendor } = target;
  if (job.plainly?.vendor !== vendor) return;
  const models = known.get(vendor) ?? new Map<string, number>();
  known.set(vendor, models);
  models.set(keyOf(job, target), job.services.clock.monotonic() + PLAIN_MS);
  const [oldest] = models.keys();
  if (models.size > MAX_MODELS && oldest !== undefined) models.delete(oldest);
}

/** What is to be minded of a target's vendor, for this request. */
export function quirksFor(asked: Asked, target: Target): Quirks {
  const { vendor } = target;
  if (asked.plainly?.vendor === vendor) return asked.plainly.quirks;
  const until = known.get(vendor)?.get(keyOf(asked, target));
  const isPlain = until !== undefined && until > asked.services.clock.monotonic();
  return (isPlain ? plainTermsOf(asked, target) : undefined) ?? vendor.quirks;
}
