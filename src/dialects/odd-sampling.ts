import { invalidField } from "../canon/errors.ts";
import type { Prompt } from "../canon/prompt.ts";
import type { Lesson, VendorTerms } from "./dialect.ts";

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

/**
 * How Claude's models since 4.1 refuse two ways of being sampled at once, wherever they are served. Where their names are known they are told one; of inference
 * profiles and of what others serve nobody knows.
 */
const BOTH_SAMPLED = /`?\btemperature\b`? and `?top_p`? cannot both be specified\b/;

/** How Google refuses penalties of nearly all of its models, in the chat dialect too and behind routers: those of Gemini know none since 2.5 (vercel/ai #8943). */
const PENALTIES_REFUSED = /^Penalty is not enabled for\b/;

/** What a refusal in these words teaches; see {@link UpstreamDialect.lessons}. */
export function samplingLessons(words: string, terms: VendorTerms): Lesson[] {
  const without = (...fields: string[]) => ({ ...terms, refuses: [...(terms.refuses ?? []), ...fields] });
  if (PENALTIES_REFUSED.test(words)) return [without("frequency_penalty", "presence_penalty")];
  return BOTH_SAMPLED.test(words) ? [{ ...without("top_p"), isOnce: true }] : [];
}
