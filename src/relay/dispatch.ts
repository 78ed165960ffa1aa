import type { Route } from "../catalog/entry.ts";
import type { ReplyContext } from "../dialects/dialect.ts";
import { upstreamDialects, upstreamFor } from "../dialects/index.ts";
import { randomName } from "../lib/id.ts";
import { type Answer, BegunAnswer, type Read } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { send } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { failureOf } from "./failure.ts";
import type { Job } from "./job.ts";
import { keepLessons, learnFromRefusal } from "./lessons/learn-from-refusal.ts";
import { NEWER, wantsNewer } from "./lessons/newer-dialect.ts";
import { mendHistory } from "./mend-history.ts";
import { type Asked, prepare, refuseLoss, withFartherLoss } from "./prepare.ts";
import { EVENT_STREAM, JSON_TYPE, readableType, refuse } from "./read-reply.ts";
import { inlineMedia } from "./remote-media.ts";
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
      keepLessons(job, target);
      return result;
    } catch (thrown) {
      if (abort.aborted) {
        tries.left(candidate);
        throw abort.reason;
      }
      const error = failureOf(thrown, job, target);
      exchange.attempts.fail(error.code);
      if (!learnFromRefusal(error, job, target, target.opened)) candidate = await tries.next(candidate, error);
    }
  }
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
  return lookInto(answer, await typeOf(answer, job, target));
}

/** Bytes of a body's first piece in which its beginning is looked for, behind white space. */
const MAX_LOOKED_INTO = 64;
/** How a record of SSE begins, with a field's name or as a comment: no JSON does. */
const RECORD_STARTS = /^[deir:]/;

/**
 * Some proxies call a stream JSON (vllm-project/vllm-ascend #6985, microsoft/foundry-dev-tools #195), plain text (containers/ramalama #2837) or nothing
 * (nearai/private-ml-sdk #20), and the vendors' SDKs, which do not ask, read it: the first piece shows what it is. So with a whole reply.
 */
export async function lookInto(answer: Answer, type: string): Promise<Opened> {
  if (type === EVENT_STREAM) return { answer, type };
  const first = answer.read();
  const beginning = ({ value }: Read) => new TextDecoder().decode(value?.subarray(0, MAX_LOOKED_INTO)).trimStart();
  // A body that breaks off here is told so to whoever reads it.
  const start = await first.then(beginning, () => "");
  const seen = RECORD_STARTS.test(start) ? EVENT_STREAM : start.startsWith("{") ? JSON_TYPE : type;
  return { answer: new BegunAnswer(answer, first), type: seen };
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
