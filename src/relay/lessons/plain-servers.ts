import { type GatewayError, toGatewayError } from "../../canon/errors.ts";
import type { Lesson, Quirks, VendorTerms } from "../../dialects/dialect.ts";
import { refusalWords } from "../../dialects/refusals/vendor-said.ts";
import { isSame } from "../../dialects/translate.ts";
import { MINUTE_MS } from "../../lib/spans.ts";
import type { Job } from "../job.ts";
import type { Target } from "../target.ts";
import { ModelNotes } from "./model-notes.ts";
import { MAX_LESSONS } from "./refused-extras.ts";

/** How long it is kept in mind that a server took a request only when it was told it otherwise, ms. */
export const PLAIN_MS = 10 * MINUTE_MS;

type Asked = Pick<Job, "request" | "services" | "body" | "plainly">;

/** How requests are told otherwise. */
const known = new ModelNotes<{ terms: VendorTerms; isPlain: boolean }>(PLAIN_MS);

/** What was learnt for this request of this model of the vendor's: of another one nothing is known by that. */
const plainlyFor = ({ plainly }: Asked, { vendor, route }: Target) =>
  plainly?.vendor === vendor && plainly.model === route.model ? plainly : undefined;

/** The terms in which every server of the dialect can be told this request; undefined where they are the ones in which it was written. */
const plainTermsOf = ({ body }: Asked, { client, upstream, vendor }: Target): Quirks | undefined =>
  isSame(client, upstream) ? upstream.plainer?.(body.value, vendor.quirks) : undefined;

/**
 * Whether the vendor refused a request that can be told otherwise: some servers of a dialect know less of it than its own vendor does, and their rows
 * need not say so. `job` is told so: in plainer terms once, or, in a dialect whose servers say what they refuse, as often as that changes anything
 * of what they are told, `told`, and at most {@link MAX_LESSONS} times. Nothing was billed.
 */
export function tellPlainly(
  error: GatewayError,
  target: Target,
  job: Asked & Pick<Job, "lessons">,
  told: () => string,
): boolean {
  const { vendor, upstream, route } = target;
  if (error.code !== "invalid_request") return false;
  const words = refusalWords(error);
  if (learnTerms((terms) => upstream.lessons?.(words, terms) ?? [], target, job, told)) return true;
  // What was learnt of this request alone is learnt again.
  if (plainlyFor(job, target)?.lasting) return false;
  const quirks = plainTermsOf(job, target);
  if (quirks) job.plainly = { vendor, model: route.model, quirks, lasting: { quirks }, isPlain: true };
  return quirks !== undefined;
}

/** What is sent, as it is told; undefined where it cannot be. */
function tryTelling(told: () => string): string | undefined {
  try {
    return told();
  } catch (thrown) {
    // What cannot be told so is told to the client in the vendor's words.
    if (toGatewayError(thrown).code === "invalid_request") return undefined;
    throw thrown;
  }
}

/** Has `job` told in the first of the terms taught that change anything. What is learnt of it once is not `lasting`. */
function learnTerms(
  teach: (terms: VendorTerms) => Lesson[],
  target: Target,
  job: Asked & Pick<Job, "lessons">,
  told: () => string,
): boolean {
  const { vendor, route } = target;
  const taught = teach(termsFor(job, target));
  const lessons = (job.lessons ?? 0) + 1;
  if (taught.length === 0 || lessons > MAX_LESSONS) return false;
  const { plainly } = job;
  const lasting = plainlyFor(job, target)?.lasting;
  const toKeep = teach(lasting ?? keptTerms(job, target));
  const refused = tryTelling(told);
  for (const [at, { isOnce, ...terms }] of taught.entries()) {
    job.plainly = { vendor, model: route.model, ...terms, lasting: isOnce ? lasting : toKeep[at] };
    const changed = tryTelling(told);
    if (changed === undefined || changed === refused) continue;
    job.lessons = lessons;
    return true;
  }
  if (plainly) job.plainly = plainly;
  else delete job.plainly;
  return false;
}

/** The request was answered: where it had to be told otherwise for that, the next ones are told so at once, as far as that is likely to help them. */
export function keepPlain(job: Asked, target: Target): void {
  const { lasting: terms, isPlain = false } = plainlyFor(job, target) ?? {};
  if (terms !== undefined) known.keep(job, target, { terms, isPlain });
}

/** What is to be minded of a target's vendor, for this request. */
export function termsFor(asked: Asked, target: Target): VendorTerms {
  return plainlyFor(asked, target) ?? keptTerms(asked, target);
}

/** What was learnt of a target's vendor before this request. */
function keptTerms(asked: Asked, target: Target): VendorTerms {
  const usual = { quirks: target.vendor.quirks };
  const kept = known.find(asked, target);
  if (!kept) return usual;
  if (!kept.isPlain) return kept.terms;
  const quirks = plainTermsOf(asked, target);
  return quirks ? { quirks } : usual;
}
