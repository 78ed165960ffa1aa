import { invalidField } from "../canon/errors.ts";
import type { Prompt } from "../canon/prompt.ts";

/**
 * Throws GatewayError (invalid_request) for sampling outside the bounds that every dialect has (dialects.md 1.1, 2.1, 3.1), on its way to
 * another: a vendor of the client's own dialect may know what it means. A temperature that is only too high for the upstream is brought
 * down to its most.
 */
export function refuseOddSampling({ temperature, topP }: Prompt): void {
  if (temperature !== undefined && temperature < 0) {
    throw invalidField("temperature", "temperature must be a number of at least 0");
  }
  if (topP !== undefined && (topP < 0 || topP > 1)) throw invalidField("top_p", "top_p must be a number from 0 to 1");
}

/** A client's `top_k`; 0 and less ask for nothing: local servers mean all tokens by it, and Google refuses it (vLLM's "Sampling Parameters"). */
export const readTopK = (value: unknown): number | undefined =>
  typeof value === "number" && value > 0 ? value : undefined;
