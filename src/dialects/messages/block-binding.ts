import { isObject } from "../../lib/json.ts";
import type { JsonText } from "../../lib/json-text.ts";
import { BETAS, betasIn } from "./refused-extras.ts";

const FIELD = "prefix_mismatch_behavior";
/** The beta that knows the field. */
const CONTROLS = "thinking-binding-controls-2026-08-01";

/**
 * Whether a refusal says that thinking stands behind other words than it was thought after, as Claude models since Fable 5.1 mind: the system prompt,
 * a tool or an earlier turn is another one (platform.claude.com, preserved thinking). Its vendor names the field that has it look for such thinking.
 */
export const tellsOfBinding = (words: string): boolean => words.includes(FIELD);

type Head = Record<string, string>;

/**
 * What a body and its head are to say so that the vendor itself leaves out the thinking that does not belong there, and keeps the rest. Undefined where
 * there is to be no thinking, or the client has said it itself. Whoever refuses a proof beside not a word of thinking is a model that thinks by itself.
 */
export function dropMismatched(text: JsonText, headers: Head): { body: string; headers: Head } | undefined {
  const { thinking = { type: "adaptive" } } = isObject(text.value) ? text.value : {};
  if (!isObject(thinking) || thinking["type"] === "disabled" || "block_binding" in thinking) return undefined;
  const betas = [betasIn(headers[BETAS], {}), CONTROLS].filter((beta) => beta !== "");
  return {
    body: text.edit({ thinking: { ...thinking, block_binding: { [FIELD]: "drop_block" } } }),
    headers: { ...headers, [BETAS]: betas.join(",") },
  };
}
