/** One row of contract 6: the status and the type each dialect shows for a code, and whether trying again can help. */
type ErrorRow = {
  status: number;
  chatType: string;
  messagesType: string;
  /** Status in the messages dialect: overloaded is 529 there. */
  messagesStatus: number;
  retry: boolean;
};

const row = (
  status: number,
  chatType: string,
  messagesType: string,
  retry: boolean,
  messagesStatus = status,
): ErrorRow => ({ status, chatType, messagesType, retry, messagesStatus });

/** Every error a client can see (contract 6). `code` is stable; messages may be reworded. */
export const ERRORS = {
  invalid_request: row(400, "invalid_request_error", "invalid_request_error", false),
  context_length_exceeded: row(400, "invalid_request_error", "invalid_request_error", false),
  // The chat vendor's own word, at which clients send the whole conversation instead (VS Code: microsoft/vscode-copilot-chat).
  previous_response_not_found: row(400, "invalid_request_error", "invalid_request_error", false),
  invalid_api_key: row(401, "invalid_request_error", "authentication_error", false),
  insufficient_quota: row(402, "insufficient_quota", "billing_error", false),
  deposit_required: row(403, "permission_error", "permission_error", false),
  permission_denied: row(403, "permission_error", "permission_error", false),
  model_not_found: row(404, "invalid_request_error", "not_found_error", false),
  not_found: row(404, "invalid_request_error", "not_found_error", false),
  method_not_allowed: row(405, "invalid_request_error", "invalid_request_error", false),
  idempotency_in_progress: row(409, "invalid_request_error", "invalid_request_error", true),
  idempotency_key_reused: row(422, "invalid_request_error", "invalid_request_error", false),
  request_too_large: row(413, "invalid_request_error", "request_too_large", false),
  unsupported_media_type: row(415, "invalid_request_error", "invalid_request_error", false),
  rate_limit_exceeded: row(429, "rate_limit_error", "rate_limit_error", true),
  concurrency_exceeded: row(429, "rate_limit_error", "rate_limit_error", true),
  too_many_inflight_jobs: row(429, "rate_limit_error", "rate_limit_error", true),
  allowance_exhausted: row(429, "rate_limit_error", "rate_limit_error", false),
  internal_error: row(500, "server_error", "api_error", true),
  upstream_error: row(502, "server_error", "api_error", true),
  upstream_auth: row(502, "server_error", "api_error", false),
  upstream_unreachable: row(502, "server_error", "api_error", true),
  upstream_overloaded: row(503, "server_error", "overloaded_error", true, 529),
  model_unpriced: row(503, "server_error", "api_error", false),
  vendor_not_configured: row(503, "server_error", "api_error", false),
  request_timeout: row(504, "timeout_error", "timeout_error", false),
  stream_truncated: row(502, "server_error", "api_error", true),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

/** The status that an error has where a dialect of this name is spoken. */
export function statusOf(code: ErrorCode, dialect: string): number {
  const { status, messagesStatus } = ERRORS[code];
  return dialect === "messages" ? messagesStatus : status;
}

/** Longest path of a field that an error names, characters: keys are the client's, and may be megabytes. */
const MAX_PARAM = 300;

type ErrorDetails = {
  /** Path of the one request field at fault, as the client wrote it: `messages[2].content`. */
  param?: string | undefined;
  /** Whole seconds until a retry may succeed, at most 60; sent as `retry-after`. */
  retryAfterSeconds?: number | undefined;
  /** Overrides the row's word on whether trying again can help. */
  retry?: boolean | undefined;
  /** Extra fields of the error body, such as `affordable_output_tokens`. */
  extra?: Record<string, unknown> | undefined;
  /** What really happened. Kept for the log, never shown to a client. */
  cause?: unknown;
};

/** The one error type. It is rendered in the caller's dialect at one edge; `cause` never leaves the process. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly retry: boolean;
  readonly extra: Record<string, unknown>;

  /** `message` is shown to the client: it holds no key, no path of the machine and no raw upstream text beyond 300 scrubbed characters. */
  constructor(
    readonly code: ErrorCode,
    message: string,
    details: ErrorDetails = {},
  ) {
    // What of a client's own words is told back may have half a character in it, which strict readers of JSON refuse.
    super(message.toWellFormed(), { cause: details.cause });
    this.param = details.param?.slice(0, MAX_PARAM).toWellFormed();
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.retry = details.retry ?? ERRORS[code].retry;
    this.extra = details.extra ?? {};
  }
}

/**
 * A reply that was torn off. In the midst of a stream there is no status, and some agents (pi and Continue, seen) decide by the words alone
 * whether they ask again: each of them knows one of those behind the colon as a connection that failed.
 */
export const streamTruncated = (cause?: unknown): GatewayError =>
  new GatewayError(
    "stream_truncated",
    "The vendor's stream broke off before its end: connection lost, premature close.",
    { cause },
  );

/** An error of a lower layer that knows what a client is to be told of it. Its own message is for the operator. */
export abstract class TellableError extends Error {
  abstract tell(): GatewayError;
}

/**
 * Anything thrown, as a GatewayError: what is not one already, and does not know what to tell, becomes `internal_error` with a text that tells
 * nothing.
 */
export function toGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  if (thrown instanceof TellableError) return thrown.tell();
  return new GatewayError("internal_error", "Something went wrong inside the gateway. Nothing was charged.", {
    cause: thrown,
  });
}

/** The error of a request whose field is at fault. `param`: its path as clients write it, "" for the body itself. */
export const invalidField = (param: string, message: string): GatewayError =>
  new GatewayError("invalid_request", message, { param: param || undefined });

/** {@link invalidField} of what a check has found. */
export const fieldFault = ({ param, message }: { param: string; message: string }): GatewayError =>
  invalidField(param, message);
