import type { Event } from "../canon/events.ts";

/** Most blocks that may be open at the same time, and most characters that may wait behind the open one: beyond, the stream is broken. */
const MAX_OPEN_BLOCKS = 256;
const MAX_WAITING_CHARACTERS = 32 * 1024 * 1024;
/** What a piece takes beside its characters. */
const PIECE_CHARACTERS = 100;

/** A block on its way: `index` is the vendor's number for it, `position` its place in the reply. */
export type Slot<Piece, State> = {
  readonly index: unknown;
  readonly position: number;
  readonly state: State;
  waiting: Piece[];
  /** Characters of what is waiting. */
  size: number;
  closed: boolean;
};

/** Characters of an event's text. */
export const charactersOf = (event: Event): number => (event.type === "block-delta" ? event.text.length : 0);

/**
 * Puts blocks that a vendor sends interleaved one behind the other, in the order in which they began: the pieces of the first open one
 * go out at once, those of the others wait (dialects.md 4.7; contract 7: never two open). Positions count 0, 1, 2, … without gaps.
 */
export class BlockLane<Piece, State> {
  #slots: Slot<Piece, State>[] = [];
  #count = 0;
  /** Characters that wait in all. */
  #waiting = 0;

  constructor(private readonly charactersOf: (piece: Piece) => number) {}

  /** No block is open. */
  get idle(): boolean {
    return this.#slots.length === 0;
  }

  /** Blocks wait behind the first one. */
  get crowded(): boolean {
    return this.#slots.length > 1;
  }

  /** More is open or waiting than any sound stream needs. */
  get overfull(): boolean {
    return this.#slots.length > MAX_OPEN_BLOCKS || this.#waiting > MAX_WAITING_CHARACTERS;
  }

  /** The open block with this number; without a number, the one that began last. */
  find(index: unknown): Slot<Piece, State> | undefined {
    for (let at = this.#slots.length - 1; at >= 0; at--) {
      const slot = this.#slots[at];
      if (slot && !slot.closed && (index === undefined || slot.index === index)) return slot;
    }
    return undefined;
  }

  /** The open blocks with this number, oldest first; without a number, the one that began last. */
  all(index: unknown): Slot<Piece, State>[] {
    if (index !== undefined) return this.#slots.filter((slot) => !slot.closed && slot.index === index);
    const last = this.find(undefined);
    return last ? [last] : [];
  }

  open(index: unknown, state: State): Slot<Piece, State> {
    const slot = { index, position: this.#count++, state, waiting: [], size: 0, closed: false };
    this.#slots.push(slot);
    return slot;
  }

  /** Takes a place for a block that comes whole; only while {@link idle}. */
  skip(): number {
    return this.#count++;
  }

  /** Adds a piece to a block: to `out` when it is that block's turn. */
  write(slot: Slot<Piece, State>, piece: Piece, out: Piece[]): void {
    if (slot === this.#slots[0]) out.push(piece);
    else {
      slot.waiting.push(piece);
      const size = PIECE_CHARACTERS + this.charactersOf(piece);
      slot.size += size;
      this.#waiting += size;
    }
  }

  /** Ends a block with its last piece, and lets out what waited behind it. */
  close(slot: Slot<Piece, State>, last: Piece, out: Piece[]): void {
    this.write(slot, last, out);
    slot.closed = true;
    while (this.#slots[0]?.closed) {
      this.#slots.shift();
      const next = this.#slots[0];
      if (!next) return;
      for (const piece of next.waiting) out.push(piece);
      this.#waiting -= next.size;
      next.size = 0;
      next.waiting = [];
    }
  }

  /** The blocks that are not closed yet, oldest first. */
  openSlots(): Slot<Piece, State>[] {
    return this.#slots.filter((slot) => !slot.closed);
  }
}
