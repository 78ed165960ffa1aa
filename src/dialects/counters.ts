import { type Edits, editObject, isObject } from "../lib/json.ts";
import type { Quirks, TokenCounter } from "./dialect.ts";

const removing = (...fields: string[]): Edits => Object.fromEntries(fields.map((field) => [field, undefined]));

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

const numberIn = (field: string) => (answer: unknown) => (isObject(answer) ? answer[field] : undefined);

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

/** What OpenAI's counter reads of a request; it refuses the rest, as `store` and `include`. */
const RESPONSES_COUNTED = new Set(
  "model input instructions tools tool_choice parallel_tool_calls reasoning text truncation".split(" "),
);

/** `POST /responses/input_tokens`, as the official SDK's `responses.inputTokens` asks it. */
export const responsesCounter: TokenCounter = {
  path: () => "/responses/input_tokens",
  body(text) {
    const fields = Object.keys(JSON.parse(text) as Record<string, unknown>);
    return editObject(text, removing(...fields.filter((field) => !RESPONSES_COUNTED.has(field))));
  },
  read: numberIn("input_tokens"),
};

const modelStep = (model: string): string => model.replace(/^models\//, "");

/**
 * `:countTokens` (dialects.md 6.2). Google's own API counts system prompt and tools only inside a whole request; Vertex takes their
 * fields as they are.
 */
export const geminiCounter: TokenCounter = {
  path: (model) => `/models/${encodeURIComponent(modelStep(model))}:countTokens`,
  body(text, model, quirks: Quirks) {
    if (quirks.bareCountBody) return text;
    return `{"generateContentRequest":${editObject(text, { model: `models/${modelStep(model)}` })}}`;
  },
  read: numberIn("totalTokens"),
};
