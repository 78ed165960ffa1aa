import type { Memories, MemoryBlock, ReasoningMemory } from "../../canon/memory.ts";
import type { Part, Prompt, Turn } from "../../canon/prompt.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { detailsPart } from "./details.ts";

/** An assistant turn of a client's body, as far as remembered reasoning is looked up by it. */
export type SpokenTurn = {
  callIds: string[];
  /** Its visible text; "" where nobody asked for texts. */
  text: string;
  /** What came back of its reasoning: nothing, its text, or a vendor's proof of it. */
  carries: "nothing" | "text" | "proof";
  /** All of it came back, as a reseller wants it. */
  hasDetails?: true;
  /** Digest of all that users said before it; 0 where nobody asked for texts. */
  anchor: bigint;
};

/** A client's conversation: its assistant turns in order, and the digest of all that users said. */
export type Conversation = { turns: SpokenTurn[]; anchor: bigint };

/** How remembered reasoning is looked up and put back in the bodies of one client dialect. */
export type ReplayHalf = {
  /** Clients of this dialect do not send reasoning back, so turns without calls are remembered too. */
  readonly forgets: boolean;
  /** Its texts have no place for what a vendor says of them, even where its clients send all else back. */
  readonly bareTexts?: boolean;
  /** The conversation in a checked body. `texts`: texts and anchors are wanted, which cost a pass over them. */
  read(body: Record<string, unknown>, texts: boolean): Conversation;
  /** On the diagonal: the body's conversation with remembered reasoning in it, as edits. `field`: where the vendor wants plain text. */
  restore(body: Record<string, unknown>, memories: Memories, field: string | undefined): Edits;
};

/** A running digest of what users say. It tells conversations apart in which a vendor gives the same call ids again. */
export class Anchor {
  /** The digest; 0 where it is not wanted, or nothing was said. */
  value = 0n;

  constructor(private readonly wanted: boolean) {}

  add(text: string): void {
    if (this.wanted && text !== "") this.value = Bun.hash.wyhash(text, this.value);
  }
}

/** Edits of a body with `messages`: each assistant's message of which something is remembered, as `write` gives it. */
export function restoreMessages(
  body: Record<string, unknown>,
  memories: Memories,
  write: (message: Record<string, unknown>, memory: ReasoningMemory) => Record<string, unknown>,
): Edits {
  let number = -1;
  const messages = listOf(body["messages"]).map((message) => {
    if (!isObject(message) || message["role"] !== "assistant") return message;
    number++;
    const memory = memories.get(number);
    return memory ? write(message, memory) : message;
  });
  return { messages };
}

/** How the blocks of one wire, or the parts of a turn, are read and made. */
export type Loom<T> = {
  isText(item: T): boolean;
  isReasoning(item: T): boolean;
  callIdOf(item: T): string | undefined;
  /** A reasoning block as an item; undefined where this wire has no place for it. */
  make(block: Extract<MemoryBlock, { kind: "reasoning" | "redacted-reasoning" | "details" }>): T | undefined;
  /** The item with the vendor's proof on it, unless it has one. */
  sign(item: T, signature: string): T;
};

/**
 * `items` with the remembered reasoning between them, where the vendor had put it, in place of what reasoning they hold. The same array
 * when the memory is of another turn: it knows calls, and none of them is there.
 */
export function weave<T>(memory: ReasoningMemory, items: readonly T[], loom: Loom<T>): readonly T[] {
  const knowsCalls = memory.some((block) => block.kind === "tool-call");
  const rest = asSaid(
    memory,
    items.filter((item) => !loom.isReasoning(item)),
    loom,
  );
  const calls = placesOfCalls(rest, loom);
  if (knowsCalls && !memory.some((block) => block.kind === "tool-call" && calls.has(block.id))) return items;
  const woven: T[] = [];
  let next = 0;
  let waiting: T[] = [];
  for (const block of memory) {
    if (block.kind !== "text" && block.kind !== "tool-call") {
      const made = loom.make(block);
      if (made !== undefined) waiting.push(made);
      continue;
    }
    const at = block.kind === "text" ? textAt(rest, next, loom) : callAt(calls, next, block.id);
    if (at < 0) continue;
    // What opens a turn opens it whatever the client put before its first known block.
    const skipped = rest.slice(next, at);
    woven.push(...(woven.length === 0 ? [...waiting, ...skipped] : [...skipped, ...waiting]));
    const item = rest[at] as T;
    woven.push(block.signature === undefined ? item : loom.sign(item, block.signature));
    waiting = [];
    next = at + 1;
  }
  if (woven.length === 0) return [...waiting, ...rest];
  // Reasoning at the very end of a turn led to nothing, and is refused there.
  return [...woven, ...rest.slice(next)];
}

/**
 * A turn's texts and calls in the order in which its vendor gave them, where they are all that it gave: a client whose dialect has one text for a turn
 * sends it back before the calls, and a vendor's proof may hold for all that stood before it.
 */
function asSaid<T>(memory: ReasoningMemory, rest: readonly T[], loom: Loom<T>): readonly T[] {
  const said = memory.filter(({ kind }) => kind === "text" || kind === "tool-call");
  if (said.length !== rest.length) return rest;
  const texts = rest.filter((item) => loom.isText(item)).values();
  const calls = placesOfCalls(rest, loom);
  const ordered: T[] = [];
  for (const block of said) {
    const item = block.kind === "tool-call" ? rest[calls.get(block.id)?.shift() ?? -1] : texts.next().value;
    if (item === undefined) return rest;
    ordered.push(item);
  }
  return ordered;
}

function textAt<T>(rest: readonly T[], next: number, loom: Loom<T>): number {
  const item = rest[next];
  return item !== undefined && loom.isText(item) ? next : -1;
}

/** Where the calls stand, by their ids, first ones first. */
function placesOfCalls<T>(rest: readonly T[], loom: Loom<T>): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (const [at, item] of rest.entries()) {
    const id = loom.callIdOf(item);
    if (id === undefined) continue;
    const own = places.get(id);
    if (own) own.push(at);
    else places.set(id, [at]);
  }
  return places;
}

/** The first place of a call from `next` on, which never falls: places before it are given up. */
function callAt(calls: Map<string, number[]>, next: number, id: string): number {
  const places = calls.get(id) ?? [];
  while (places[0] !== undefined && places[0] < next) places.shift();
  return places[0] ?? -1;
}

const PARTS: Loom<Part> = {
  isText: (part) => part.type === "text",
  isReasoning: (part) => part.type === "reasoning" || part.type === "redacted-reasoning",
  callIdOf: (part) => (part.type === "tool-call" ? part.id : undefined),
  make(block) {
    if (block.kind === "redacted-reasoning") return { type: "redacted-reasoning", data: block.data };
    if (block.kind === "details") return detailsPart(block.items);
    return {
      type: "reasoning",
      text: block.text,
      ...(block.signature !== undefined && { signature: block.signature }),
    };
  },
  sign(part, signature) {
    if (part.type !== "tool-call" && part.type !== "text") return part;
    return part.signature === undefined ? { ...part, signature } : part;
  },
};

/** The one text of a turn cut where the vendor had begun anew, if it is as long as all of its texts were. */
function splitText(parts: readonly Part[], memory: ReasoningMemory): readonly Part[] {
  const lengths = memory.flatMap((block) => (block.kind === "text" ? [block.length] : []));
  const texts = parts.filter((part) => part.type === "text");
  const [only] = texts;
  if (lengths.length < 2 || texts.length !== 1 || only?.type !== "text") return parts;
  if (lengths.reduce((sum, length) => sum + length, 0) !== only.text.length) return parts;
  let from = 0;
  const pieces = lengths.map((length): Part => {
    const text = only.text.slice(from, from + length);
    from += length;
    return { ...only, text };
  });
  return parts.flatMap((part) => (part === only ? pieces : [part]));
}

/** Puts remembered reasoning into a prompt's assistant turns, in place. Turns count as the client's dialect counted them. */
export function restorePrompt(prompt: Prompt, memories: Memories): void {
  let number = -1;
  prompt.turns = prompt.turns.map((turn): Turn => {
    if (turn.role !== "assistant") return turn;
    number++;
    const memory = memories.get(number);
    return memory ? { ...turn, parts: [...weave(memory, splitText(turn.parts, memory), PARTS)] } : turn;
  });
}
