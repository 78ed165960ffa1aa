import { remember } from "../../lib/remember.ts";

/** What a model takes, as far as its name tells it (dialects.md 3.1, 3.3, 3.4). */
export type ModelTraits = {
  /**
   * Gemini 3 and later. Function calls of earlier turns must carry a thought signature, and tools may stand beside a response format. Calls have ids, and
   * results must have them too: without, the model answers nothing, or writes its calls as text (BerriAI/litellm #34603, earendil-works/pi #7047). For
   * older models the API knows no ids.
   */
  current: boolean;
  /** Schemas may be plain JSON Schema; older models know only the OpenAPI subset. */
  jsonSchema: boolean;
  /** The field `systemInstruction` is taken. */
  systemInstruction: boolean;
  /** `frequencyPenalty` and `presencePenalty` are taken: Gemini 2.5 and later refuse a request with either ("Penalty is not enabled"). */
  penalties: boolean;
  /**
   * The model continues a last turn of its own. Gemini 3.5 Flash-Lite, 3.6 and later refuse that ("Requests ending with a model turn are not supported";
   * ai.google.dev, "What's new in Gemini 3.6 Flash and 3.5 Flash-Lite"), and 3.6 Flash is what answers for 3.5 Flash ("automatically routed"; "Release notes", October 8, 2026).
   */
  prefill: boolean;
  /** Smallest and largest thinking budget, tokens. */
  budget: readonly [number, number];
};

/** Ranges of `thinkingBudget` (dialects.md 5.1), the first whose pattern fits; others get the narrowest one. */
const BUDGETS: readonly [RegExp, readonly [number, number]][] = [
  [/flash-lite/, [512, 24_576]],
  [/flash/, [1, 24_576]],
  [/pro/, [128, 32_768]],
];
const NARROWEST = [512, 24_576] as const;

/** The Gemini models that continue a turn, and the alias that names one of them. */
const WITH_PREFILL = /gemini-(?:[12][.-]|3(?:\.[0-4])?-|pro)/;

/** The traits of an upstream model. An alias without a number, such as `gemini-flash-latest`, counts as a current model. */
export const traitsOf = remember((model: string): ModelTraits => {
  const name = model.toLowerCase();
  const first = /gemini-(?:1[.-]|2\.0|pro(?:-vision)?$)/.test(name);
  const gemma = name.includes("gemma");
  return {
    current: name.includes("gemini") && !first && !/gemini-2/.test(name),
    jsonSchema: !first && !/gemma-?[123]/.test(name),
    penalties: first || !name.includes("gemini"),
    prefill: !name.includes("gemini") || WITH_PREFILL.test(name),
    systemInstruction: !gemma && !(first && name.includes("image")),
    budget: BUDGETS.find(([pattern]) => pattern.test(name))?.[1] ?? NARROWEST,
  };
});
