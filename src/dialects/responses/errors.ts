import type { GatewayError } from "../../canon/errors.ts";
import { errorFields } from "../refusals/openai-error.ts";
import { isOfRequest } from "../refusals/upstream-error.ts";
import { record } from "./records.ts";

/** An error as a stream's last: nothing came before it, or nobody knows what did, so the response that failed is empty. */
export function encodeErrorFrame(error: GatewayError, requestId: string): string {
  const rest = { object: "response", incomplete_details: null, output: [], usage: null };
  return encodeFailure(error, { id: `resp_${requestId}`, ...rest }, 0);
}

/**
 * The dialect's own word for a request that is at fault, in a response that failed. Of codes that it does not know Codex asks again, five times, for what
 * its vendor has refused and charged (openai/codex, `sse/responses.rs`).
 */
const AT_FAULT = "invalid_prompt";

/**
 * An error as the last of a stream whose next record is the `sequence`th: an `error` record with its fields both flat, as documented, and nested, as its
 * own vendor sends them. The response follows as a failed one, as there too: some agents know only that.
 */
export function encodeFailure(error: GatewayError, response: Record<string, unknown>, sequence: number): string {
  const fields = errorFields(error);
  const { code, message, param } = fields;
  const failed = { ...response, status: "failed", error: { code: isOfRequest(error.code) ? AT_FAULT : code, message } };
  return (
    record({ type: "error", sequence_number: sequence, code, message, param, error: fields }) +
    record({ type: "response.failed", sequence_number: sequence + 1, response: failed })
  );
}
