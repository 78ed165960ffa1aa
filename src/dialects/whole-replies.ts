import type { Lesson, VendorTerms } from "./dialect.ts";

/**
 * How servers say that they stream no reply of this model, or of any: OpenAI to organisations that are not verified, of its reasoning models
 * (charmbracelet/crush #1216, continuedev/continue #8209), and of some to all (nomic-ai/gpt4all #3150); GPT4All's server (eclipse-theia/theia #14413).
 */
const UNSTREAMED =
  /\bmust be verified to stream this model\b|^'stream' is not supported$|'stream' does not support true\b/;

/** What a refusal in these words teaches; see {@link UpstreamDialect.lessons}. */
export const wholeLessons = (words: string, terms: VendorTerms): Lesson[] =>
  UNSTREAMED.test(words) ? [{ ...terms, quirks: { ...terms.quirks, noStreams: true } }] : [];
