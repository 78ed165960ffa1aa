import { isObject } from "../../lib/json.ts";
import { countTokens } from "./pieces.ts";

/** The text of a chat message's content: a string, or its text parts one below the other. Images and files say nothing here. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .filter((part) => isObject(part) && part["type"] === "text" && typeof part["text"] === "string")
    .map((part) => part.text)
    .join("\n");
}

/** The messages of a chat body; what is no object is left out. */
export function messagesOf(body: Record<string, unknown>): Record<string, unknown>[] {
  return Array.isArray(body["messages"]) ? body["messages"].filter(isObject) : [];
}

/** The text of the last user message that has any; "" without one. */
export function lastUserText(messages: readonly Record<string, unknown>[]): string {
  for (const message of messages.toReversed()) {
    const text = message["role"] === "user" ? textOf(message["content"]) : "";
    if (text.trim() !== "") return text;
  }
  return "";
}

/** The text of the tool results that the conversation ends in; undefined when it does not end in one. */
export function lastToolResult(messages: readonly Record<string, unknown>[]): string | undefined {
  const from = messages.findLastIndex((message) => message["role"] !== "tool") + 1;
  if (from >= messages.length) return undefined;
  return messages
    .slice(from)
    .map((message) => textOf(message["content"]))
    .join("\n");
}

/** Tokens of all messages, tool calls in them included; at least 1. */
export function countPrompt(messages: readonly Record<string, unknown>[]): number {
  let tokens = 0;
  for (const message of messages) {
    tokens += countTokens(textOf(message["content"]));
    const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"].filter(isObject) : [];
    for (const call of calls) {
      const called = isObject(call["function"]) ? call["function"]["arguments"] : undefined;
      if (typeof called === "string") tokens += countTokens(called);
    }
  }
  return Math.max(1, tokens);
}
