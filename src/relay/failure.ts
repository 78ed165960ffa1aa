import { GatewayError, toGatewayError } from "../canon/errors.ts";
import { modelRefusedIn } from "../dialects/refusals/meant-status.ts";
import { ContextOverflow } from "../dialects/refusals/overflow.ts";
import { isOfRequest } from "../dialects/refusals/upstream-error.ts";
import { refusalWords, vendorSaid } from "../dialects/refusals/vendor-said.ts";
import type { Job } from "./job.ts";
import type { Target } from "./target.ts";

/** What an attempt failed with, as the client is told of it: with its own name of the model, and with figures where the prompt is too long. */
export function failureOf(thrown: unknown, job: Job, target: Target): GatewayError {
  return relabelError(ofOtherModels(completeOverflow(toGatewayError(thrown), job), job, target), target);
}

/** A refusal without words, or with no more than HTTP's own name of the status, as GitHub Copilot (github/copilot-cli #330) and proxies send them. */
const SAYS_NOTHING =
  /^(?:(?:4\d\d:? )?(?:bad request|(?:content|payload|request entity) too large|unprocessable (?:content|entity)))?$/i;

/**
 * How llama.cpp, and servers that are built on it, say that their cache is full. All conversations share one cache, and each of them may be as long as the
 * whole of it, so that a short one may find no room beside others (ggml-org/llama.cpp #23652, lemonade-sdk/lemonade #3276, ikawrakow/ik_llama.cpp #1619).
 */
const CACHE_FULL = /\b(?:context size has been exceeded|too big compared to KV size)\b/i;
const NO_ROOM = "The vendor has no room for this conversation beside others at the moment. Try again later.";

/** The window assumed where a vendor's list names none (LM Studio's, Lemonade's), tokens: hardly any model is served with less. */
const LEAST_WINDOW = 4_096;

/** Whether a conversation is so short that it only found no room beside others: asked again later it fits as it is. */
function isCrowdedOut(error: ContextOverflow, { exchange, entry: { contextLength = LEAST_WINDOW } }: Job): boolean {
  return CACHE_FULL.test(refusalWords(error)) && exchange.estimatedInput < contextLength / 2;
}

/**
 * The error itself, or what the client is told in its place where the prompt was too long: both figures, so that an agent shortens it (contract 6). A
 * refusal without words means that too where the request does not fit by the gateway's own count. What only found no room for now is an overload.
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

/**
 * A refusal of one of the models that the request itself names to be asked instead (OpenRouter's `models`): its own fault. As that of the model that is
 * asked for, six such requests would close this one to everybody.
 */
function ofOtherModels(error: GatewayError, { body }: Job, { route }: Target): GatewayError {
  const words = refusalWords(error);
  const refused = modelRefusedIn(words);
  const others: unknown = refused === undefined || refused === route.model ? undefined : body.value["models"];
  if (!Array.isArray(others) || !others.includes(refused)) return error;
  const text = `The vendor refused the request. It says: ${words}`;
  return new GatewayError("invalid_request", text, { param: "models", cause: error.cause });
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
