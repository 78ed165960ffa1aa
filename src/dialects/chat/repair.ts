import { isEmpty, isObject, listOf } from "../../lib/json.ts";
import type { ReplyContext } from "../dialect.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { Pieces } from "./decode-stream.ts";
import { contentText, emptyObjects, olderCall, reasoningText } from "./delta.ts";
import { fittingWord } from "./finish.ts";
import { isOfOwnKind, readToolFragment, type ToolSlot, ToolTracker } from "./tool-calls.ts";

type Wire = Record<string, unknown>;

const isSaid = (value: unknown): boolean => value != null && value !== "";

/**
 * Text fields that clients read: `content` as a string, reasoning as `reasoning_content` (interface 2.5 and 6.3), whatever else the
 * vendor calls it. Returns the fields to change, or undefined where nothing is wrong; the vendor's own spelling stays beside them.
 */
export function repairTexts(delta: Wire): Wire | undefined {
  const { content, reasoning_content: named } = delta;
  const isOther = Array.isArray(content) || typeof content === "number";
  const known = typeof named === "string" && named !== "";
  // Nearly every piece of a stream is of this kind.
  const mayThink = () =>
    isSaid(named) || isSaid(delta["reasoning"]) || isSaid(delta["reasoning_details"]) || isSaid(delta["thinking"]);
  if (!isOther && (known || !mayThink())) return undefined;
  const reasoning = known ? "" : reasoningText(delta);
  if (!isOther && reasoning === "") return undefined;
  return {
    ...(isOther && { content: contentText(content) }),
    ...(reasoning !== "" && { reasoning_content: reasoning }),
  };
}

/** Says of one choice of a stream what SDKs demand of it, and changes no more than that (dialects.md 1.4 "What openai enforces"). */
export class ChoiceRepairer {
  finished = false;
  roleSent = false;
  readonly #pieces = new Pieces();
  /** Both made for the first call: most replies have none. */
  #tools: ToolTracker | undefined;
  /** The calls that went out, each with as much of its name as did. */
  #announced: Map<ToolSlot, string> | undefined;
  /** A call in the older form was sent, or one of its vendor's own kind: its word for the end is left alone. */
  #keepsWord = false;

  /** `names`: the vendor's names of tools → the client's, where they are not the same. */
  constructor(
    readonly index: number,
    private readonly context: Pick<ReplyContext, "usedCallIds">,
    private readonly names?: ReadonlyMap<string, string>,
  ) {}

  /** The choice as it may go out: the same object when it is sound, a repaired copy, or undefined when it must not go out at all. */
  repair(choice: Wire, replySeed: string): Wire | undefined {
    if (this.finished) return undefined;
    const changes: Wire = {};
    if (choice["index"] !== this.index) changes["index"] = this.index;
    const { delta, message } = choice;
    const piece = this.#pieces.of(choice);
    if (isObject(delta)) {
      const repaired = this.#repairDelta(delta, replySeed);
      if (repaired !== delta) changes["delta"] = repaired;
    } else {
      changes["delta"] = this.#repairDelta(isObject(piece) ? piece : {}, replySeed);
      if (isObject(message)) changes["message"] = undefined;
    }
    const finish = choice["finish_reason"];
    if (finish === "") changes["finish_reason"] = null;
    else if (typeof finish === "string") {
      this.finished = true;
      const rest = this.emptyCalls();
      const word = this.#keepsWord ? undefined : fittingWord(finish, (this.#announced?.size ?? 0) > 0);
      if (word !== undefined) changes["finish_reason"] = word;
      if (rest.length > 0) changes["delta"] = withCalls(changes["delta"] ?? delta, rest);
    }
    return isEmpty(changes) ? choice : { ...choice, ...changes };
  }

  /** Calls that still wait for a name or the rest of it, and the arguments of those that were made without any: clients parse them as JSON (dialects.md 4.8 #10). */
  emptyCalls(): Wire[] {
    for (const slot of this.#tools?.slots ?? []) if (slot.arguments !== "") slot.name ||= UNNAMED_TOOL;
    const waiting = this.#releaseBefore(Number.POSITIVE_INFINITY);
    const isEmpty = (slot: ToolSlot) => !slot.custom && slot.arguments === "";
    const slots = this.#announced ? [...this.#announced.keys()].filter(isEmpty) : [];
    return [...waiting, ...slots.map((slot) => ({ index: slot.ordinal, function: { arguments: "{}" } }))];
  }

  #repairDelta(delta: Wire, replySeed: string): Wire {
    let changes = repairTexts(delta);
    if (!this.roleSent) {
      this.roleSent = true;
      if (typeof delta["role"] !== "string" || delta["role"] === "") changes = { ...changes, role: "assistant" };
    } else if (typeof delta["role"] === "string") {
      // Z.ai and MiniMax go on with "", where clients with checked types end the stream (vercel/ai#15464); others repeat the role, of which OpenAI's
      // SDK for Python makes "assistantassistant" (dialects.md 4.8 #20).
      changes = { ...changes, role: undefined };
    }
    if (olderCall(delta)) this.#keepsWord = true;
    const empty = emptyObjects(delta);
    if (empty) changes = { ...changes, ...empty };
    const calls = delta["tool_calls"];
    if (Array.isArray(calls)) {
      const repaired = this.#repairCalls(calls, replySeed);
      // mlx_lm and others say with each piece that it calls nothing: Spring AI's streams end there or keep one piece, AI SDK's tell each piece of reasoning
      // as a whole (vercel/ai#20203).
      if (repaired !== calls || calls.length === 0)
        changes = { ...changes, tool_calls: repaired.length > 0 ? repaired : undefined };
    }
    return changes ? { ...delta, ...changes } : delta;
  }

  #repairCalls(calls: readonly unknown[], replySeed: string): readonly unknown[] {
    let changed = false;
    const repaired: Wire[] = [];
    for (const call of calls) {
      const sound = isObject(call) ? this.#repairCall(call, replySeed, repaired) : undefined;
      if (sound !== call) changed = true;
      if (sound) repaired.push(sound);
    }
    return changed || repaired.length !== calls.length ? repaired : calls;
  }

  /** Adds to `before` what must go out ahead of the call. */
  #repairCall(call: Wire, replySeed: string, before: Wire[]): Wire | undefined {
    const fragment = readToolFragment(call);
    if (!fragment) return undefined;
    this.#tools ??= new ToolTracker(this.context.usedCallIds);
    this.#announced ??= new Map();
    const slot = this.#tools.add(fragment, replySeed);
    if (isOfOwnKind(call)) {
      this.#keepsWord = true;
      return call["index"] === slot.ordinal ? call : { ...call, index: slot.ordinal };
    }
    const sent = this.#announced.get(slot);
    if (sent !== undefined) {
      this.#announced.set(slot, slot.name);
      return continueCall(call, slot, slot.name.slice(sent.length), fragment.arguments);
    }
    if (this.names) before.push(...this.#releaseBefore(slot.ordinal));
    // A call without a name cannot be announced; its arguments go out with the name.
    if (slot.name === "" || this.#mayGrow(slot)) return undefined;
    return this.#announce(call, slot);
  }

  #announce(call: Wire, slot: ToolSlot): Wire {
    slot.name = this.names?.get(slot.name) ?? slot.name;
    this.#announced?.set(slot, slot.name);
    return announceCall(call, slot);
  }

  /** Whether a name may be the first piece of one that the client calls otherwise: joined, the pieces of that would be the vendor's name (dialects.md 4.8 #16). */
  #mayGrow(slot: ToolSlot): boolean {
    if (!this.names || slot.arguments !== "") return false;
    for (const name of this.names.keys()) if (name !== slot.name && name.startsWith(slot.name)) return true;
    return false;
  }

  /** The calls before this place that were waiting for the rest of a name, which does not come any more. */
  #releaseBefore(ordinal: number): Wire[] {
    const isWaiting = (slot: ToolSlot) =>
      slot.ordinal < ordinal && slot.name !== "" && this.#announced?.has(slot) === false;
    return (this.#tools?.slots.filter(isWaiting) ?? []).map((slot) => this.#announce({}, slot));
  }
}

function withCalls(delta: unknown, calls: readonly Wire[]): Wire {
  const own = isObject(delta) ? delta : {};
  return { ...own, tool_calls: [...listOf(own["tool_calls"]), ...calls] };
}

/** The fields in which a call of this kind says what it calls, and with which text. */
const FUNCTION_FIELDS = { field: "function", textField: "arguments" } as const;
const CUSTOM_FIELDS = { field: "custom", textField: "input" } as const;
const fieldsOf = ({ custom }: ToolSlot) => (custom ? CUSTOM_FIELDS : FUNCTION_FIELDS);

/** The first record of a call: index, id, type and name, once. */
function announceCall(call: Wire, slot: ToolSlot): Wire {
  const { field, textField } = fieldsOf(slot);
  const called = isObject(call[field]) ? call[field] : {};
  const isSound =
    call["index"] === slot.ordinal &&
    call["id"] === slot.id &&
    call["type"] === field &&
    called["name"] === slot.name &&
    (called[textField] ?? "") === slot.arguments;
  if (isSound) return call;
  const whole = { ...called, name: slot.name, [textField]: slot.arguments };
  return { ...call, index: slot.ordinal, id: slot.id, type: field, [field]: whole };
}

/** Every further record of a call: index and arguments, no id, and what of its name is still to be said: clients join that as they join the rest. */
function continueCall(call: Wire, slot: ToolSlot, name: string, text: string): Wire {
  const { field, textField } = fieldsOf(slot);
  const called = isObject(call[field]) ? call[field] : {};
  const isSound =
    call["index"] === slot.ordinal &&
    !("id" in call) &&
    (name === "" ? !("name" in called) : called["name"] === name) &&
    (called[textField] ?? "") === text;
  if (isSound) return call;
  const { id: _id, type: _type, ...rest } = call;
  const { name: _name, ...more } = called;
  return { ...rest, index: slot.ordinal, [field]: { ...more, ...(name !== "" && { name }), [textField]: text } };
}
