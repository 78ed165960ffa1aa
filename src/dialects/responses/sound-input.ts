import { isEmptyList, isObject, listOf, stringOf } from "../../lib/json.ts";
import { Lines } from "../lines.ts";
import { EMPTY_TEXT, NO_RESULT, strayHead } from "../refusals/own-words.ts";
import { DistinctNames } from "../tools/distinct-names.ts";
import { callIdIn } from "./client-tools.ts";
import { callIdOf } from "./encode-input.ts";
import {
  CUSTOM_CALL,
  type Item,
  isAgentMessage,
  isCallType,
  isMessage,
  isOutputType,
  isReasoning,
  isUncalledOutput,
  messageText,
} from "./items.ts";
import { isSoundItem, soundItem } from "./sound-item.ts";

const isCall = (item: unknown): item is Item => isObject(item) && isCallType(item["type"]);
const isOutput = (item: unknown): item is Item =>
  isObject(item) && isOutputType(item["type"]) && !isUncalledOutput(item);

/** The id by which a call of another kind is answered, undefined for every other item: agents answer a local shell's call with a function's output. */
const idOfOtherCall = (item: unknown): string | undefined =>
  isObject(item) && item["type"] === "local_shell_call" ? callIdIn(item) : undefined;

/** What the user's side says, or nothing: what the model thought before it led to nothing, as where a client broke the reply off. */
const endsTurn = (item: unknown): boolean =>
  item === undefined || isOutput(item) || (isObject(item) && speaksFor(item) && item["role"] !== "assistant");

const speaksFor = (item: Item): boolean => isMessage(item) || isAgentMessage(item) || isUncalledOutput(item);

/** What the client sets anew between two turns, such as the effort: nobody says it (OpenAI's API reference, `input`). */
const isSetting = (item: unknown): boolean => isObject(item) && item["type"] === "configuration_update";

/**
 * The input without reasoning that nothing of the model's follows, which its vendor refuses (was provided without its required following item); itself
 * where there is none.
 */
function withoutIdleReasoning(input: readonly unknown[]): readonly unknown[] {
  if (!input.some(isReasoning)) return input;
  const kept: unknown[] = [];
  let next: unknown;
  for (let at = input.length - 1; at >= 0; at--) {
    const item = input[at];
    if (isReasoning(item) && endsTurn(next)) continue;
    kept.push(item);
    if (!isSetting(item)) next = item;
  }
  return kept.length > 0 && kept.length < input.length ? kept.reverse() : input;
}

/** A message without any content: nothing is said by it, and its own vendor wants something. */
const isEmptyMessage = (item: unknown): item is Item =>
  isObject(item) && isMessage(item) && isEmptyList(item["content"]);

/** Whether an output is of its call's kind: functions and custom tools are answered each in their own. */
const answers = (output: Item, callType: unknown): boolean =>
  (output["type"] === "function_call_output") === (callType !== CUSTOM_CALL);

/**
 * Whether the model goes on while the client's tool runs: the output comes in a later request, and none is missing before that (developers.openai.com, "Async
 * tool calling").
 */
const isAsync = (call: Item): boolean => call["async"] === true;

/** Every item is sound, every call that waits for it has one output of its kind behind it, every output a call before it, no id is too long or there twice. */
function isSound(input: readonly unknown[]): boolean {
  /** Both made for the first call: many conversations have none. */
  let calls: Set<string> | undefined;
  let waiting: Map<string, Item> | undefined;
  let others: Set<string> | undefined;
  let missing = 0;
  for (const item of input) {
    const other = idOfOtherCall(item);
    if (other !== undefined) others = (others ?? new Set()).add(other);
    if (isEmptyMessage(item) || (isObject(item) && !isSoundItem(item))) return false;
    if (isCall(item)) {
      const id = stringOf(item["call_id"]);
      if (calls?.has(id) || callIdOf(id) !== id) return false;
      calls ??= new Set();
      waiting ??= new Map();
      calls.add(id);
      waiting.set(id, item);
      if (!isAsync(item)) missing++;
    } else if (isOutput(item)) {
      const id = stringOf(item["call_id"]);
      const call = waiting?.get(id);
      if (!call && others?.has(id)) continue;
      if (!call || !answers(item, call["type"])) return false;
      waiting?.delete(id);
      if (!isAsync(call)) missing--;
    }
  }
  return missing === 0;
}

/** Counts by key. */
class Counts {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string, step: number): void {
    this.#counts.set(key, this.of(key) + step);
  }
}

/** An output whose call nobody made, as the user's words. What is no text, as an image, stands behind it. */
function strayContent(callId: string, output: unknown): unknown {
  const said = `${strayHead(callId)}\n${messageText({ content: output })}`;
  const others = listOf(output).filter((part) => isObject(part) && typeof part["text"] !== "string");
  return others.length > 0 ? [{ type: "input_text", text: said }, ...others] : said;
}

/** Writes the items anew, untouched but where they stand in the way. Linear, whatever a client sends. */
class Rebuilder {
  readonly #out: unknown[] = [];
  readonly #ids = new DistinctNames();
  /** The client's call id → calls written for it that wait for their output, and how many do. */
  readonly #waiting = new Lines<string, { id: string; type: unknown }>();
  readonly #waitingFor = new Counts();
  /** Outputs that are still to come, by the client's call id. */
  readonly #outputs = new Counts();
  readonly #others = new Set<string>();

  rebuild(input: readonly unknown[]): unknown[] {
    for (const item of input) if (isOutput(item)) this.#outputs.add(stringOf(item["call_id"]), 1);
    for (const given of input) {
      const item = isObject(given) ? soundItem(given) : given;
      const other = idOfOtherCall(item);
      if (other !== undefined) this.#others.add(other);
      if (isCall(item)) this.#call(item);
      else if (isOutput(item)) this.#output(item);
      else if (!isEmptyMessage(item)) this.#out.push(item);
      else if (item["role"] !== "assistant") this.#out.push({ ...item, content: EMPTY_TEXT });
    }
    // Nobody takes a conversation in which nothing is said.
    return this.#out.length > 0 ? this.#out : [{ type: "message", role: "user", content: EMPTY_TEXT }];
  }

  #call(item: Item): void {
    const given = stringOf(item["call_id"]);
    const id = this.#ids.take(given, (count) => callIdOf(count === 1 ? given : `${given}_${count}`));
    this.#out.push(id === given ? item : { ...item, call_id: id });
    // An output that stands before its call is none of it.
    if (this.#outputs.of(given) > this.#waitingFor.of(given)) {
      this.#waiting.add(given, { id, type: item["type"] });
      this.#waitingFor.add(given, 1);
    } else if (!isAsync(item))
      this.#out.push({ type: `${stringOf(item["type"])}_output`, call_id: id, output: NO_RESULT });
  }

  #output(item: Item): void {
    const given = stringOf(item["call_id"]);
    this.#outputs.add(given, -1);
    const call = this.#waiting.take(given);
    if (call === undefined && this.#others.has(given)) {
      this.#out.push(item);
      return;
    }
    if (call === undefined) {
      this.#out.push({ type: "message", role: "user", content: strayContent(given, item["output"]) });
      return;
    }
    this.#waitingFor.add(given, -1);
    const isFitting = call.id === given && answers(item, call.type);
    this.#out.push(isFitting ? item : { ...item, type: `${stringOf(call.type)}_output`, call_id: call.id });
  }
}

/**
 * A client's own items as their vendor takes them: each sound, no call without the output that it waits for, no output without its call, no id too long or
 * twice, no message empty, no reasoning that led to nothing (dialects.md 4.3). The same value where that is so already: nothing is touched that need not change.
 */
export function soundInput(input: unknown): unknown {
  if (!Array.isArray(input)) return input;
  const led = withoutIdleReasoning(input);
  return isSound(led) ? led : new Rebuilder().rebuild(led);
}
