import type { GatewayError } from "../../canon/errors.ts";
import { BETAS, betasIn, betasKey, leaveOutBetas, leaveOutExtras } from "../../dialects/messages/refused-extras.ts";
import { refusalWords } from "../../dialects/refusals/vendor-said.ts";
import { isObject } from "../../lib/json.ts";
import { type Edits, JsonText } from "../../lib/json-text.ts";
import { keepNewest } from "../../lib/keep-newest.ts";
import { HOUR_MS } from "../../lib/spans.ts";
import { wholeText } from "../../lib/text-pieces.ts";
import type { Sending } from "../../vendors/send.ts";
import type { Job } from "../job.ts";
import type { Target } from "../target.ts";
import { ModelNotes } from "./model-notes.ts";

/** How long a refusal is kept in mind, ms: servers of a dialect learn in time what its own vendor knows already. */
export const KEPT_MS = HOUR_MS;
/** How many refused things are kept in mind for one account and one vendor's model: the oldest go. */
const MAX_REFUSED = 32;
/** How often one request is sent again at the most because a refusal has taught something. */
export const MAX_LESSONS = 8;

/** What was refused: paths of fields, single betas, or all betas of a request as one; with the time until which it is kept in mind, monotonic ms. */
type Refused = Map<string, number>;

/** What vendors have refused. */
const known = new ModelNotes<Refused>();

type Asked = Pick<Job, "request" | "services">;

/** What this account's requests to this model have been refused of late. */
function refusedOf(asked: Asked, target: Target): string[] {
  const refused = known.find(asked, target);
  if (!refused) return [];
  const now = asked.services.clock.monotonic();
  return [...refused].flatMap(([extra, until]) => (until > now ? [extra] : []));
}

/**
 * Whether the vendor refused nothing but what it does not know of its dialect, and had not refused before: without that the request can be told
 * again, and so is every later one. Nothing was billed.
 */
export function learnRefused(error: GatewayError, target: Target, job: Asked & Pick<Job, "body" | "lessons">): boolean {
  const { vendor, upstream } = target;
  const lessons = (job.lessons ?? 0) + 1;
  if (error.code !== "invalid_request" || lessons > MAX_LESSONS) return false;
  const paths = upstream.refusedFields?.(refusalWords(error), vendor.quirks) ?? [];
  if (paths.length === 0) return false;
  const before = refusedOf(job, target);
  const extras = paths.map((path) => (path === BETAS ? betasOf(job) : path)).filter((extra) => !before.includes(extra));
  if (extras.length === 0) return false;
  job.lessons = lessons;
  const refused = known.find(job, target) ?? known.keep(job, target, new Map<string, number>());
  const until = job.services.clock.monotonic() + KEPT_MS;
  for (const extra of extras) keepNewest(refused, extra, until, MAX_REFUSED);
  return true;
}

/** The betas that a client asked for, as they are kept in mind. */
const betasOf = ({ request, body }: Pick<Job, "request" | "body">): string =>
  betasKey(betasIn(request.headers.get(BETAS), body.value));

/** What is sent, without what this vendor is known to refuse, and the places of that; the very same where there is nothing. */
export function leaveOutRefused(sending: Sending, asked: Asked, target: Target): { sending: Sending; lost: string[] } {
  const refused = refusedOf(asked, target);
  if (refused.length === 0) return { sending, lost: [] };
  const text = new JsonText(wholeText(sending.body));
  const told = isObject(text.value) ? text.value : {};
  const betas = leaveOutBetas(sending.headers[BETAS], told, refused);
  const { edits, lost } = leaveOutExtras(told, refused);
  if (!betas) return { sending: withBody(sending, text, edits), lost };
  const { [BETAS]: _refused, ...others } = sending.headers;
  const headers = betas.header === "" ? others : { ...others, [BETAS]: betas.header };
  return { sending: { ...withBody(sending, text, { ...edits, ...betas.edits }), headers }, lost: [BETAS, ...lost] };
}

const withBody = (sending: Sending, text: JsonText, edits: Edits): Sending =>
  Object.keys(edits).length > 0 ? { ...sending, body: text.edit(edits) } : sending;
