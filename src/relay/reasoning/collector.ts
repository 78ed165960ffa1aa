import type { Event } from "../../canon/events.ts";
import type { MemoryBlock, ReasoningMemory } from "../../canon/memory.ts";
import { detailsInBlock } from "../../dialects/reasoning/details.ts";
import { MAX_STATE_BYTES } from "./store.ts";

/** Most tool calls of one reply that its reasoning is found by (dialects.md 1.4: indices 0 to 127). */
const MAX_CALLS = 128;
/** Blocks of one reply that are remembered; a reply of more is no sound one. */
const MAX_BLOCKS = 4_096;

/** Characters of text that are taken into its digest at once. */
const MAX_WAITING = 1_024;

/** What is kept of a finished reply: its reasoning, and what its next request will name it by. */
export type Collected = { memory: ReasoningMemory; callIds: string[]; text: TextDigest | undefined };

/** A digest of visible text in which white space does not count: clients trim and join as they like. */
export class TextDigest {
  /** Made for the first text that is taken in: most replies are never looked for by theirs. */
  #hasher: Bun.CryptoHasher | undefined;
  /** Text that is not in the digest yet: a reply comes in hundreds of pieces, and taking in each by itself costs more than all. */
  #waiting = "";
  #value: string | undefined;

  add(text: string): void {
    this.#waiting += text;
    if (this.#waiting.length > MAX_WAITING) this.#take();
  }

  /** The digest; undefined where nothing was visible. Nothing can be added afterwards. */
  get value(): string | undefined {
    this.#take();
    this.#value ??= this.#hasher?.digest("base64url");
    return this.#value;
  }

  #take(): void {
    const seen = this.#waiting.replace(/\s+/g, "");
    this.#waiting = "";
    if (seen === "") return;
    this.#hasher ??= new Bun.CryptoHasher("sha256");
    this.#hasher.update(seen);
  }
}

/** The digest of a text that is there as a whole: the same as {@link TextDigest} gives, and a third of the work. */
export function digestText(text: string): string | undefined {
  const seen = text.replace(/\s+/g, "");
  return seen === "" ? undefined : Bun.CryptoHasher.hash("sha256", seen, "base64url");
}

/**
 * Gathers, from the events of one reply, the reasoning that its vendor will want back. `proofs`: the vendor takes back what it has proved
 * alone, else its text is enough. `texts`: turns without calls are remembered by their text. `maker`: the family of the model that replies.
 */
export class ReasoningCollector {
  /** Resolves when the reasoning is on the disk; undefined where there is none. Never rejects. */
  kept: Promise<void> | undefined;
  readonly #blocks: MemoryBlock[] = [];
  #open: MemoryBlock | undefined;
  #characters = 0;
  #text: TextDigest | undefined;
  #over = false;

  constructor(
    private readonly options: { proofs: boolean; texts: boolean; maker: string },
    private readonly keep: (collected: Collected) => Promise<void> | undefined,
    /** Is told of every proof, where it must be known later who gave it. */
    private readonly noteProof?: (proof: string) => void,
  ) {}

  /** Takes the next events of the reply, in their order; at its finish, what is worth it is kept. */
  take(events: readonly Event[]): void {
    for (const event of events) {
      if (event.type === "block-delta") this.#add(event.text);
      else if (event.type === "block-start") this.#begin(event.block);
      else if (event.type === "block-signature") this.#sign(event.signature);
      else if (event.type === "block-end") this.#open = undefined;
      else if (event.type === "finish") this.#finish();
    }
  }

  #begin(block: Extract<Event, { type: "block-start" }>["block"]): void {
    this.#open = undefined;
    if (this.#over) return;
    const details = this.options.proofs ? undefined : detailsInBlock(block);
    if (details) this.#addDetails(details);
    if (block.kind === "text") this.#open = { kind: "text", length: 0 };
    else if (block.kind === "reasoning") this.#open = { kind: "reasoning", text: "" };
    else if (block.kind === "tool-call") this.#open = { kind: "tool-call", id: block.id };
    else if (block.kind === "redacted-reasoning") this.#open = { kind: "redacted-reasoning", data: block.data };
    if (!this.#open) return;
    if (block.kind === "redacted-reasoning") {
      this.#weigh(block.data.length);
      this.noteProof?.(block.data);
    }
    if (this.#blocks.length >= MAX_BLOCKS) this.#giveUp();
    else this.#blocks.push(this.#open);
  }

  /** They stand first, since they are put back with the turn and not between its blocks. */
  #addDetails(items: readonly unknown[]): void {
    this.#blocks.unshift({ kind: "details", maker: this.options.maker, items });
    this.#weigh(JSON.stringify(items).length);
  }

  #add(text: string): void {
    const open = this.#open;
    if (open?.kind === "text") {
      open.length += text.length;
      if (!this.options.texts) return;
      this.#text ??= new TextDigest();
      this.#text.add(text);
    } else if (open?.kind === "reasoning") {
      open.text += text;
      this.#weigh(text.length);
    }
  }

  #sign(signature: string): void {
    const open = this.#open;
    if (!open || open.kind === "redacted-reasoning" || open.kind === "details") return;
    open.signature = signature;
    this.noteProof?.(signature);
    this.#weigh(signature.length);
  }

  /** A reply whose reasoning is too long to be kept is let go as it comes, so that it is not held either. */
  #weigh(characters: number): void {
    this.#characters += characters;
    if (this.#characters > MAX_STATE_BYTES) this.#giveUp();
  }

  #giveUp(): void {
    this.#over = true;
    this.#blocks.length = 0;
    this.#open = undefined;
  }

  #finish(): void {
    if (this.#over) return;
    const { proofs } = this.options;
    const blocks = this.#blocks.filter(
      (block) => !proofs || block.kind !== "reasoning" || block.signature !== undefined,
    );
    if (!blocks.some((block) => isWorthKeeping(block, proofs))) return;
    const callIds = blocks.flatMap((block) => (block.kind === "tool-call" ? [block.id] : [])).slice(0, MAX_CALLS);
    this.kept = this.keep({ memory: blocks, callIds, text: this.#text });
    this.#giveUp();
  }
}

function isWorthKeeping(block: MemoryBlock, proofs: boolean): boolean {
  if (block.kind === "details") return true;
  if (proofs) return block.kind === "redacted-reasoning" || block.signature !== undefined;
  return block.kind === "reasoning" && block.text !== "";
}
