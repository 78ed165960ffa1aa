import type { GatewayError } from "../../canon/errors.ts";
import { errorFields } from "../refusals/openai-error.ts";
import { record } from "./records.ts";

/** An error as a stream's last: nothing came before it, or nobody knows what did, so the response that failed is empty. */
export function encodeErrorFrame(error: GatewayError, requestId: string): string {
  const rest = { object: "response", incomplete_details: null, output: [], usage: null };
  return encodeFailure(error, { id: `resp_${requestId}`, ...rest }, 0);
}

/**
 * An error as the last of a stream whose next record is the `sequence`th: an `error` record with its fields both flat, as documented, and nested, as its
 * own vendor sends them. The response follows as a failed one, as there too: some agents know only that.
 */
export function encodeFailure(error: GatewayError, response: Record<string, unknown>, sequence: number): string {
  const fields = errorFields(error);
  const { code, message, param } = fields;
  const failed = { ...response, status: "failed", error: { code, message } };
  return (
    record({ type: "error", sequence_number: sequence, code, message, param, error: fields }) +
    record({ type: "response.failed", sequence_number: sequence + 1, response: failed })
  );
}
