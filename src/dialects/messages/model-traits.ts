import { remember } from "../../lib/remember.ts";

/** What a model of this dialect's own vendor takes, as far as its name tells it (dialects.md 2.9). */
export type ModelTraits = {
  /** A last assistant turn is continued; newer models refuse one. */
  prefill: boolean;
  /** A tool choice of `any` or `tool` is taken. */
  forcedChoice: boolean;
};

/** Claude Opus 5, and the whole family 5.5. */
const WITHOUT_PREFILL = /claude-(?:opus-5(?!\d)|[a-z]+-5[-.]5(?!\d))/;
/** Fable and Mythos 5, but not 5.1, and Sonnet 5.5; a date behind the number is no part of it. */
const WITHOUT_FORCED_CHOICE = /claude-(?:(?:fable|mythos)-5(?!\d|[-.]\d(?!\d))|sonnet-5[-.]5(?!\d))/;

/** The traits of an upstream model; one that is not known takes all. */
export const traitsOf = remember((model: string): ModelTraits => {
  const name = model.toLowerCase();
  return { prefill: !WITHOUT_PREFILL.test(name), forcedChoice: !WITHOUT_FORCED_CHOICE.test(name) };
});
