import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Route } from "../catalog/entry.ts";
import { upstreamDialects } from "../dialects/index.ts";
import { ContextOverflow } from "../dialects/overflow.ts";
import { randomName } from "../lib/id.ts";
import { isObject } from "../lib/json.ts";
import { decideRetry, ranOf } from "../vendors/retry-policy.ts";
import { send } from "../vendors/send.ts";
import type { Job } from "./job.ts";
import { prepare, refuseLoss } from "./prepare.ts";
import { readableType, refuse, type Target } from "./read-reply.ts";
import { inlineMedia } from "./remote-media.ts";

/** What a target is made of. */
export type Targeted = Pick<Job, "request" | "services" | "intent"> & { exchange: { readonly estimatedInput: number } };

/** Tries the model's routes in order until one answers; another one only while nothing has reached the client (reliability 6.2). */
export async function tryRoutes<T>(job: Job, attempt: (target: Target) => Promise<T>): Promise<T> {
  const { entry, exchange, services, abort } = job;
  let doubtfulBefore = 0;
  for (let index = 0; ; index++) {
    const route = entry.routes[index];
    const target = route && targetOf(job, route);
    if (!route || !target) throw new GatewayError("vendor_not_configured", "No vendor of this model is switched on.");
    exchange.beginAttempt(route.vendor, route.model);
    try {
      const result = await attempt(target);
      services.health?.served(route.vendor);
      return result;
    } catch (thrown) {
      if (abort.signal.aborted) throw abort.signal.reason;
      const error = relabelError(completeOverflow(toGatewayError(thrown), job), target);
      const routesLeft = entry.routes.length - index - 1;
      const elapsedMs = services.clock.monotonic() - exchange.startedAt;
      if (isVendorsFault(error)) services.health?.failed(route.vendor, error.code);
      if (decideRetry(error, { elapsedMs, routesLeft, doubtfulBefore }) === "stop") throw error;
      if (ranOf(error) !== "no") doubtfulBefore++;
      services.log.warn("failover", { request_id: job.request.requestId, vendor: route.vendor, error: error.code });
    }
  }
}

/** An error that says something about the vendor, and not about the request. */
const isVendorsFault = ({ code }: GatewayError) => code.startsWith("upstream_") || code === "stream_truncated";

/**
 * A request that overran the window, told with both figures (contract 6). A refusal without a word, of a request that by the gateway's
 * own count does not fit, is one too.
 */
function completeOverflow(error: GatewayError, { exchange, entry }: Job): GatewayError {
  if (error instanceof ContextOverflow) return error.completed(exchange.estimatedInput, entry.contextLength);
  const { cause, code } = error;
  const wordless = code === "invalid_request" && isObject(cause) && cause["message"] === "";
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
  const details = { ...(param && { param }), ...(retryAfterSeconds && { retryAfterSeconds }), retry, extra, cause };
  // As a word: a short name may stand inside others.
  const named = new RegExp(`(?<![\\w-])${RegExp.escape(route.model)}(?![\\w-])`, "g");
  return new GatewayError(
    code,
    message.replace(named, () => context.model),
    details,
  );
}

/** One of the model's routes, as a target; undefined when its vendor is switched off. */
export function targetOf(job: Targeted, route: Route): Target | undefined {
  const vendor = job.services.vendor(route.vendor);
  if (!vendor) return undefined;
  const context = {
    model: job.intent.model,
    replyId: randomName(24),
    created: Math.floor(job.services.clock.now() / 1000),
    wantsUsage: job.intent.wantsUsage,
    get estimatedInputTokens() {
      return job.exchange.estimatedInput;
    },
  };
  return {
    route,
    vendor,
    upstream: upstreamDialects[route.dialect ?? vendor.dialect],
    client: job.request.client,
    context,
  };
}

/**
 * Translates the request for one route and sends it. Throws GatewayError when no usable answer comes, or when a strict client's request
 * would lose something; gives the answer's media type with it.
 */
export async function dispatch(job: Job, target: Target): Promise<{ response: Response; type: string }> {
  const { dropped, sending, collector } = prepare(await inlineMedia(job, target), target);
  job.exchange.collector = collector;
  job.exchange.dropped = dropped;
  if (dropped.length > 0) refuseLoss(job.request.headers, dropped);
  const response = await send(target.vendor, sending);
  return { response, type: readableType(response) ?? (await refuse(response, target, job.services.clock.now())) };
}
