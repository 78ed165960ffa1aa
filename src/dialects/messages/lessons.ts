import { imageLessons } from "../blind-models.ts";
import type { Lesson, VendorTerms } from "../dialect.ts";

/**
 * How servers of this dialect say that they want back what their model thought before it called its tools: DeepSeek (SuperJJ007/CSSwitch #73; VicBilibily/GCMP
 * #26) and Moonshot. Who asked another model until then, or forgets such blocks as Anthropic allows, has none, and none can be made up.
 */
const THOUGHT_MISSED =
  /`?content\[\]\.thinking`? in the thinking mode must be passed back|^Missing thinking block in the assistant message|^thinking is enabled but \S+ is missing in assistant tool call message/i;

/** See {@link UpstreamDialect.lessons}. A model that does not think misses nothing; the next conversation may have it all. */
export const lessons = (words: string, terms: VendorTerms): Lesson[] =>
  THOUGHT_MISSED.test(words) ? [{ ...terms, missesThought: true, isOnce: true }] : imageLessons(words, terms);
