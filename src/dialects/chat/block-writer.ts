import type { Event, Picture } from "../../canon/events.ts";
import { CitationKeeper, type Cited } from "../cited.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { isComplete, type ToolSlot } from "./tool-calls.ts";

type TextKind = "text" | "reasoning" | "refusal";
type TextItem = { kind: TextKind; text: string };
/** `isObject`: whether its arguments begin as an object's do; undefined as long as nothing of them can be seen. `isTold`: some of them were written. */
type ToolItem = { kind: "tool"; slot: ToolSlot; pending: string; isObject: boolean | undefined; isTold: boolean };
type PictureItem = { kind: "image"; picture: Picture };
type Item = TextItem | ToolItem | PictureItem;

/**
 * Puts a reply's text, reasoning and tool calls one after the other, as events demand: blocks never overlap. While a tool call is not
 * whole, whatever else comes waits behind it, since a closed block cannot be opened again (dialects.md 4.7 and 4.8 #12).
 */
export class BlockWriter {
  #open: Item | undefined;
  #waiting: Item[] = [];
  #items: Map<ToolSlot, ToolItem> | undefined;
  /** Characters of the block of text that is open, and of those before it. */
  #length = 0;
  #before = 0;
  /** Made for the first citation: hardly any reply has one. */
  #citations: CitationKeeper | undefined;

  /** No block is open and nothing waits. */
  get idle(): boolean {
    return this.#open === undefined && this.#waiting.length === 0;
  }

  /** Adds visible or reasoning text, which is not empty. */
  text(kind: TextKind, text: string, out: Event[]): void {
    if (this.#open?.kind === kind && this.#waiting.length === 0) {
      if (kind === "text") this.#length += text.length;
      out.push({ type: "block-delta", text });
      return;
    }
    const last = this.#waiting.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.#waiting.push({ kind, text });
    this.#advance(out, false);
  }

  /** Text of the open block that was written without this. */
  lengthen(length: number): void {
    if (this.#open?.kind === "text") this.#length += length;
  }

  /** Whether anything was cited. */
  get isCited(): boolean {
    return this.#citations !== undefined;
  }

  /** Adds what the next block of text that ends rests on. */
  cite(cited: readonly Cited[]): void {
    if (cited.length === 0) return;
    this.#citations ??= new CitationKeeper();
    this.#citations.add(cited);
  }

  /** The vendor's proof of the reasoning block that is open; without one there is nothing it could prove. */
  signature(signature: string, out: Event[]): void {
    if (this.#open?.kind === "reasoning" && this.#waiting.length === 0)
      out.push({ type: "block-signature", signature });
  }

  /** Adds a fragment (possibly empty) of a tool call's arguments. */
  tool(slot: ToolSlot, fragment: string, out: Event[]): void {
    this.#items ??= new Map();
    let item = this.#items.get(slot);
    if (!item) {
      item = { kind: "tool", slot, pending: "", isObject: undefined, isTold: false };
      this.#items.set(slot, item);
      this.#waiting.push(item);
    }
    item.pending += fragment;
    item.isObject ??= beginsObject(fragment);
    if (item === this.#open) this.#writeArguments(item, out);
    if (this.#waiting.length > 0) this.#advance(out, false);
  }

  /** Adds an image, which is a block of its own. */
  picture(picture: Picture, out: Event[]): void {
    this.#waiting.push({ kind: "image", picture });
    this.#advance(out, false);
  }

  /** Writes all that waits, and closes the last block: nothing more will come. */
  flush(out: Event[]): void {
    this.#advance(out, true);
    this.#close(out);
  }

  #advance(out: Event[], all: boolean): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (!all && this.#open?.kind === "tool" && !isComplete(this.#open.slot)) return;
      if (!all && next.kind === "tool" && this.#mayBeNamed(next.slot)) return;
      this.#waiting.shift();
      this.#close(out);
      this.#start(next, out);
    }
  }

  /** Whether a call's name may still come (dialects.md 4.7): nothing can be begun without one, and of a call that was only announced more of it may (4.8 #16). */
  #mayBeNamed(slot: ToolSlot): boolean {
    return slot.arguments === "" ? this.#waiting.length === 1 : slot.name === "";
  }

  #start(item: Item, out: Event[]): void {
    if (item.kind === "tool" && item.slot.name === "" && item.slot.arguments === "") {
      // It holds nobody up, and is begun once it says something.
      this.#items?.delete(item.slot);
      return;
    }
    if (item.kind === "image") {
      out.push({ type: "block-start", block: { kind: "image", ...item.picture } }, { type: "block-end" });
      return;
    }
    this.#open = item;
    if (item.kind === "tool") {
      const { id, custom } = item.slot;
      const name = item.slot.name || UNNAMED_TOOL;
      out.push({ type: "block-start", block: { kind: "tool-call", id, name, ...(custom && { custom }) } });
      this.#writeArguments(item, out);
      return;
    }
    const block = item.kind === "refusal" ? ({ kind: "text", refusal: true } as const) : { kind: item.kind };
    if (item.kind === "text") this.#length = item.text.length;
    out.push({ type: "block-start", block }, { type: "block-delta", text: item.text });
  }

  /** Arguments that are no object so far (JSON inside a string, null) or an empty one stay back until there is more, or the call is whole (dialects.md 4.8 #10). */
  #writeArguments(item: ToolItem, out: Event[]): void {
    if (item.pending === "") return;
    if (!item.slot.custom) {
      if (item.isObject !== true || (!item.isTold && isEmptyObject(item.pending))) return;
      if (!item.isTold) item.pending = withoutEmpty(item.pending);
    }
    item.isTold = true;
    out.push({ type: "block-delta", text: item.pending });
    item.pending = "";
  }

  #close(out: Event[]): void {
    const open = this.#open;
    if (!open) return;
    if (open.kind === "tool" && open.pending !== "") {
      const text = open.slot.custom ? open.pending : unwrapArguments(open.pending);
      if (text !== "") out.push({ type: "block-delta", text });
    }
    if (open.kind === "text") this.#endText(out);
    out.push({ type: "block-end" });
    this.#open = undefined;
  }

  #endText(out: Event[]): void {
    const citations = this.#citations?.take(this.#length, this.#before) ?? [];
    for (const citation of citations) out.push({ type: "block-citation", citation });
    this.#before += this.#length;
    this.#length = 0;
  }
}

/**
 * Whether arguments of which nothing was seen before begin as an object's do; undefined for white space. Of a piece alone: a text that grows is copied as
 * a whole each time somebody looks into it, and models that are held to a grammar may write white space without end.
 */
function beginsObject(piece: string): boolean | undefined {
  const first = piece.trimStart().charAt(0);
  return first === "" ? undefined : first === "{";
}

/** Longer arguments that say nothing so far are not looked into: models that are held to a grammar may write white space without end. */
const MAX_EMPTY = 64;
const EMPTY_ALONE = /^(?:\s*\{\s*\})*\s*(?:\{\s*)?$/;
const EMPTY_BEFORE = /^(?:\s*\{\s*\})+(?=\s*\{)/;

/** Whether arguments are empty objects, or may become some. */
const isEmptyObject = (text: string): boolean => text.length <= MAX_EMPTY && EMPTY_ALONE.test(text);

/** Arguments without an empty object that stands before the one that is meant, as some vendors and servers write them (openai/openai-agents-js #712, BerriAI/litellm #4537). */
const withoutEmpty = (text: string): string => text.replace(EMPTY_BEFORE, "");

/** Arguments that are a JSON string holding JSON, or null, as what was meant; anything else as it came. */
function unwrapArguments(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null) return "";
    return typeof value === "string" ? value : text;
  } catch {
    // Cut off or not JSON at all: the client gets the vendor's own text and decides.
    return text.trim() === "" ? "" : text;
  }
}
