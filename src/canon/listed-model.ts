import type { ReasoningForm } from "./intent.ts";

/** A model as its vendor's own list tells of it. What the list does not say is not known. */
export type ListedModel = {
  name: string;
  /** Tokens. */
  contextLength?: number;
  /** The largest output of a turn, tokens. */
  maxOutputTokens?: number;
  tools?: true;
  vision?: true;
  /** It reads PDF files. */
  pdf?: true;
  /** It draws, and does not talk. */
  draws?: true;
  /** How its vendor takes a wish for reasoning, of whatever depth. */
  reasoning?: ReasoningForm;
  /** It cannot be had without reasoning: its vendor refuses a wish to switch that off. */
  mustReason?: true;
  /** Which depths the model has, least first, and its own: unless `reasoning` says otherwise its vendor takes them in its dialect's usual form, and brings others to them itself. */
  efforts?: { levels: readonly string[]; default: string };
};
