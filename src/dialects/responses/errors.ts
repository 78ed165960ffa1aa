import { ERRORS, type GatewayError } from "../../canon/errors.ts";
import { record } from "./records.ts";

/** An error as this dialect's HTTP answer: the chat dialect's shape (contract 6). */
export function encodeError(error: GatewayError): { status: number; body: Record<string, unknown> } {
  return { status: ERRORS[error.code].status, body: { error: errorFields(error) } };
}

function errorFields(error: GatewayError): Record<string, unknown> {
  return {
    ...error.extra,
    message: error.message,
    type: ERRORS[error.code].chatType,
    param: error.param ?? null,
    code: error.code,
  };
}

/**
 * An error as the last of a stream: an `error` record with its fields both flat, as documented, and nested, as its own vendor sends
 * them. A failed response follows, as there too: some agents know only that. What is known of the reply is not known here, so the
 * response is empty.
 */
export function encodeErrorFrame(error: GatewayError, requestId: string): string {
  const { code, message, param } = { code: error.code, message: error.message, param: error.param ?? null };
  const failed = {
    id: `resp_${requestId}`,
    object: "response",
    status: "failed",
    error: { code, message },
    incomplete_details: null,
    output: [],
    usage: null,
  };
  return (
    record({ type: "error", sequence_number: 0, code, message, param, error: errorFields(error) }) +
    record({ type: "response.failed", sequence_number: 1, response: failed })
  );
}
