import type { JsonText } from "../lib/json.ts";

/** Characters a token holds at the least, on average, over the texts people send. */
const CHARACTERS_PER_TOKEN = 4;
/** What a picture or a page counts at the most in the common schemes (dialects.md 6.3). */
const TOKENS_PER_MEDIA = 1_600;
/** A string without a space that is longer than this is data, not language. */
const DATA_STRING = 2_048;

/**
 * Input tokens of a request, estimated from its text: JSON around it counts along, which leans to the safe side; base64 data counts
 * as one picture each, not by its length.
 */
export function estimateInputTokens(body: JsonText): number {
  const { text } = body;
  if (!text.includes("base64")) return Math.max(1, Math.ceil(text.length / CHARACTERS_PER_TOKEN));
  let language = text.length;
  let media = 0;
  let from = 0;
  for (;;) {
    const open = text.indexOf('"', from);
    if (open < 0) break;
    let close = text.indexOf('"', open + 1);
    while (close > 0 && text.charCodeAt(close - 1) === 92) close = text.indexOf('"', close + 1);
    if (close < 0) break;
    const length = close - open - 1;
    if (length > DATA_STRING && !text.slice(open + 1, open + 1 + DATA_STRING).includes(" ")) {
      language -= length;
      media++;
    }
    from = close + 1;
  }
  return Math.max(1, Math.ceil(language / CHARACTERS_PER_TOKEN) + media * TOKENS_PER_MEDIA);
}
