import { editObject } from "../../lib/json-text.ts";
import { numberIn } from "../counter-parts.ts";
import type { TokenCounter } from "../dialect.ts";

const modelStep = (model: string): string => model.replace(/^models\//, "");

/**
 * `:countTokens` (dialects.md 6.2). Google's own API counts system prompt and tools only inside a whole request; Vertex takes their
 * fields as they are.
 */
export const geminiCounter: TokenCounter = {
  path: (model) => `/models/${encodeURIComponent(modelStep(model))}:countTokens`,
  body(text, model, quirks) {
    if (quirks.bareCountBody) return text;
    return `{"generateContentRequest":${editObject(text, { model: `models/${modelStep(model)}` })}}`;
  },
  read: numberIn("totalTokens"),
};
