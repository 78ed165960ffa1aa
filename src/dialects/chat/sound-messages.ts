import { isObject } from "../../lib/json.ts";
import { Lines, OwnNames } from "../lines.ts";
import { boundedCallId } from "./call-ids.ts";
import { contentText } from "./delta.ts";
import { NO_RESULT } from "./encode-turns.ts";

type Wire = Record<string, unknown>;

const EMPTY_TEXT = "(empty)";

const NO_CALLS: Wire[] = [];

const callsOf = (message: unknown): Wire[] =>
  isObject(message) && message["role"] === "assistant" && Array.isArray(message["tool_calls"])
    ? message["tool_calls"].filter(isObject)
    : NO_CALLS;

const roleOf = (message: unknown): unknown => (isObject(message) ? message["role"] : undefined);

/** An assistant's turn that says nothing at all: most vendors refuse it (dialects.md 4.8 #4). Fields nobody knows here may say something. */
function saysNothing(message: unknown): boolean {
  if (!isObject(message) || message["role"] !== "assistant") return false;
  const { content } = message;
  if (content != null && content !== "" && !(Array.isArray(content) && content.length === 0)) return false;
  return Object.entries(message).every(
    ([field, value]) =>
      field === "role" ||
      field === "content" ||
      field === "name" ||
      value == null ||
      value === "" ||
      isEmptyList(value),
  );
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** A conversation in which every call has its one result right behind it, and no turn is empty. */
function isSound(messages: readonly unknown[]): boolean {
  /** Made for the first call: most conversations have none. */
  let waiting: Set<unknown> | undefined;
  for (const message of messages) {
    const role = roleOf(message);
    if (role === "tool") {
      if (!waiting?.delete((message as Wire)["tool_call_id"])) return false;
      continue;
    }
    if ((waiting && waiting.size > 0) || saysNothing(message)) return false;
    if (role === "user" && isEmptyList((message as Wire)["content"])) return false;
    // OpenAI refuses a list of no calls, which many clients send.
    if (role === "assistant" && isEmptyList((message as Wire)["tool_calls"])) return false;
    for (const call of callsOf(message)) {
      waiting ??= new Set();
      if (waiting.has(call["id"])) return false;
      waiting.add(call["id"]);
    }
  }
  return waiting === undefined || waiting.size === 0;
}

/** Calls of one turn, no two of one id. */
function withOwnIds(calls: readonly Wire[]): { call: Wire; given: unknown }[] {
  const names = new OwnNames();
  return calls.map((call) => {
    const given = call["id"];
    const wanted = String(given);
    const own = names.take(wanted, (count) => (count === 1 ? wanted : boundedCallId(`${wanted}_${count}`)));
    const id = own === wanted ? given : own;
    return { call: id === given ? call : { ...call, id }, given };
  });
}

/** Puts each result behind its call. A call without one gets a made-up one, a result without a call becomes the user's words. */
class Rebuilder {
  readonly #results = new Lines<unknown, Wire>();
  readonly #placed = new Set<unknown>();
  readonly #out: unknown[] = [];

  rebuild(messages: readonly unknown[]): unknown[] {
    for (const message of messages) {
      if (isObject(message) && message["role"] === "tool") this.#results.add(message["tool_call_id"], message);
    }
    for (const message of messages) this.#write(message);
    return this.#out;
  }

  #write(message: unknown): void {
    if (!isObject(message) || saysNothing(message)) return;
    if (message["role"] === "tool") {
      if (!this.#placed.has(message)) this.#writeStray(message);
      return;
    }
    const empty = message["role"] === "user" && isEmptyList(message["content"]);
    const calls = withOwnIds(callsOf(message));
    const changed = calls.some(({ call, given }) => call["id"] !== given);
    const { tool_calls: listed, ...rest } = message;
    this.#out.push({
      ...(isEmptyList(listed) ? rest : message),
      ...(empty && { content: EMPTY_TEXT }),
      ...(changed && { tool_calls: calls.map(({ call }) => call) }),
    });
    for (const { call, given } of calls) this.#writeResult(call["id"], given);
  }

  #writeResult(id: unknown, given: unknown): void {
    const result = this.#results.take(given, (one) => this.#placed.has(one));
    if (result) this.#placed.add(result);
    this.#out.push(result ? { ...result, tool_call_id: id } : { role: "tool", tool_call_id: id, content: NO_RESULT });
  }

  #writeStray(message: Wire): void {
    // A later call of the same id must not take it again.
    this.#placed.add(message);
    const id = message["tool_call_id"];
    const said = contentText(message["content"]);
    this.#out.push({ role: "user", content: `Result of tool call ${String(id)}:\n${said}` });
  }
}

/**
 * A client's own messages as its vendor takes them (dialects.md 1.2): every call is followed at once by its result, no call and no result
 * stands alone, no turn is empty. The same array where that is so already: nothing is touched that need not change.
 */
export function soundMessages(messages: readonly unknown[]): readonly unknown[] {
  return isSound(messages) ? messages : new Rebuilder().rebuild(messages);
}
