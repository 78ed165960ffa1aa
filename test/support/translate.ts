import { translateRequest } from "../../src/dialects/translate.ts";
import { wholeText } from "../../src/lib/text-pieces.ts";

/** {@link translateRequest} with the text in one piece. */
export function translateWhole(...given: Parameters<typeof translateRequest>) {
  const { text, ...rest } = translateRequest(...given);
  return { ...rest, text: wholeText(text) };
}
