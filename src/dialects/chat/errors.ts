import { ERRORS, type GatewayError } from "../../canon/errors.ts";

/** An error in this dialect's shape (contract 6, dialects.md 1.5): four keys always, and the extras a code has. */
function errorBody(error: GatewayError): Record<string, unknown> {
  return {
    error: {
      ...error.extra,
      message: error.message,
      type: ERRORS[error.code].chatType,
      param: error.param ?? null,
      code: error.code,
    },
  };
}

/** An error as this dialect's HTTP answer: contract 6's status and `{error: {message, type, param, code}}`. */
export function encodeError(error: GatewayError): { status: number; body: Record<string, unknown> } {
  return { status: ERRORS[error.code].status, body: errorBody(error) };
}

/** An error as a stream's last record; no terminator follows it (contract 7). */
export function encodeErrorFrame(error: GatewayError): string {
  return `data: ${JSON.stringify(errorBody(error))}\n\n`;
}
