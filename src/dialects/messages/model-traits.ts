import { remember } from "../../lib/remember.ts";

/** What a model of this dialect's own vendor takes, as far as its name tells it (dialects.md 2.9). */
export type ModelTraits = {
  /** It is one of that vendor's, whoever serves it. */
  claude: boolean;
  /** A last assistant turn is continued; newer models refuse one. */
  prefill: boolean;
  /** A tool choice of `any` or `tool` is taken. */
  forcedChoice: boolean;
  /** A system turn inside the conversation is taken. */
  laterSystem: boolean;
};

/** Claude 4.6 and all that came later: the vendor's guide to 4.6 takes prefill out. A date behind `claude-opus-4` is no version. */
const WITHOUT_PREFILL = /claude-(?:[a-z]+-(?:4[-.](?:[6-9]|[1-9]\d)|[5-9]|[1-9]\d)(?!\d)|mythos-preview)/;
/** Fable and Mythos 5 with all that came after them (the guide to 5.1 says it of these again), Opus and Sonnet 5.5. */
const WITHOUT_FORCED_CHOICE = /claude-(?:(?:fable|mythos)-5(?!\d)|(?:opus|sonnet)-5[-.]5(?!\d))/;

/** Claude 4.8 and all that came later (the vendor's page on system messages inside a conversation); servers of other models refuse the role. */
const WITH_LATER_SYSTEM = /claude-[a-z]+-(?:4[-.](?:[89]|[1-9]\d)|[5-9]|[1-9]\d)(?!\d)/;

/** The traits of an upstream model; one that is not known takes all but system turns inside the conversation. */
export const traitsOf = remember((model: string): ModelTraits => {
  const name = model.toLowerCase();
  return {
    claude: name.includes("claude"),
    prefill: !WITHOUT_PREFILL.test(name),
    forcedChoice: !WITHOUT_FORCED_CHOICE.test(name),
    laterSystem: WITH_LATER_SYSTEM.test(name),
  };
});
