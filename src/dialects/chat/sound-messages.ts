import { isEmptyList, isObject, objectsOf } from "../../lib/json.ts";
import { OnceLines } from "../lines.ts";
import { EMPTY_TEXT, NO_RESULT, strayHead } from "../refusals/own-words.ts";
import { DistinctNames } from "../tools/distinct-names.ts";
import { boundedCallId } from "./call-ids.ts";
import { contentText } from "./delta.ts";
import { asOne, roleOf } from "./role-order.ts";
import { argumentsText, isOfOwnKind } from "./tool-calls.ts";

type Wire = Record<string, unknown>;

const NO_CALLS: Wire[] = [];

const callsOf = (message: unknown): Wire[] =>
  isObject(message) && message["role"] === "assistant" ? objectsOf(message["tool_calls"]) : NO_CALLS;

/** An assistant's turn that says nothing at all: most vendors refuse it (dialects.md 4.8 #4). Fields nobody knows here may say something. */
function saysNothing(message: unknown): boolean {
  if (!isObject(message) || message["role"] !== "assistant") return false;
  const { content } = message;
  if (content != null && content !== "" && !(Array.isArray(content) && content.every(isEmptyText))) return false;
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

/** A part of content that says nothing: Moonshot refuses the request for one ("text content is empty"), and so do others. */
const isEmptyText = (part: unknown): boolean => isObject(part) && part["type"] === "text" && part["text"] === "";

const isText = (part: unknown): boolean => isObject(part) && typeof part["text"] === "string";

const hasGap = ({ content }: Wire): boolean =>
  Array.isArray(content) && (content.length === 0 || content.some(isEmptyText));

/** Whether a call has what OpenAI demands of each: an id, its type, and its text (dialects.md 1.2). Clients that build calls by hand forget them. */
function isWhole({ id, type, function: called, custom }: Wire): boolean {
  if (typeof id !== "string" || id === "" || typeof type !== "string" || type === "") return false;
  if (isObject(called)) return typeof called["arguments"] === "string";
  return !isObject(custom) || typeof custom["input"] === "string";
}

/** A call with its type and its text, also where that is still an object: one without arguments had none to give. Its id is seen to where those of its turn are. */
function wholeCall(call: Wire): Wire {
  if (isWhole(call) || isOfOwnKind(call)) return call;
  const { function: called, custom } = call;
  const type = call["type"] || (isObject(called) ? "function" : "custom");
  if (isObject(called))
    return { ...call, type, function: { ...called, arguments: argumentsText(called["arguments"] ?? {}) } };
  return { ...call, type, ...(isObject(custom) && { custom: { ...custom, input: custom["input"] ?? "" } }) };
}

/** A conversation in which every call is whole and has its one result right behind it, and no turn is empty. */
function isSound(messages: readonly unknown[]): boolean {
  /** Made for the first call: most conversations have none. */
  let waiting: Set<unknown> | undefined;
  /** Calls of the last turn whose vendor has run them by itself, unless it wants the client to. */
  let perhaps: Set<unknown> | undefined;
  for (const message of messages) {
    const role = roleOf(message);
    if (isObject(message) && hasGap(message)) return false;
    if (role === "tool") {
      const id = (message as Wire)["tool_call_id"];
      if (!waiting?.delete(id) && !perhaps?.delete(id)) return false;
      continue;
    }
    perhaps = undefined;
    if ((waiting && waiting.size > 0) || saysNothing(message)) return false;
    // OpenAI refuses a list of no calls, which many clients send.
    if (role === "assistant" && isEmptyList((message as Wire)["tool_calls"])) return false;
    for (const call of callsOf(message)) {
      if (isOfOwnKind(call)) {
        perhaps ??= new Set();
        perhaps.add(call["id"]);
        continue;
      }
      waiting ??= new Set();
      if (waiting.has(call["id"]) || !isWhole(call)) return false;
      waiting.add(call["id"]);
    }
  }
  return waiting === undefined || waiting.size === 0;
}

/** Calls of one turn, each whole, no two of one id. */
function withOwnIds(calls: readonly Wire[]): { call: Wire; given: unknown }[] {
  const names = new DistinctNames();
  return calls.map((written) => {
    const call = wholeCall(written);
    const given = call["id"];
    const wanted = typeof given === "string" ? given : "";
    const id = names.take(wanted, (count) => {
      if (count === 1) return wanted === "" ? boundedCallId("") : wanted;
      return boundedCallId(`${wanted}_${count}`);
    });
    return { call: id === given ? call : { ...call, id }, given };
  });
}

/** What stands for a list of content without any, which OpenAI refuses in every role: nothing where that may be said (dialects.md 4.8 #4). */
function contentFor(role: unknown): string | null {
  if (role === "user") return EMPTY_TEXT;
  return role === "assistant" ? null : "";
}

function filled(message: Wire): Wire {
  if (!hasGap(message)) return message;
  const said = (message["content"] as unknown[]).filter((part) => !isEmptyText(part));
  return { ...message, content: said.length > 0 ? said : contentFor(message["role"]) };
}

/** Puts each result behind its call. A call without one gets a made-up one, a result without a call becomes the user's words. */
class Rebuilder {
  readonly #results = new OnceLines<unknown, Wire>();
  readonly #out: unknown[] = [];
  /** What stood here was left out, or is the user's words now. */
  #isMended = false;

  rebuild(messages: readonly unknown[]): unknown[] {
    for (const message of messages) {
      if (isObject(message) && message["role"] === "tool") this.#results.add(message["tool_call_id"], message);
    }
    for (const message of messages) this.#write(message);
    // Nobody takes a conversation in which nothing is said.
    return this.#out.length > 0 ? this.#out : [{ role: "user", content: EMPTY_TEXT }];
  }

  #write(message: unknown): void {
    if (!isObject(message)) return;
    if (saysNothing(message)) {
      this.#isMended = true;
      return;
    }
    if (message["role"] === "tool") {
      if (this.#results.claim(message)) this.#writeStray(message);
      return;
    }
    const said = filled(message);
    const listed = callsOf(message);
    const calls = withOwnIds(listed);
    const changed = calls.some(({ call }, at) => call !== listed[at]);
    const { tool_calls: _none, ...rest } = said;
    this.#add({
      ...(isEmptyList(message["tool_calls"]) ? rest : said),
      ...(changed && { tool_calls: calls.map(({ call }) => call) }),
    });
    for (const { call, given } of calls) this.#writeResult(call, given);
  }

  /** Two turns of the user that a repair made neighbours are one: the templates of many servers raise on them (dialects.md 4.8 #5). */
  #add(message: Wire): void {
    const one = this.#isMended && message["role"] === "user" ? asOne(this.#out.at(-1), message) : undefined;
    this.#isMended = false;
    if (one) this.#out[this.#out.length - 1] = one;
    else this.#out.push(message);
  }

  #writeResult(call: Wire, given: unknown): void {
    const { id } = call;
    const result = this.#results.take(given);
    if (result) this.#out.push({ ...filled(result), tool_call_id: id });
    else if (!isOfOwnKind(call)) this.#out.push({ role: "tool", tool_call_id: id, content: NO_RESULT });
  }

  #writeStray(message: Wire): void {
    const { tool_call_id: id, content } = message;
    const said = `${strayHead(String(id))}\n${contentText(content)}`;
    // What is no text, as an image that some servers take here, stands behind it.
    const others = Array.isArray(content) ? content.filter((part) => !isText(part)) : [];
    this.#isMended = true;
    this.#add({ role: "user", content: others.length > 0 ? [{ type: "text", text: said }, ...others] : said });
    this.#isMended = true;
  }
}

/**
 * A client's own messages as its vendor takes them (dialects.md 1.2): every call is whole and followed at once by its result, no call, unless its vendor has
 * run it by itself, and no result stands alone, no turn is empty. The same array where that is so already: nothing is touched that need not change.
 */
export function soundMessages(messages: readonly unknown[]): readonly unknown[] {
  return isSound(messages) ? messages : new Rebuilder().rebuild(messages);
}
