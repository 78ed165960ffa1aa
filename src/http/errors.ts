import { ERRORS, GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { RateLimited, type RateState } from "../limits/limiter.ts";
import { Overloaded } from "../limits/overloaded.ts";
import { errorFields, type Log } from "../observe/log.ts";
import { SHOULD_RETRY_HEADER } from "../wire/header-names.ts";
import { toResponse, type Whole } from "./answered.ts";
import type { AskedHead } from "./asked.ts";
import { UploadCut } from "./body/upload.ts";
import { nothingAt } from "./lost-path.ts";
import { isMcpPath, mcpErrorBody } from "./mcp-error.ts";
import { rateHeaders } from "./rate-headers.ts";
import { pathOf, requestIdOf } from "./request.ts";

/** Longest wait a client is told, seconds (contract 6). */
const MAX_RETRY_AFTER_SECONDS = 60;

/** The messages path however often /v1 was written before it: a doubled one is told 404 in the shape its SDK reads (interface 1). */
const MESSAGES_PATH = /^(?:\/v1)*\/messages(?:\/|$)/;
/** The catalog's, likewise. */
const MODELS_PATH = /^(?:\/v1)*\/models(?:\/|$)/;

/** Whether the catalog is asked for in the messages dialect's form (interface 4.4 rule 3). */
export const asksForMessages = (headers: Fields): boolean =>
  headers.has("anthropic-version") || headers.has("x-api-key");

/** The dialect in which a path's errors are told: messages for `/v1/messages…`, and for the catalog when it is asked in that form. Chat for everything else. */
export function dialectOfPath(pathname: string, headers?: Fields): Dialect {
  if (MESSAGES_PATH.test(pathname)) return dialects.messages;
  const isAsked = headers !== undefined && asksForMessages(headers);
  return isAsked && MODELS_PATH.test(pathname) ? dialects.messages : dialects.chat;
}

/** Headers of every answer (contract 6). */
export function commonHeaders(requestId: string): Record<string, string> {
  return { "x-request-id": requestId, "request-id": requestId, "x-content-type-options": "nosniff" };
}

/** Adds `more` to a record of headers: `Object.assign` costs as much as all else that is done for them. */
export function addHeaders(headers: Record<string, string>, more: Readonly<Record<string, string>>): void {
  for (const name in more) headers[name] = more[name] as string;
}

/** What is tried again unasked: 408, 409, 429 and every 5xx by the official SDKs; 401 by Claude Code, ten times within minutes, without a word. */
const retriesUnasked = (status: number) =>
  status === 401 || status === 408 || status === 409 || status === 429 || status >= 500;

function retryHeaders(error: GatewayError, status: number): Record<string, string> {
  const headers: Record<string, string> = {};
  // Of an empty wallet contract 6 wants it said in so many words.
  if (error.retry || retriesUnasked(status) || status === 402) headers[SHOULD_RETRY_HEADER] = String(error.retry);
  if (error.retryAfterSeconds !== undefined) {
    const ms = Math.min(MAX_RETRY_AFTER_SECONDS * 1_000, Math.max(1, Math.ceil(error.retryAfterSeconds * 1_000)));
    headers["retry-after"] = String(Math.ceil(ms / 1_000));
    headers["retry-after-ms"] = String(ms);
  }
  return headers;
}

/**
 * Anything thrown as the answer a client gets, in its dialect (contract 6). What is no GatewayError tells nothing but `internal_error`.
 * `rate`: how its caller's limit stands, where it was let in; a refusal for going too fast brings its own.
 */
export function errorAnswer(error: unknown, dialect: Dialect, requestId: string, rate?: RateState): Whole {
  if (error instanceof Overloaded) return overloadedAnswer(error, dialect, requestId);
  const shown = toGatewayError(error);
  const state = shown instanceof RateLimited ? shown.state : rate;
  const { status, body } = dialect.encodeError(shown, requestId);
  return {
    status,
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      ...commonHeaders(requestId),
      ...retryHeaders(shown, status),
      ...(state && rateHeaders(dialect.name, state)),
      ...(status === 401 && { "www-authenticate": "Bearer" }),
      ...(shown instanceof UploadCut && { connection: "close" }),
    },
    body: JSON.stringify(body),
  };
}

/** {@link errorAnswer} as a Response. */
export function errorResponse(error: unknown, dialect: Dialect, requestId: string, rate?: RateState): Response {
  return toResponse(errorAnswer(error, dialect, requestId, rate));
}

/** A refusal as one dialect tells it: the body in the pieces between which the request's id stands. */
type Told = { status: number; pieces: readonly string[]; headers: Record<string, string> };

/** Of each refusal there is one, so it is written once for each dialect. */
const toldRefusals = new Map<Overloaded, Map<Dialect, Told>>();

/** The answer to who is turned away: many are, at the worst of times, so that no more is done for each than needed. */
function overloadedAnswer(error: Overloaded, dialect: Dialect, requestId: string): Whole {
  const { status, pieces, headers } = toldRefusal(error, dialect);
  const own = { ...headers, "x-request-id": requestId, "request-id": requestId };
  return { status, headers: own, body: pieces.join(requestId) };
}

function toldRefusal(error: Overloaded, dialect: Dialect): Told {
  const ofError = toldRefusals.get(error) ?? new Map<Dialect, Told>();
  toldRefusals.set(error, ofError);
  const known = ofError.get(dialect);
  if (known) return known;
  const place = "REQUEST-ID";
  const { status, body } = dialect.encodeError(error, place);
  const headers = {
    "content-type": "application/json",
    "cache-control": "no-store",
    ...commonHeaders(place),
    ...retryHeaders(error, status),
  };
  const told = { status, pieces: JSON.stringify(body).split(place), headers };
  ofError.set(dialect, told);
  return told;
}

/** {@link errorAnswer} as the path of a request has it: that of MCP in JSON-RPC under the error's HTTP status (interface 5 rule 3). */
export function errorAnswerAt(
  path: string,
  error: unknown,
  asked: Pick<AskedHead, "url" | "headers">,
  requestId: string,
): Whole {
  const told = errorAnswer(error, dialectOfPath(path, asked.headers), requestId);
  if (!isMcpPath(path)) return told;
  const { body, headers } = mcpErrorBody(error, asked);
  return { ...told, headers: { ...told.headers, ...headers }, body };
}

/** {@link errorResponse} in the dialect and with the id of the request it answers. */
export function answerError(error: unknown, request: Request): Response {
  return toResponse(errorAnswerAt(pathOf(request.url), error, request, requestIdOf(request)));
}

/**
 * The answer where there is nothing. Who says `anthropic-version` reads the errors of the messages dialect, whatever else of its vendor's
 * endpoints is asked for (interface 7 rule 2).
 */
export function answerLost(request: Request): Response {
  const path = pathOf(request.url);
  const error = nothingAt(path);
  if (isMcpPath(path) || !request.headers.has("anthropic-version")) return answerError(error, request);
  return toResponse(errorAnswer(error, dialects.messages, requestIdOf(request)));
}

/** What Elysia's own faults mean. Its texts are not shown: they quote the body and the schema. */
const ELYSIA_FAULTS: Readonly<Record<string, () => GatewayError>> = {
  PARSE: () => new GatewayError("invalid_request", "The request body could not be read."),
  VALIDATION: () => new GatewayError("invalid_request", "The request is not valid."),
  INVALID_COOKIE_SIGNATURE: () => new GatewayError("invalid_request", "A cookie is not valid."),
  INVALID_FILE_TYPE: () => new GatewayError("invalid_request", "A file is of the wrong type."),
};

/**
 * The answer to anything that ends in Elysia's `onError`: its own faults by `code`, GatewayErrors as they are, and all else as
 * `internal_error`, whose cause is logged and never shown (design 6).
 */
export function renderElysiaError(
  code: string | number | undefined,
  error: unknown,
  request: Request,
  log: Log,
): Response {
  if (error instanceof GatewayError) {
    noteFault(error, request, requestIdOf(request), log);
    return answerError(error, request);
  }
  if (code === "NOT_FOUND") return answerLost(request);
  const fault = typeof code === "string" && Object.hasOwn(ELYSIA_FAULTS, code) ? ELYSIA_FAULTS[code] : undefined;
  if (fault) return answerError(fault(), request);
  logFault(error, request, requestIdOf(request), log);
  return answerError(error, request);
}

/** Tells the log of a fault of the gateway's own (500), of which its client learns nothing more than that. */
export function noteFault(error: unknown, request: Target, requestId: string, log: Log): void {
  if (ERRORS[toGatewayError(error).code].status === 500) logFault(error, request, requestId, log);
}

type Target = Pick<AskedHead, "method" | "url">;

function logFault(error: unknown, request: Target, requestId: string, log: Log): void {
  // The path may hold a token (contract 3, /mcp/web/t/{token}); the log's own net removes it.
  log.error("request-fault", {
    request: requestId,
    method: request.method,
    path: pathOf(request.url),
    ...errorFields(error),
  });
}

/** A handler for `.all(path, …)`: 405 for every method that has no route of its own, with the ones that have in `Allow` (`"GET, POST"`). */
export function methodNotAllowed(allow: string): (context: { request: Request }) => Response {
  return (context) => {
    const error = new GatewayError("method_not_allowed", `This path answers to ${allow} only.`);
    const response = answerError(error, context.request);
    response.headers.set("allow", allow);
    return response;
  };
}
