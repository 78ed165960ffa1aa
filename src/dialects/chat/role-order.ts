import { isObject } from "../../lib/json.ts";
import { CONTINUE_TEXT } from "../refusals/own-words.ts";

type Wire = Record<string, unknown>;

/** Stands between a tool's result and what the user says next, for vendors that want the model to speak in between. */
const BETWEEN = { role: "assistant", content: "OK." };

export const roleOf = (message: unknown): unknown => (isObject(message) ? message["role"] : undefined);

/**
 * A conversation in the order of roles that Mistral's own validator wants (mistral-common, `_validate_message_order`). A system message behind an
 * assistant's turn or a tool's result is lifted up to the others at the beginning (dialects.md 4.1). A user's turn right behind a tool's result has a
 * word of the assistant put before it. The same array where nothing is in the way.
 */
export function inRoleOrder(messages: readonly unknown[]): readonly unknown[] {
  const lifted: unknown[] = [];
  const kept: unknown[] = [];
  let before: unknown;
  for (const message of messages) {
    const role = roleOf(message);
    if (role === "system" && (before === "assistant" || before === "tool")) {
      lifted.push(message);
      continue;
    }
    if (role === "user" && before === "tool") kept.push(BETWEEN);
    kept.push(message);
    before = role;
  }
  if (lifted.length === 0 && kept.length === messages.length) return messages;
  const begin = kept.findIndex((message) => roleOf(message) !== "system");
  return [...kept.slice(0, begin), ...lifted, ...kept.slice(begin)];
}

/** An empty text is no part: vendors refuse one. */
const partsOf = (content: unknown): unknown[] =>
  Array.isArray(content) ? content : typeof content === "string" && content ? [{ type: "text", text: content }] : [];

const isEmpty = (content: unknown): boolean => content == null || content === "";

/** What two messages say as the content of one. */
function joined(first: unknown, second: unknown): unknown {
  if (isEmpty(first) || isEmpty(second)) return isEmpty(first) ? second : first;
  if (typeof first === "string" && typeof second === "string") return `${first}\n${second}`;
  return [...partsOf(first), ...partsOf(second)];
}

const isSpoken = (message: unknown): message is Wire =>
  isObject(message) && (message["role"] === "user" || message["role"] === "assistant");

/**
 * Two messages of one role as one: what the second calls, it calls behind the words of the first. Undefined where the first calls something, or is of
 * another role.
 */
export function asOne(first: unknown, second: unknown): Wire | undefined {
  if (!isSpoken(first) || !isSpoken(second) || first["role"] !== second["role"]) return undefined;
  if (first["tool_calls"] != null) return undefined;
  // What stands beside calls, such as the reasoning behind them, goes with them.
  return { ...(second["tool_calls"] == null ? first : second), content: joined(first["content"], second["content"]) };
}

/**
 * A conversation in which system messages come first and user and assistant take turns behind them (Perplexity: "user or tool message(s) should
 * alternate with assistant message(s)"). Neighbours of one role become one message. The same array where nothing is in the way.
 */
export function inTurns(messages: readonly unknown[]): readonly unknown[] {
  const system: unknown[] = [];
  const turns: unknown[] = [];
  let changed = false;
  for (const message of messages) {
    if (roleOf(message) === "system") {
      system.push(message);
      changed ||= turns.length > 0;
      continue;
    }
    const one = asOne(turns.at(-1), message);
    if (one) {
      turns[turns.length - 1] = one;
      changed = true;
    } else turns.push(message);
  }
  return changed ? [...system, ...turns] : messages;
}

/** A conversation in which the system speaks once, at the beginning, and says all that it has to say. The same array where that is so. */
export function withOneSystem(messages: readonly unknown[]): readonly unknown[] {
  const said = messages.filter((message): message is Wire => roleOf(message) === "system");
  const [first] = said;
  if (!first || (said.length === 1 && messages[0] === first)) return messages;
  const content = said.map((message) => message["content"]).reduce(joined);
  return [{ ...first, content }, ...messages.filter((message) => roleOf(message) !== "system")];
}

/** A conversation in which the user says first what the system has to say. The same array where that is nothing. */
export function withoutSystem(messages: readonly unknown[]): readonly unknown[] {
  const isSystem = (message: unknown): message is Wire => roleOf(message) === "system";
  const said = messages.filter(isSystem).map((message) => ({ ...message, role: "user" }));
  return said.length === 0 ? messages : [...said, ...messages.filter((message) => !isSystem(message))];
}

/** Opens a conversation that does not begin with the user (dialects.md 4.3). */
const OPENING = { role: "user", content: CONTINUE_TEXT };

/**
 * A conversation that the user begins, behind its system messages (Z.ai: "must not consist of system messages or assistant messages only"). The same
 * array where that is so.
 */
export function openedByUser(messages: readonly unknown[]): readonly unknown[] {
  const found = messages.findIndex((message) => roleOf(message) !== "system");
  const begin = found < 0 ? messages.length : found;
  if (roleOf(messages[begin]) === "user") return messages;
  return [...messages.slice(0, begin), OPENING, ...messages.slice(begin)];
}
