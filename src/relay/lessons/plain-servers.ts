import { type GatewayError, toGatewayError } from "../../canon/errors.ts";
import type { Lesson, Quirks, VendorTerms } from "../../dialects/dialect.ts";
import { refusalWords } from "../../dialects/refusals/vendor-said.ts";
import { isSame } from "../../dialects/translate.ts";
import { MINUTE_MS } from "../../lib/spans.ts";
import type { Job } from "../job.ts";
import type { Target } from "../target.ts";
import { ModelNotes } from "./model-notes.ts";
import { MAX_LESSONS } from "./refused-extras.ts";

/** How long it is kept in mind that a server took a request only in other terms than it was written in, ms. */
export const PLAIN_MS = 10 * MINUTE_MS;

type Asked = Pick<Job, "request" | "services" | "body" | "plainly">;

/** In which terms a vendor's model took requests that it had refused before. */
const known = new ModelNotes<{ terms: VendorTerms; isPlain: boolean }>(PLAIN_MS);

/** What this request has learnt of this vendor's model; what it has learnt of another one says nothing here. */
const plainlyFor = ({ plainly }: Asked, { vendor, route }: Target) =>
  plainly?.vendor === vendor && plainly.model === route.model ? plainly : undefined;

/** The plainest terms of the dialect for this request, which every server knows; undefined where it is written in them already. */
const plainTermsOf = ({ body }: Asked, { client, upstream, vendor }: Target): Quirks | undefined =>
  isSame(client, upstream) ? upstream.plainer?.(body.value, vendor.quirks) : undefined;

/**
 * Whether the request can be written in plainer terms than the vendor has just refused, which are noted in `job`: servers of a dialect may know less of it than
 * its own vendor does, and their rows need not say so. Where a server's words tell what it refuses, the request is written without that, at most
 * {@link MAX_LESSONS} times, and only while that changes what is sent (`told`: the body as it would be sent now). Where they do not, it is written once in
 * the plainest terms. Nothing was billed.
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

/** The body as it would be sent; undefined where the request cannot be written in these terms. */
function tryTelling(told: () => string): string | undefined {
  try {
    return told();
  } catch (thrown) {
    // The client is told the vendor's refusal then, and not that other terms would not do.
    if (toGatewayError(thrown).code === "invalid_request") return undefined;
    throw thrown;
  }
}

/** Notes in `job` the first of the terms taught that change what is sent. A lesson for this request alone (`isOnce`) is not noted as `lasting`. */
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

/** The request was answered: later ones are written at once in the terms that it needed, as far as those are `lasting`. */
export function keepPlain(job: Asked, target: Target): void {
  const { lasting: terms, isPlain = false } = plainlyFor(job, target) ?? {};
  if (terms !== undefined) known.keep(job, target, { terms, isPlain });
}

/** The terms in which this request is written for a target's vendor: what it has learnt itself, else what earlier ones have. */
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
