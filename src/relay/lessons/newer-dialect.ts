import type { GatewayError } from "../../canon/errors.ts";
import type { Route } from "../../catalog/entry.ts";
import { refusalWords, vendorSaid } from "../../dialects/refusals/vendor-said.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import type { Job } from "../job.ts";
import type { Target } from "../target.ts";
import { ModelNotes } from "./model-notes.ts";
import { KEPT_MS } from "./refused-extras.ts";

/** The dialect that servers of OpenAI's models speak beside the chat dialect, and what they speak it beside. */
export const NEWER = "responses";
const OLDER = "chat";

/**
 * How OpenAI and Azure say that a model is to be asked in their newer dialect: their models that reason call no tools in the chat dialect since GPT-5.4, and
 * those without an off (GPT-6 Astra) in none of its terms (maximhq/bifrost #7275); of others (codex, pro) they know it in that dialect alone
 * (langchain-ai/langchain-azure #228), as Bedrock does of some of OpenAI's (enricoros/big-AGI #1167; an excerpt shows its longer path, `/openai/v1/…`, as
 * removed).
 */
const NEWER_ALONE =
  /^(?:Function tools with reasoning_effort are not supported\b.*\/v1\/responses\b|The chatCompletion operation does not work with the specified model\b|This model is only supported in v1\/responses\b|The model '[^']{1,200}' does not support the '(?:\/v1\/chat\/completions|\[removed\])' API)/;
/** How Azure and Bedrock say that a model is not had in the newer dialect either. */
const OLDER_ALONE =
  /^(?:The responses operation does not work with the specified model\b|The model '[^']{1,200}' does not support the '(?:\/v1\/responses|\[removed\])' API)/;

type Asked = Pick<Job, "request" | "services" | "newer">;
type Way = Pick<Target, "vendor" | "route">;

/** Whether the newer dialect is the right one, as requests have shown. */
const known = new ModelNotes<boolean>(KEPT_MS);

/** Whether the newer dialect is the right one for this vendor's model, by this request or those before it; undefined: nothing has shown it. */
function isRightFor(asked: Asked, way: Way): boolean | undefined {
  const { vendor, route } = way;
  const { newer } = asked;
  return newer?.vendor === vendor && newer.model === route.model ? newer.isRight : known.find(asked, way);
}

/** Whether this vendor of the chat dialect is to be asked of the model in the newer one. */
export const wantsNewer = (asked: Asked, vendor: Vendor, route: Route): boolean =>
  vendor.dialect === OLDER && isRightFor(asked, { vendor, route }) === true;

function isUnserved(error: GatewayError): boolean {
  const { status } = vendorSaid(error);
  return status === 404 || status === 405 || OLDER_ALONE.test(refusalWords(error));
}

/**
 * Whether the vendor refused the request for its dialect and is to be sent it in the other one, which is noted in `job`. A server may repeat OpenAI's words
 * without speaking the newer dialect itself: that one is tried once. Nothing was billed.
 */
export function turnDialect(error: GatewayError, target: Target, job: Asked & Pick<Job, "plainly">): boolean {
  const { vendor, route, upstream } = target;
  if (vendor.dialect !== OLDER) return false;
  const isNewer = upstream.name === NEWER && wantsNewer(job, vendor, route);
  const isRefused = isNewer
    ? isUnserved(error)
    : NEWER_ALONE.test(refusalWords(error)) && isRightFor(job, target) === undefined;
  if (!isRefused) return false;
  job.newer = { vendor, model: route.model, isRight: !isNewer };
  // What was learnt was about the other dialect.
  delete job.plainly;
  return true;
}

/** The request was answered: what it has shown of its vendor's dialects is kept for the next ones. */
export function keepDialect({ newer, ...asked }: Asked, target: Target): void {
  const { vendor, route } = target;
  if (newer?.vendor !== vendor || newer.model !== route.model) return;
  known.keep(asked, target, newer.isRight);
}
