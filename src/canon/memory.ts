/** One block of an earlier reply, as far as it must be known to put its reasoning back in order. */
export type MemoryBlock =
  | { kind: "reasoning"; text: string; signature?: string }
  | { kind: "redacted-reasoning"; data: string }
  /** All reasoning of the reply once more, as a reseller wants it back, and the family of models that it is of. Always the first block. */
  | { kind: "details"; maker: string; items: readonly unknown[] }
  /** Visible text, of which only the length is kept, characters. */
  | { kind: "text"; length: number; signature?: string }
  | { kind: "tool-call"; id: string; signature?: string };

/** What a vendor wants back of one reply and its client may not send back: its reasoning, and where it stood (dialects.md 4.8 #6-#8). */
export type ReasoningMemory = readonly MemoryBlock[];

/** Remembered reasoning by the number of the assistant turn it belongs to, from 0. */
export type Memories = ReadonlyMap<number, ReasoningMemory>;
