import type { GatewayError } from "../canon/errors.ts";
import { BETAS, leaveOutExtras, readRefusedExtras } from "../dialects/messages/refused-extras.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, JsonText, wholeText } from "../lib/json.ts";
import type { Sending } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import type { Target } from "./read-reply.ts";

/** How long a refusal is kept in mind, ms: vendors learn later what the dialect's own one knows. */
export const KEPT_MS = 60 * 60_000;
/** Different things that one model's vendor refuses, and models of one vendor, that are kept in mind: the oldest go. */
const MAX_REFUSED = 32;
const MAX_MODELS = 200;
/** How often one request is told again. */
const MAX_LESSONS = 8;

/** Paths, and until when they are kept in mind. */
type Refused = Map<string, number>;

/** What vendors have refused, by their own names of models. A vendor whose row is read again begins anew. */
const known = new WeakMap<Vendor, Map<string, Refused>>();

function keep<V>(map: Map<string, V>, key: string, value: V, most: number): V {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
  return value;
}

/** The paths that this model's vendor has refused of late. */
function refusedBy({ vendor, route }: Target, clock: Clock): string[] {
  const refused = known.get(vendor)?.get(route.model);
  if (!refused) return [];
  const now = clock.monotonic();
  return [...refused].flatMap(([path, until]) => (until > now ? [path] : []));
}

/**
 * Whether the vendor refused nothing but what it does not know of its dialect, and had not refused before: without that the request can be told
 * again, and so is every later one. Nothing was billed.
 */
export function learnRefused(
  { code, cause }: GatewayError,
  target: Target,
  job: Pick<Job, "services" | "lessons">,
): boolean {
  const { vendor, route } = target;
  const lessons = (job.lessons ?? 0) + 1;
  if (code !== "invalid_request" || !vendor.quirks.refusesExtras || lessons > MAX_LESSONS) return false;
  const { clock } = job.services;
  const before = refusedBy(target, clock);
  // As the vendor said it: in what the client reads, a model's name may be another.
  const words = isObject(cause) && typeof cause["message"] === "string" ? cause["message"] : "";
  const paths = readRefusedExtras(words).filter((path) => !before.includes(path));
  if (paths.length === 0) return false;
  job.lessons = lessons;
  const models = known.get(vendor) ?? new Map<string, Refused>();
  known.set(vendor, models);
  const refused = models.get(route.model) ?? keep(models, route.model, new Map(), MAX_MODELS);
  for (const path of paths) keep(refused, path, clock.monotonic() + KEPT_MS, MAX_REFUSED);
  return true;
}

/** What is sent, without what this vendor is known to refuse, and the places of that; the very same where there is nothing. */
export function leaveOutRefused(sending: Sending, target: Target, clock: Clock): { sending: Sending; lost: string[] } {
  const paths = target.vendor.quirks.refusesExtras ? refusedBy(target, clock) : [];
  if (paths.length === 0) return { sending, lost: [] };
  const text = new JsonText(wholeText(sending.body));
  const { edits, lost } = leaveOutExtras(isObject(text.value) ? text.value : {}, paths);
  const body = Object.keys(edits).length > 0 ? text.edit(edits) : sending.body;
  const { [BETAS]: betas, ...headers } = sending.headers;
  if (betas === undefined || !paths.includes(BETAS)) return { sending: { ...sending, body }, lost };
  return { sending: { ...sending, body, headers }, lost: [...new Set([...lost, BETAS])] };
}
