import { isObject } from "../../lib/json.ts";
import { asReminder, asReminderPart, CONTINUE_TEXT } from "../refusals/own-words.ts";

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

/** What the system says, as the user says it. */
function asUsers(message: Wire): Wire {
  const { content } = message;
  const told = Array.isArray(content) ? content.map(asReminderPart) : content;
  return { ...message, role: "user", content: typeof told === "string" ? asReminder(told) : told };
}

const isSystem = (message: unknown): message is Wire => roleOf(message) === "system";

/**
 * What the system says before the model first answers, and the conversation without it. What it says later stays in its place as the user's text
 * (dialects.md 4.1 has both): Claude Code writes such a message for each word of a hook, and were it lifted, a server would read the whole conversation
 * afresh at each step.
 */
function partSystem(messages: readonly unknown[]): { opening: Wire[]; spoken: unknown[] } {
  const answered = messages.findIndex((message) => roleOf(message) === "assistant");
  const before = answered < 0 ? messages : messages.slice(0, answered);
  const later = messages.slice(before.length).flatMap((message) => {
    if (!isSystem(message)) return [message];
    return isEmpty(message["content"]) ? [] : [asUsers(message)];
  });
  return { opening: before.filter(isSystem), spoken: [...before.filter((message) => !isSystem(message)), ...later] };
}

/** A conversation in which the system speaks once, at the beginning, and says all that it has to say there; see {@link partSystem}. The same array where that is so. */
export function withOneSystem(messages: readonly unknown[]): readonly unknown[] {
  if (!messages.some((message, at) => at > 0 && isSystem(message))) return messages;
  const { opening, spoken } = partSystem(messages);
  const content = opening.map((message) => message["content"]).reduce(joined, undefined);
  return [...opening.slice(0, 1).map((first) => ({ ...first, content })), ...spoken];
}

/** A conversation in which the user says first what the system has to say there; see {@link partSystem}. The same array where that is nothing. */
export function withoutSystem(messages: readonly unknown[]): readonly unknown[] {
  if (!messages.some(isSystem)) return messages;
  const { opening, spoken } = partSystem(messages);
  return [...opening.map((message) => ({ ...message, role: "user" })), ...spoken];
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
