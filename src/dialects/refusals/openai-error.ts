import { ERRORS, type GatewayError } from "../../canon/errors.ts";

/** What an error says in OpenAI's two dialects (contract 6, dialects.md 1.5): four keys always, and the extras a code has. */
export const errorFields = (error: GatewayError): Record<string, unknown> => ({
  ...error.extra,
  message: error.message,
  type: ERRORS[error.code].chatType,
  param: error.param ?? null,
  code: error.code,
});

/** An error as an HTTP answer of theirs: contract 6's status and `{error: {message, type, param, code}}`. */
export const encodeError = (error: GatewayError): { status: number; body: Record<string, unknown> } => ({
  status: ERRORS[error.code].status,
  body: { error: errorFields(error) },
});
