import { isObject } from "../../lib/json.ts";
import { CONTINUE_TEXT } from "../refusals/own-words.ts";
import { traitsOf } from "./model-traits.ts";

type Wire = Record<string, unknown>;

/** The one turn that answers a prefill, so that it is known again. */
const ANSWER = { role: "user", content: [{ type: "text", text: CONTINUE_TEXT }] };

const SPOKEN = new Set<unknown>(["text", "thinking", "redacted_thinking"]);

/** Whether the last turn is an assistant's that is to be continued, and not one in which a server's tool is at work (dialects.md 2.4 pause_turn). */
export function endsInPrefill(messages: readonly unknown[]): boolean {
  const last = messages.at(-1);
  if (!isObject(last) || last["role"] !== "assistant") return false;
  const { content } = last;
  return !Array.isArray(content) || content.every((block) => isObject(block) && SPOKEN.has(block["type"]));
}

const thinks = (thinking: unknown): boolean =>
  isObject(thinking) && (thinking["type"] === "enabled" || thinking["type"] === "adaptive");

/** A Claude model continues no turn while it thinks, and the newer ones continue none at all (dialects.md 2.9). */
const refusesPrefill = (model: string, thinking: unknown): boolean =>
  !traitsOf(model).prefill || (thinks(thinking) && traitsOf(model).claude);

/**
 * Fields of requests that may end in the assistant's turn with every model: a conversation that is to be summed up, and an answer at which another model has
 * stopped (platform.claude.com, "On-demand compaction" and "Fallback credit").
 */
const ENDED_SO = ["compaction", "fallback_credit_token"];

/**
 * The conversation as a model takes it that would refuse to continue its last turn: the user answers that turn. The same array where nothing
 * is in the way. `thinking` is what goes upstream, `body` what the client says beside its messages, `isRefused` whether its model is known to refuse one.
 */
export function answerPrefill(
  messages: readonly unknown[],
  body: Wire,
  model: string,
  thinking: unknown,
  isRefused: boolean,
): readonly unknown[] {
  if (!endsInPrefill(messages) || !(isRefused || refusesPrefill(model, thinking))) return messages;
  return ENDED_SO.some((field) => body[field] != null) ? messages : [...messages, ANSWER];
}

/** Whether {@link answerPrefill} had to answer: the client asked for something else, so it is named. */
export const isAnswered = ({ messages }: Wire): boolean => Array.isArray(messages) && messages.at(-1) === ANSWER;
