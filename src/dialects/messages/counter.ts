import { isObject } from "../../lib/json.ts";
import { editObject } from "../../lib/json-text.ts";
import { numberIn, removing } from "../counter-parts.ts";
import type { TokenCounter } from "../dialect.ts";

/** Fields that only generation reads: the counter refuses them (dialects.md 2.8). */
const MESSAGES_GENERATION = removing(
  "max_tokens",
  "stream",
  "stop_sequences",
  "temperature",
  "top_p",
  "top_k",
  "metadata",
  "service_tier",
  "container",
  "inference_geo",
  "diagnostics",
  "fallbacks",
  "fallback_credit_token",
  "thread",
);

/**
 * `POST /v1/messages/count_tokens` (dialects.md 2.8). At Vertex a model of its own, which is told in the body whose tokens it counts (cloud.google.com,
 * "Count tokens for Claude models") and refuses betas that the others there take (anthropics/claude-code #12429).
 */
export const messagesCounter: TokenCounter = {
  path: (_model, { publisherModels }) =>
    publisherModels ? "/models/count-tokens:rawPredict" : "/v1/messages/count_tokens",
  passesHeader: (name, { publisherModels }) => !publisherModels || name !== "anthropic-beta",
  body: (text, model, { publisherModels }) =>
    editObject(text, publisherModels ? { ...MESSAGES_GENERATION, model } : MESSAGES_GENERATION),
  read: numberIn("input_tokens"),
  edited(answer) {
    const told = isObject(answer) ? answer["context_management"] : undefined;
    return isObject(told) ? { context_management: told, original: told["original_input_tokens"] } : undefined;
  },
};
