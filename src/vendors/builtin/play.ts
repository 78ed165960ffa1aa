import type { TokenCounts } from "../../canon/usage.ts";

/** What a built-in model says: decided before its first byte, then played as a stream or given as one reply. */
export type Play = {
  blocks: Block[];
  finish: "stop" | "length" | "tool_calls" | "content_filter";
  /** The stop sequence that matched, shown as vLLM does: evidence for the decoder (dialects.md 4.8 #29). */
  stopReason?: string;
  usage: TokenCounts;
  timing: Timing;
  fault?: Fault;
};

/** `chunks`, joined, are the block's text, or a tool call's JSON arguments. */
export type Block =
  | { type: "text" | "reasoning"; chunks: string[] }
  | { type: "tool_call"; id: string; name: string; chunks: string[] };

/** Pauses in milliseconds: before the first byte, between two chunks, and once after the first chunk. */
export type Timing = { delayMs: number; chunkDelayMs: number; silenceMs: number };

export const AT_ONCE: Timing = { delayMs: 0, chunkDelayMs: 0, silenceMs: 0 };

/** How a play goes wrong. `after`: the chunks sent before; absent: before the first byte, as an HTTP status. */
export type Fault = { kind: "error"; error: PlayError; after?: number } | { kind: "cut"; after: number };

export type PlayError = { status: number; message: string; type: string; code: string | null; retryAfter?: number };

/** Thrown by a model that refuses its request: an HTTP error answer. */
export class Refusal extends Error {
  constructor(readonly error: PlayError) {
    super(error.message);
  }
}

/** A 400 in the chat dialect's shape (dialects.md 1.5). */
export function refuse(message: string): Refusal {
  return new Refusal({ status: 400, message, type: "invalid_request_error", code: "invalid_value" });
}
