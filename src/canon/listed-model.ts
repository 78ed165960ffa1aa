import type { ReasoningForm } from "./intent.ts";

/** A model as its vendor's own list tells of it. What the list does not say is not known. */
export type ListedModel = {
  name: string;
  /** Tokens. */
  contextLength?: number;
  tools?: true;
  vision?: true;
  /** It reads PDF files. */
  pdf?: true;
  /** It draws, and does not talk. */
  draws?: true;
  /** How its vendor takes a wish for reasoning, of whatever depth. */
  reasoning?: ReasoningForm;
};
