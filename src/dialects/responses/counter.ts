import { editObject } from "../../lib/json-text.ts";
import { numberIn, removing } from "../counter-parts.ts";
import type { TokenCounter } from "../dialect.ts";

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
