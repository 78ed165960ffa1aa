import type { GatewayError } from "./errors.ts";
import type { Usage } from "./usage.ts";

export type FinishReason = "stop" | "length" | "stop-sequence" | "tool-calls" | "content-filter";

/**
 * Why a reply ended: the meaning, beside the vendor's own word for it. `tier`: how the vendor served it, where that was not as usual, by OpenAI's word
 * (`flex`, `priority`). `explanation`: the vendor's words for why its model declined, where they stand apart from the reply. `container`: where the vendor ran
 * the model's code, by its own dialect's words: a later request that names it finds its files there. Other dialects have no place for it.
 */
export type Finish = {
  reason: FinishReason;
  raw?: string;
  stopSequence?: string;
  tier?: string;
  explanation?: string;
  container?: Readonly<Record<string, unknown>>;
};

/** An image that a model made: its bytes as base64, without a data-URL prefix. */
export type Picture = { mediaType: string; data: string };

/**
 * A `custom` tool call's deltas are free text and no JSON (dialects.md 1.1); `form`: that of {@link Tool}. `opaque` is a block only its own dialect understands;
 * encoders of other dialects skip it whole. `refusal`: text by which the model declines, for clients that are shown it apart from the answer.
 * An `image` comes whole, with its block's start.
 */
export type BlockStart =
  | { kind: "text"; refusal?: true }
  | { kind: "reasoning" }
  | { kind: "redacted-reasoning"; data: string }
  | { kind: "tool-call"; id: string; name: string; custom?: true; form?: string }
  | ({ kind: "image" } & Picture)
  | { kind: "opaque"; dialect: string; value: Record<string, unknown> };

/**
 * A page that a text block rests on. `start` and `end`: where the block's text names it, UTF-16 units from the
 * block's beginning, `before` of them in the reply's earlier blocks of text. `quote`: what was shown of the page.
 */
export type Citation = { url: string; title: string; start: number; end: number; before: number; quote: string };

/**
 * A reply as it happens. Grammar: `start (block-start (block-delta | block-signature)* block-citation* block-end | usage)* finish`, or an
 * `error` at any point. `finish` or `error` is always the last event. Blocks never overlap, so a delta needs no index; a tool call's deltas,
 * joined, are its JSON arguments, and those of an opaque block its `input`. `usage` is cumulative: the last one wins.
 */
export type Event =
  | { type: "start"; id?: string; model?: string; created?: number }
  | { type: "block-start"; block: BlockStart }
  /** Text, reasoning text, or a fragment of a tool call's JSON arguments: what the open block is made of. Never empty. */
  | { type: "block-delta"; text: string }
  /** The vendor's proof of the open block: reasoning, a tool call, or text (Gemini); replaces an earlier one. */
  | { type: "block-signature"; signature: string }
  /** At the end of a text block: from the gateway itself, and from vendors that say what a text rests on. */
  | { type: "block-citation"; citation: Citation }
  | { type: "block-end" }
  /**
   * `apart`: what the vendor did on top of the reply and bills as calls of its own, each with its counts; none of it is in `usage`. `begun`: of the output it
   * tells no more than a beginning, and the vendor has told nothing since.
   */
  | { type: "usage"; usage: Usage; apart?: readonly Usage[]; begun?: true }
  | { type: "finish"; finish: Finish }
  | { type: "error"; error: GatewayError };
