import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Route } from "../catalog/entry.ts";
import type { ReplyContext } from "../dialects/dialect.ts";
import { upstreamDialects, upstreamFor } from "../dialects/index.ts";
import { tellsOfBinding } from "../dialects/messages/block-binding.ts";
import { ContextOverflow } from "../dialects/refusals/overflow.ts";
import { isOfRequest } from "../dialects/refusals/upstream-error.ts";
import { refusalWords, vendorSaid } from "../dialects/refusals/vendor-said.ts";
import { randomName } from "../lib/id.ts";
import { type ObjectText, wholeText } from "../lib/json.ts";
import { type Answer, BegunAnswer, type Read } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { send } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import { keepDialect, NEWER, turnDialect, wantsNewer } from "./lessons/newer-dialect.ts";
import { keepPlain, tellPlainly } from "./lessons/plain-servers.ts";
import { learnRefused } from "./lessons/refused-extras.ts";
import { mendHistory } from "./mend-history.ts";
import { type Asked, prepare, refuseLoss, withFartherLoss } from "./prepare.ts";
import { EVENT_STREAM, readableType, refuse } from "./read-reply.ts";
import { inlineMedia, showMedia } from "./remote-media.ts";
import type { Candidate } from "./routes.ts";
import { Tries } from "./routes-tries.ts";
import type { Target } from "./target.ts";

/** What a target is made of. */
export type Targeted = Pick<Job, "request" | "services" | "intent" | "newer"> & {
  exchange: { readonly estimatedInput: number };
};

/**
 * Tries the ways to the model until one answers; another one only while nothing has reached the client (reliability 6.2). Throws GatewayError
 * of the last attempt, or why the request was ended.
 */
export async function tryRoutes<T>(job: Job, attempt: (target: Target, way: Way) => Promise<T>): Promise<T> {
  const { exchange, abort } = job;
  const tries = new Tries(job);
  for (let candidate = tries.first(); ; ) {
    const { route, vendor, way } = candidate;
    exchange.beginAttempt(way);
    const target = makeTarget(job, route, vendor);
    try {
      const result = await attempt(target, way);
      tries.wentWell(candidate);
      keepPlain(job, target);
      keepDialect(job, target);
      return result;
    } catch (thrown) {
      if (abort.aborted) {
        tries.left(candidate);
        throw abort.reason;
      }
      const error = failureOf(thrown, job, target);
      exchange.attempts.fail(error.code);
      if (!isToBeTold(error, job, target, target.opened)) candidate = await tries.next(candidate, error);
    }
  }
}

/** What an attempt failed with, as it is told: in the words of who asked. */
export function failureOf(thrown: unknown, job: Job, target: Target): GatewayError {
  return relabelError(completeOverflow(toGatewayError(thrown), job), target);
}

/**
 * What a vendor says of reasoning whose proof is not its own, not of this model, or of another account: Anthropic, OpenAI (whose proofs are good for
 * one organisation), Google; and what servers say that take no proof at all, but the text alone (vLLM, llama.cpp, SGLang), or nothing of it (LMDeploy).
 */
const PROOF_REFUSED =
  /`?(?:signature|data)`? in `?(?:redacted_)?thinking|thinking.*(?:signature|cannot be modified)|redacted_thinking history is not supported|input item type: 'reasoning'|encrypted content\b.*\b(?:could not be|is not supported)\b|item\['content'\] is (?:not an array|empty)|(?:corrupted|invalid) thought signature|thought signature is not valid/i;

/**
 * Whether the vendor refused nothing but the proof of earlier reasoning: of one that nobody here has seen before, it alone can tell whose it is.
 * Without it the request can be told again (dialects.md 2.9); nothing was billed.
 */
const isRefusedProof = ({ code, message }: GatewayError, { upstream }: Target): boolean =>
  upstream.provesReasoning === true && code === "invalid_request" && PROOF_REFUSED.test(message);

/** Whether the vendor says of proofs that it can itself leave out those that do not belong where they stand. */
const canMatch = ({ message }: GatewayError, { vendor, upstream }: Target): boolean =>
  upstream.bindsReasoning === true && vendor.quirks.versionInBody === undefined && tellsOfBinding(message);

/**
 * Whether the vendor is to be told the request once more: without what it refused of it, which is such proofs (those that do not match first), or what
 * it does not know of its dialect; or in plainer terms, once, or as often as it teaches others. `job` is told so. `body`: what was asked, where
 * that is not the job's own.
 */
export function isToBeTold(error: GatewayError, job: Job, target: Target, body: ObjectText = job.body): boolean {
  const isRefused = isRefusedProof(error, target) || (job.proofs === "matching" && error.code === "invalid_request");
  if (job.proofs === "none" || !isRefused) {
    const told = () => {
      const asked = body === job.body ? job : { ...job, body };
      return wholeText(prepare(showMedia(mendHistory(asked, target), target), target).sending.body);
    };
    if (turnDialect(error, target, job)) return true;
    return learnRefused(error, target, job) || tellPlainly(error, target, job, told);
  }
  job.proofs = job.proofs === undefined && canMatch(error, target) ? "matching" : "none";
  return true;
}

/** No words, or no more than HTTP's own name of the status, which GitHub Copilot (github/copilot-cli #330) and proxies have in their place. */
const SAYS_NOTHING =
  /^(?:(?:4\d\d:? )?(?:bad request|(?:content|payload|request entity) too large|unprocessable (?:content|entity)))?$/i;

/**
 * How llama.cpp, and what has it for an engine, says that its cache is full. Conversations share it, and each may be as long as all of it: it may be full of
 * others' (ggml-org/llama.cpp #23652, lemonade-sdk/lemonade #3276, ikawrakow/ik_llama.cpp #1619).
 */
const CACHE_FULL = /\b(?:context size has been exceeded|too big compared to KV size)\b/i;
const NO_ROOM = "The vendor has no room for this conversation beside others at the moment. Try again later.";

/** Taken where a vendor's list does not say how long a conversation may be (LM Studio's, Lemonade's), tokens: hardly a model is served with less. */
const LEAST_WINDOW = 4_096;

/** Whether a conversation that found no room is so short that there will be some without shortening it. */
function isCrowdedOut(error: ContextOverflow, { exchange, entry: { contextLength = LEAST_WINDOW } }: Job): boolean {
  return CACHE_FULL.test(refusalWords(error)) && exchange.estimatedInput < contextLength / 2;
}

/**
 * A request that overran the window, told with both figures (contract 6). A refusal that says nothing, of a request that by the gateway's
 * own count does not fit, is one too.
 */
export function completeOverflow(error: GatewayError, job: Job): GatewayError {
  const { exchange, entry } = job;
  const { cause, code } = error;
  if (error instanceof ContextOverflow) {
    if (isCrowdedOut(error, job)) return new GatewayError("upstream_overloaded", NO_ROOM, { cause });
    return error.completed(exchange.estimatedInput, entry.contextLength);
  }
  const wordless = isOfRequest(code) && SAYS_NOTHING.test(String(vendorSaid(error).message));
  if (!wordless || entry.contextLength === undefined || exchange.estimatedInput <= entry.contextLength) return error;
  return new ContextOverflow({}, cause).completed(exchange.estimatedInput, entry.contextLength);
}

/** An upstream's own words may call the model by a name that the client never used: it reads the one it asked for. */
function relabelError(error: GatewayError, { route, context }: Target): GatewayError {
  const { message } = error;
  // These words are the gateway's own.
  if (error instanceof ContextOverflow || !message.includes(route.model) || message.includes(context.model))
    return error;
  const { code, param, retryAfterSeconds, retry, extra, cause } = error;
  // As a word: a short name may stand inside others.
  const named = new RegExp(`(?<![\\w-])${RegExp.escape(route.model)}(?![\\w-])`, "g");
  const renamed = message.replace(named, () => context.model);
  return new GatewayError(code, renamed, { param, retryAfterSeconds, retry, extra, cause });
}

/** One of the model's routes, as a target; undefined when its vendor is switched off. */
export function targetOf(job: Targeted, route: Route): Target | undefined {
  const vendor = job.services.vendor(route.vendor);
  return vendor && makeTarget(job, route, vendor);
}

/** Where a later call of the same reply goes, along another way: what its writer knows stays. */
export function turnTo({ context }: Target, { route, vendor }: Pick<Candidate, "route" | "vendor">, job: Job): Target {
  delete context.changes;
  return { ...makeTarget(job, route, vendor), context };
}

/** What a reply's writer knows of its request. */
class AttemptContext implements ReplyContext {
  readonly model: string;
  readonly replyId = randomName(24);
  readonly created: number;
  readonly wantsUsage: boolean;
  changes?: ReplyContext["changes"];
  upstreamModel?: string;
  hidesReasoning?: boolean;

  constructor(private readonly job: Targeted) {
    const { intent, services } = job;
    this.model = intent.model;
    this.wantsUsage = intent.wantsUsage;
    if (intent.hidesReasoning) this.hidesReasoning = true;
    this.created = Math.floor(services.clock.now() / 1000);
  }

  get estimatedInputTokens(): number {
    return this.job.exchange.estimatedInput;
  }
}

function makeTarget(job: Targeted, route: Route, vendor: Vendor): Target {
  const { client } = job.request;
  return {
    route,
    vendor,
    upstream: wantsNewer(job, vendor, route)
      ? upstreamDialects[NEWER]
      : upstreamFor(client, vendor.dialect, route.dialect),
    client,
    context: new AttemptContext(job),
  };
}

/**
 * Translates the request for one route and sends it. Throws GatewayError when it cannot be told, or when a strict client's request would
 * lose something; rejects as {@link send} does.
 */
export function dispatch(job: Job, target: Target): Promise<Answer> {
  const asked = inlineMedia(mendHistory(job, target), target);
  return asked instanceof Promise ? asked.then((inlined) => sendOn(job, inlined, target)) : sendOn(job, asked, target);
}

function sendOn(job: Job, asked: Asked, target: Target): Promise<Answer> {
  const { dropped, sending, collector } = prepare(asked, target);
  job.exchange.collector = collector;
  job.exchange.dropped = dropped;
  if (dropped.length > 0) refuseLoss(job.request.headers, dropped);
  // Models think for minutes, and a conversation is as large parsed as it is written; only another route would need it again.
  job.body.forgetValue();
  const { exchange, request } = job;
  const { place } = request;
  sending.onSent = () => {
    exchange.attempts.sent = true;
    place?.rest();
  };
  exchange.attempts.goOut();
  return send(target.vendor, sending);
}

/** An answer that can be read, and its media type. */
export type Opened = { answer: Answer; type: string };

/** {@link dispatch} for an answer that can be read. Throws GatewayError for any other. */
export async function open(job: Job, target: Target): Promise<Opened> {
  const answer = await dispatch(job, target);
  const type = await typeOf(answer, job, target);
  return type === EVENT_STREAM ? { answer, type } : lookInto(answer, type);
}

/** Bytes of a body's first piece in which its beginning is looked for, behind white space. */
const MAX_LOOKED_INTO = 64;
/** How a record of SSE begins, with a field's name or as a comment: no JSON does. */
const RECORD_STARTS = /^[deir:]/;

/**
 * Some proxies call a stream JSON (vllm-project/vllm-ascend #6985, microsoft/foundry-dev-tools #195), plain text (containers/ramalama #2837) or nothing
 * (nearai/private-ml-sdk #20), and the vendors' SDKs, which do not ask, read it: the first piece shows what it is.
 */
async function lookInto(answer: Answer, type: string): Promise<Opened> {
  const first = answer.read();
  const beginsRecord = ({ value }: Read) =>
    RECORD_STARTS.test(new TextDecoder().decode(value?.subarray(0, MAX_LOOKED_INTO)).trimStart());
  // A body that breaks off here is told so to whoever reads it.
  const isStream = await first.then(beginsRecord, () => false);
  return { answer: new BegunAnswer(answer, first), type: isStream ? EVENT_STREAM : type };
}

/** The media type of an answer that can be read. Throws GatewayError for any other. */
export function typeOf(answer: Answer, job: Job, target: Target): string | Promise<never> {
  const { exchange, services } = job;
  exchange.attempts.answered = true;
  const type = readableType(answer);
  if (type === undefined) return refuse(answer, target, services.clock.now());
  exchange.dropped = withFartherLoss(exchange.dropped, answer);
  return type;
}
