import { countTokens, setMergeCacheSize } from "gpt-tokenizer/encoding/o200k_base";
import { cutRuns } from "./cut.ts";

/** Words remembered with their tokens; each is at most a run long. */
const MERGE_CACHE_WORDS = 20_000;
setMergeCacheSize(MERGE_CACHE_WORDS);

/** Words such as `<|endoftext|>` are text here: a client writes about them, it cannot speak them. */
const PLAIN = { disallowedSpecial: new Set<string>() };

/**
 * Tokens of a text in the o200k vocabulary, exact but for runs longer than `MAX_RUN`, and its characters outside ASCII. The time is
 * linear in the text's length, whatever it holds.
 */
export function countText(text: string): { tokens: number; wide: number } {
  const { pieces, wide } = cutRuns(text);
  let tokens = 0;
  for (const piece of pieces) tokens += countTokens(piece, PLAIN);
  return { tokens, wide };
}
