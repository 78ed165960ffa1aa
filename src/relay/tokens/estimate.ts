import { tokenFamilyOf } from "../../catalog/token-families.ts";
import type { JsonText } from "../../lib/json-text.ts";
import { imageTokens } from "./image-tokens.ts";
import { countMedia, type Media, readMedia } from "./media-tokens.ts";
import { roughTokens } from "./rough-tokens.ts";

/** Pages of a document of which nothing but its address is known. */
const UNKNOWN_PAGES = 10;
/** A function that stands for a web tool, in o200k tokens: its name, what is said of it, and its schema. */
const PER_WEB_TOOL = 115;
/** A list of tools that is not empty. */
const SOME_TOOLS = /^\[\s*\{/;
/** It is seen in so many characters. */
const TOOLS_START = 64;

/** A function that estimates the tokens of generated text: pieces of a stream count a little more than they would together. */
export function textEstimator(modelId: string): (text: string) => number {
  const { factor } = tokenFamilyOf(modelId);
  return (text) => roughTokens(text, 0, text.length) * factor;
}

/** What of a request's tokens its text does not tell. Each is 0 where it is absent, but for the bytes inside it: these are looked for then. */
export type Beside = Partial<Media> & {
  /** Web tools that it asks its vendor for, each of which the model is told of as a function, by the gateway or, as long, by who runs it. */
  webTools?: number;
};

/**
 * Input tokens of a request, estimated from its text for the first record of a stream and for the hold, without a pass through the
 * vocabulary: about 4 µs, and for 100 KB about 10. The JSON around the texts counts along, which leans to the safe side; the bytes of media count as the
 * pictures and pages they are (dialects.md 6), and whatever else looks like bytes as the language that it is to a model. `modelId` tells the family; without it, that of unknown models.
 */
export function estimateInputTokens(body: JsonText, modelId = "", beside: Beside = {}): number {
  const { webTools = 0, images = 0, documents = 0, inside = countMedia(body.value).inside } = beside;
  const family = tokenFamilyOf(modelId);
  const { language, media } =
    inside.size > 0
      ? readMedia(body.text, inside, family)
      : { language: roughTokens(body.held ?? body, 0, body.length), media: 0 };
  const hasTools = webTools > 0 || SOME_TOOLS.test(body.textOf("tools", TOOLS_START) ?? "");
  const tools = hasTools ? family.tools.base : 0;
  const said = (language + webTools * PER_WEB_TOOL) * family.factor;
  const addressed = images * imageTokens(family.image) + documents * UNKNOWN_PAGES * family.perPage;
  return Math.max(1, Math.ceil(said + media + addressed + family.perRequest + tools));
}
