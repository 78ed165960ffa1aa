import { isObject, stringOf } from "../../lib/json.ts";
import { ReplyCallIds } from "../tools/counted-ids.ts";
import { ObjectEnd } from "../tools/object-end.ts";
import { holdsNothing } from "./delta.ts";

/** One entry of `delta.tool_calls` as it came, with what is missing or unusable left empty. */
export type ToolFragment = {
  index: number | undefined;
  id: string;
  name: string;
  arguments: string;
  /** A custom tool: its input is free text and no JSON. */
  custom: boolean;
};

/** The tool call that fragments belong to. */
export type ToolSlot = {
  /** Place among the reply's calls, from 0 without gaps. */
  readonly ordinal: number;
  readonly id: string;
  /** What the vendor calls it; "" where it gave no id, and one was made up here. */
  readonly given: string;
  readonly custom: boolean;
  name: string;
  /** All arguments text so far, and whether it is whole. */
  arguments: string;
  readonly end: ObjectEnd;
};

/** Arguments as JSON text: most send text, a few an object (dialects.md 4.8 #10). */
export function argumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return isObject(value) ? JSON.stringify(value) : "";
}

/**
 * A call's name without the model's own marks, which some servers leave behind it: `find<|channel|>commentary`, of gpt-oss at vLLM (vllm-project/vllm #32587).
 * No client has a tool of such a name, and no vendor takes one back.
 */
function nameOf(called: unknown): string {
  const name = isObject(called) ? stringOf(called["name"]) : "";
  const mark = name.indexOf("<|");
  return mark < 0 ? name : name.slice(0, mark).trimEnd();
}

/** Reads one tool-call entry of a delta or of a whole message; undefined when it is none. The literal id "null" counts as none (dialects.md 4.8 #14). */
export function readToolFragment(value: unknown): ToolFragment | undefined {
  if (!isObject(value)) return undefined;
  const index = value["index"];
  const id = stringOf(value["id"]);
  // Beside a function's call it may stand empty, as in OpenAI's type for Go, which has both.
  const custom = holdsNothing(value["custom"]) ? undefined : value["custom"];
  const called = isObject(value["function"]) ? value["function"] : {};
  return {
    index: typeof index === "number" && Number.isInteger(index) ? index : undefined,
    id: id === "null" ? "" : id,
    name: nameOf(isObject(custom) ? custom : called),
    arguments: isObject(custom) ? stringOf(custom["input"]) : argumentsText(called["arguments"]),
    custom: isObject(custom),
  };
}

/**
 * Whether a call is of a kind of its vendor's own, told under that kind's name, such as a program that GLM-4-AllTools runs (`code_interpreter`): it says nothing
 * where others say what they call.
 */
export function isOfOwnKind(call: unknown): boolean {
  if (!isObject(call)) return false;
  const { type, function: called } = call;
  const isKnown = type === "function" || type === "custom" || isObject(called);
  return typeof type === "string" && !isKnown && isObject(call[type]);
}

/** Whether a call's arguments form a whole JSON object, after which no fragment can follow. */
export const isComplete = ({ end, arguments: text }: ToolSlot): boolean => end.isReached(text);

/** An id for a call that came without one: the same for the same reply and place, different in every other reply. */
export function inventCallId(replySeed: string, ordinal: number): string {
  const seed = `${replySeed}/${ordinal}`;
  return `call_${Bun.hash(seed).toString(36)}${Bun.hash(seed, 1).toString(36)}`.slice(0, 29);
}

/**
 * Says which call a fragment belongs to: by index where there is one, by id or name where not, and as a new call where a vendor uses one
 * index twice (dialects.md 4.8 #13). The rest of a call may slip to the next index. Ids and names that are repeated on every fragment are taken once (#15).
 */
export class ToolTracker {
  readonly slots: ToolSlot[] = [];
  readonly #ids: ReplyCallIds;
  #byIndex = new Map<number, ToolSlot>();
  /** Calls by their vendor's own ids: made for the first fragment that says no index. */
  #byId: Map<string, ToolSlot> | undefined;
  #last: ToolSlot | undefined;

  /** `used`: see {@link ReplyCallIds}. */
  constructor(used?: ReadonlySet<string>) {
    this.#ids = new ReplyCallIds(used);
  }

  /** Adds a fragment to its call, and returns that call; of the fragment stays what is new. `replySeed` makes up a missing id. */
  add(fragment: ToolFragment, replySeed: string): ToolSlot {
    let slot = this.#find(fragment);
    if (!slot) {
      const ordinal = this.slots.length;
      const given = fragment.id;
      const id = this.#ids.take(given || inventCallId(replySeed, ordinal), replySeed);
      slot = { ordinal, id, given, custom: fragment.custom, name: "", arguments: "", end: new ObjectEnd() };
      this.slots.push(slot);
      if (given !== "" && this.#byId?.has(given) === false) this.#byId.set(given, slot);
      if (fragment.index !== undefined) this.#byIndex.set(fragment.index, slot);
    }
    this.#last = slot;
    // Behind arguments a name is a repeated one, unless none has come yet.
    if (fragment.name !== "" && (slot.arguments === "" || slot.name === ""))
      slot.name = joinName(slot.name, fragment.name);
    if (repeatsAll(slot, fragment)) fragment.arguments = "";
    slot.arguments += fragment.arguments;
    slot.end.add(fragment.arguments);
    return slot;
  }

  #find(fragment: ToolFragment): ToolSlot | undefined {
    const last = this.#last;
    if (fragment.index !== undefined) {
      const slot = this.#byIndex.get(fragment.index);
      if (slot) return startsAnother(slot, fragment) ? undefined : slot;
      return last && isRestOf(last, fragment) ? last : undefined;
    }
    if (fragment.id !== "") {
      return this.#withId(fragment.id) ?? (fragment.name === "" ? last : undefined);
    }
    if (!last || fragment.name === "") return last;
    // A call that has arguments and no name yet is the one that is named now, unless both calls are whole.
    if (last.name === "") return startsAnother(last, fragment) ? undefined : last;
    const unfinished = last.arguments !== "" && !isComplete(last);
    return unfinished && last.name === fragment.name ? last : undefined;
  }

  /** The first call that its vendor calls so. */
  #withId(id: string): ToolSlot | undefined {
    if (!this.#byId) {
      this.#byId = new Map();
      for (const slot of this.slots)
        if (slot.given !== "" && !this.#byId.has(slot.given)) this.#byId.set(slot.given, slot);
    }
    return this.#byId.get(id);
  }
}

/**
 * Whether a fragment at an index nobody has heard of is the rest of a call that is not whole: it neither names a tool nor has an id. The last pieces of
 * gpt-oss' calls come so at Nebius (pipecat-ai/pipecat #4688).
 */
const isRestOf = (slot: ToolSlot, { id, name, arguments: text }: ToolFragment): boolean =>
  id === "" && name === "" && text !== "" && slot.arguments !== "" && !isComplete(slot);

/** Whether a fragment says a call's whole arguments once more, as some servers do at the end of a stream (vllm-project/vllm #51697, lidge-jun/opencodex #361). */
const repeatsAll = (slot: ToolSlot, { arguments: text }: ToolFragment): boolean =>
  text !== "" && text === slot.arguments && !slot.custom && isComplete(slot);

/** Whether a fragment at a known index, or at none, opens a second call there. */
function startsAnother(slot: ToolSlot, fragment: ToolFragment): boolean {
  if (fragment.name === "") return false;
  if (fragment.id !== "" && slot.given !== "") return fragment.id !== slot.given;
  return fragment.id === "" && fragment.arguments !== "" && isComplete(slot);
}

/** A name that arrives in pieces, repeated, or growing (dialects.md 4.8 #15 and #16). */
function joinName(known: string, piece: string): string {
  if (known === "" || piece.startsWith(known)) return piece;
  return known + piece;
}
