import { ERRORS, type GatewayError } from "../../canon/errors.ts";
import { record } from "./records.ts";

/** Agents compact their conversation when an error begins so, and give up on any other wording (contract 6, dialects.md 4.8 #36). */
const OVERFLOW_OPENING = "prompt is too long";

function messageOf(error: GatewayError): string {
  if (error.code !== "context_length_exceeded" || error.message.startsWith(OVERFLOW_OPENING)) return error.message;
  return `${OVERFLOW_OPENING}: ${error.message}`;
}

/** An error as this dialect's HTTP answer: status and body (contract 6, dialects.md 2.6). */
export function encodeError(error: GatewayError, requestId: string): { status: number; body: Record<string, unknown> } {
  const { messagesStatus, messagesType } = ERRORS[error.code];
  return {
    status: messagesStatus,
    body: {
      type: "error",
      error: {
        ...error.extra,
        type: messagesType,
        message: messageOf(error),
        code: error.code,
        ...(error.param !== undefined && { param: error.param }),
      },
      request_id: requestId,
    },
  };
}

/** An error as the last record of a stream: nothing follows it, no message_stop either (contract 7). */
export function encodeErrorFrame(error: GatewayError, requestId: string): string {
  return record("error", JSON.stringify(encodeError(error, requestId).body));
}
