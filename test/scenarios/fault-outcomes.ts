import { INPUT, OUTPUT, PIECES, SAID } from "./wires.ts";

/** Contract 6 as far as an upstream's fault can lead there: status and type in the chat shape, and in that of messages. */
export const FAULT_ERRORS = {
  invalid_request: { chat: [400, "invalid_request_error"], messages: [400, "invalid_request_error"] },
  request_too_large: { chat: [413, "invalid_request_error"], messages: [413, "request_too_large"] },
  context_length_exceeded: { chat: [400, "invalid_request_error"], messages: [400, "invalid_request_error"] },
  rate_limit_exceeded: { chat: [429, "rate_limit_error"], messages: [429, "rate_limit_error"] },
  request_timeout: { chat: [504, "timeout_error"], messages: [504, "timeout_error"] },
  upstream_error: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_auth: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_unreachable: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_overloaded: { chat: [503, "server_error"], messages: [529, "overloaded_error"] },
  stream_truncated: { chat: [502, "server_error"], messages: [502, "api_error"] },
} as const;
export type FaultCode = keyof typeof FAULT_ERRORS;

/** What a client sees, and what it is charged for by the vendor's counts or the gateway's own (contract 5). */
export type Outcome =
  /** An error status; nothing is charged, but for the 95 s cut-off. */
  | { kind: "refused"; code: FaultCode; retry: "true" | "false" | null; retryAfter?: string; words?: string }
  /** A stream that ends in an error record. What was said is charged; nothing where nothing was. */
  | { kind: "broken"; code: FaultCode; said: string }
  | { kind: "answered"; said: string; input: number | "estimate"; output: number; suspect?: true };

export const refused = (
  code: FaultCode,
  retry: "true" | "false" | null,
  more: { retryAfter?: string; words?: string } = {},
) => ({ kind: "refused", code, retry, ...more }) as const;
export const broken = (code: FaultCode, said: string = PIECES[0]) => ({ kind: "broken", code, said }) as const;
export const ANSWERED = { kind: "answered", said: SAID, input: INPUT, output: OUTPUT } as const satisfies Outcome;
/** A token for every four characters. */
export const COUNTED = { ...ANSWERED, input: "estimate", output: 5 } as const satisfies Outcome;
export const TIMED_OUT = refused("request_timeout", "false");
