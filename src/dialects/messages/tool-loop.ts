import { isObject, listOf } from "../../lib/json.ts";
import { loopBegin, type Said } from "../reasoning/lost-reasoning.ts";
import { isResult } from "./blocks.ts";

type Wire = Record<string, unknown>;

const blocksOf = (message: Wire): readonly unknown[] => listOf(message["content"]);

/** Reasoning, whether it can be read or not. */
export const isThinking = (block: unknown): boolean =>
  isObject(block) && (block["type"] === "thinking" || block["type"] === "redacted_thinking");

const givesResults = (message: unknown): boolean => isObject(message) && blocksOf(message).some(isResult);

const isAssistant = (message: unknown): message is Wire => isObject(message) && message["role"] === "assistant";

/** A system turn, which newer models take anywhere, is nobody's word. */
function saidIn(message: unknown): Said {
  if (isAssistant(message)) return "answer";
  if (!isObject(message) || message["role"] !== "user") return undefined;
  return givesResults(message) ? "results" : "words";
}

/** Where the tool loop begins that the conversation stands in: the place of its first assistant turn, -1 when its end gives no results. */
export function loopStart(messages: readonly unknown[]): number {
  const begin = loopBegin(messages.length, (at) => saidIn(messages[at]));
  return begin < messages.length ? begin : -1;
}

/** Whether the request continues a tool loop that does not begin with thinking: thinking must then be off (dialects.md 4.8 #7). */
export function continuesWithoutThinking(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false;
  const first: unknown = messages[loopStart(messages)];
  return isAssistant(first) && !isThinking(blocksOf(first)[0]);
}

/**
 * The conversation without thinking in the loop it stands in, which is refused while thinking is off; the same array where there is none. A
 * turn that thought and did nothing else stays: an empty one is refused too.
 */
export function withoutLoopThinking(messages: readonly unknown[]): readonly unknown[] {
  const start = loopStart(messages);
  const hasThinking = (message: unknown): message is Wire => isAssistant(message) && blocksOf(message).some(isThinking);
  if (start < 0 || !messages.slice(start).some(hasThinking)) return messages;
  return messages.map((message, at) => {
    if (at < start || !hasThinking(message)) return message;
    const content = blocksOf(message).filter((block) => !isThinking(block));
    return content.length === 0 ? message : { ...message, content };
  });
}
