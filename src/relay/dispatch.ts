import { type Answer, BegunAnswer, type Read } from "../vendors/answer.ts";
import type { Way } from "../vendors/health.ts";
import { send } from "../vendors/send.ts";
import { failureOf } from "./failure.ts";
import type { Job } from "./job.ts";
import { keepLessons, learnFromRefusal } from "./learn-from-refusal.ts";
import { makeTarget } from "./make-target.ts";
import { inlineMedia } from "./media/remote-media.ts";
import { mendHistory } from "./mend-history.ts";
import { type Asked, prepare, refuseLoss, withFartherLoss } from "./prepare.ts";
import { EVENT_STREAM, JSON_TYPE, readableType, refuse } from "./reply/read-reply.ts";
import { Tries } from "./routes/tries.ts";
import type { Target } from "./target.ts";

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
export type ReadableAnswer = { answer: Answer; type: string };

/** {@link dispatch} for an answer that can be read. Throws GatewayError for any other. */
export async function open(job: Job, target: Target): Promise<ReadableAnswer> {
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
export async function lookInto(answer: Answer, type: string): Promise<ReadableAnswer> {
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
