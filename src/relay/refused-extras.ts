import type { GatewayError } from "../canon/errors.ts";
import { BETAS, leaveOutExtras, readRefusedExtras } from "../dialects/messages/refused-extras.ts";
import { isSame } from "../dialects/translate.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, JsonText } from "../lib/json.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import type { Target } from "./read-reply.ts";

/** How long a refusal is kept in mind, ms: vendors learn later what the dialect's own one knows. */
export const KEPT_MS = 60 * 60_000;
/** Different things that one model's vendor refuses, and models of one vendor that are kept in mind. */
const MAX_REFUSED = 32;
const MAX_MODELS = 200;

/** Calls that one request makes at the most to find out what its vendor refuses. */
const MAX_CALLS = 10;

type Asked = Pick<Job, "request" | "body" | "services">;
type Refused = { paths: Set<string>; until: number };

/** What vendors have refused, by their own names of models. A vendor whose row is read again begins anew. */
const known = new WeakMap<Vendor, Map<string, Refused>>();

function refusedBy({ vendor, route }: Target, clock: Clock): Refused | undefined {
  const found = known.get(vendor)?.get(route.model);
  return found && found.until > clock.monotonic() ? found : undefined;
}

function remember(target: Target, clock: Clock): Refused {
  const { vendor, route } = target;
  const models = known.get(vendor) ?? new Map<string, Refused>();
  known.set(vendor, models);
  const refused = refusedBy(target, clock) ?? { paths: new Set<string>(), until: clock.monotonic() + KEPT_MS };
  models.set(route.model, refused);
  const [oldest] = models.keys();
  if (models.size > MAX_MODELS && oldest !== undefined) models.delete(oldest);
  return refused;
}

/** Only where a client wrote for the dialect's own vendor, and another one reads it. */
const mayRefuse = ({ client, upstream, vendor }: Target): boolean =>
  vendor.quirks.refusesExtras === true && isSame(client, upstream);

/** Whether a request says any of what is refused: in its body, or as betas in its head. */
function says({ request, body }: Asked, path: string): boolean {
  if (path === BETAS && request.headers.has(BETAS)) return true;
  return leaveOutExtras(body.value as Record<string, unknown>, [path]).lost.length > 0;
}

/**
 * Whether the vendor refused nothing but what it does not know of its dialect, and had not refused before: without that the request can be told
 * again, and so is every later one. Nothing was billed.
 */
export function learnRefused(
  { code, cause }: GatewayError,
  target: Target,
  asked: Asked & { exchange: { attempts: number } },
): boolean {
  if (code !== "invalid_request" || !mayRefuse(target) || asked.exchange.attempts >= MAX_CALLS) return false;
  const message = isObject(cause) && typeof cause["message"] === "string" ? cause["message"] : "";
  const { clock } = asked.services;
  const before = refusedBy(target, clock)?.paths;
  const paths = readRefusedExtras(message).filter((path) => !before?.has(path) && says(asked, path));
  if (paths.length === 0 || (before?.size ?? 0) + paths.length > MAX_REFUSED) return false;
  const refused = remember(target, clock);
  for (const path of paths) refused.paths.add(path);
  return true;
}

/**
 * The request without what this vendor is known to refuse, which is named; the very same where there is nothing. `withoutBetas`: it is told none of
 * those in the client's head.
 */
export function leaveOutRefused<T extends Asked & Pick<Job, "lost">>(
  asked: T,
  target: Target,
): T & { withoutBetas?: boolean } {
  const paths = mayRefuse(target) ? refusedBy(target, asked.services.clock)?.paths : undefined;
  if (!paths) return asked;
  const { edits, lost } = leaveOutExtras(asked.body.value as Record<string, unknown>, paths);
  const withoutBetas = paths.has(BETAS) && asked.request.headers.has(BETAS);
  if (withoutBetas && !lost.includes(BETAS)) lost.push(BETAS);
  if (lost.length === 0) return asked;
  const body = Object.keys(edits).length > 0 ? new JsonText(asked.body.edit(edits)) : asked.body;
  return { ...asked, body, withoutBetas, lost: [...(asked.lost ?? []), ...lost] };
}
