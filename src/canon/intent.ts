/** How deep a model is asked to think, from least to most (interface 4.8). */
export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Effort = (typeof EFFORTS)[number];

/**
 * What the caller asked of the model's reasoning, whatever dialect it was said in (interface 4.8).
 * `unrecognised` is a value no dialect knows: it is never forwarded, and differs from `omitted` on models that always reason.
 */
export type ReasoningIntent =
  | { kind: "omitted" }
  | { kind: "off" }
  | { kind: "adaptive" }
  | { kind: "effort"; effort: Effort }
  | { kind: "budget"; tokens: number }
  | { kind: "unrecognised" };

/** Tokens for a level where a depth is said as a number of them: each converts back to its own level (interface 4.8; dialects.md 5.3 #3). */
export const LEVEL_BUDGETS: ReadonlyMap<string, number> = new Map([
  ["minimal", 1_024],
  ["low", 4_000],
  ["medium", 10_000],
  ["high", 20_000],
  ["xhigh", 32_000],
  ["max", 32_000],
]);

/** What a budget that is too large leaves of the ceiling for the answer: a part of it, and so many tokens at the most. */
const ANSWER_PART = 0.25;
const MOST_FOR_ANSWER = 4_096;

/** The largest budget below a ceiling that leaves room for an answer, tokens: with less, all would be thought and nothing said. */
export const budgetBelow = (ceiling: number): number =>
  ceiling - Math.ceil(Math.min(ceiling * ANSWER_PART, MOST_FOR_ANSWER));

/** The words for no reasoning that some model declares in `reasoning_efforts` (interface 4.8). */
export const OFF_WORDS: ReadonlySet<unknown> = new Set(["none", "off", "disabled"]);
/** The words of models that know two positions only. */
const ON_WORDS: ReadonlySet<unknown> = new Set(["on", "adaptive"]);

/** What the word for a depth asks for (interface 4.8): a level, or a position that some model declares in `reasoning_efforts`. */
export function readEffort(word: unknown): ReasoningIntent {
  if (OFF_WORDS.has(word)) return { kind: "off" };
  if (ON_WORDS.has(word)) return { kind: "adaptive" };
  const effort = EFFORTS.find((known) => known === word);
  return effort ? { kind: "effort", effort } : { kind: "unrecognised" };
}

/** All that the gateway itself reads of a body; everything else belongs to client and upstream. */
export type Intent = {
  /** Model ID as the client sent it, `<vendor>/<model_name>`. */
  model: string;
  stream: boolean;
  /** The client's ceiling on generated tokens. */
  maxOutputTokens?: number;
  /** Replies that are asked for at once, each up to the ceiling; absent: one. */
  choices?: number;
  /** Fields that must not go on; absent: none. */
  remove?: readonly string[];
  reasoning: ReasoningIntent;
  /** What the conversation itself has set since for this answer, in a dialect whose turns may: nobody reads it there in another one. Absent: nothing. */
  turnReasoning?: ReasoningIntent;
  /** What a model of another dialect thinks all the same is not to be shown. */
  hidesReasoning?: true;
  /** The client wants a usage record at the end of a stream (always true outside the chat dialect). */
  wantsUsage: boolean;
};

/**
 * The ways a model's upstream takes reasoning control, by the dialect that can write them, its usual one first: a fact of its catalog row, written onto
 * the wire by the dialect's `amend`.
 *
 * chat: `effort` (reasoning_effort) · `thinking-type` (thinking.type enabled/disabled) · `thinking-type-effort` (both) ·
 * `enable-thinking` (enable_thinking boolean, thinking_budget) · `template-enable-thinking`, `template-thinking`
 * (chat_template_kwargs) · `reasoning-object` (reasoning.effort / reasoning.enabled).
 * messages: `adaptive-effort` (thinking.adaptive + output_config.effort) · `effort-only` (output_config.effort, no off) ·
 * `budget` (thinking.enabled + budget_tokens) · `adaptive-switch` (thinking.type adaptive/disabled).
 * responses: `effort`. gemini: `thinking-level`, `thinking-budget`.
 */
export const REASONING_FORMS_OF = {
  chat: [
    "effort",
    "thinking-type",
    "thinking-type-effort",
    "enable-thinking",
    "template-enable-thinking",
    "template-thinking",
    "reasoning-object",
  ],
  messages: ["adaptive-effort", "effort-only", "budget", "adaptive-switch"],
  responses: ["effort"],
  gemini: ["thinking-level", "thinking-budget"],
} as const;
export type ReasoningForm = (typeof REASONING_FORMS_OF)[keyof typeof REASONING_FORMS_OF][number];
/** All of them, each once. */
export const REASONING_FORMS: readonly ReasoningForm[] = [...new Set(Object.values(REASONING_FORMS_OF).flat())];

/**
 * What the gateway decided about reasoning.
 * `keep`: the model's control is unknown; the client's own fields stay on the diagonal and are dropped across, but for an off that its vendor's row can say.
 * `nothing`: no reasoning field reaches the upstream; `form` stands with a model that was to be switched off and cannot be.
 * `level`, `budget`, `on`, `off`: written in the model's form; `value` is the exact word the model declares, where it has one.
 */
export type ReasoningOrder =
  | { kind: "keep" }
  | { kind: "nothing"; form?: ReasoningForm }
  | { kind: "level"; form: ReasoningForm; level: string }
  | { kind: "budget"; form: ReasoningForm; tokens: number }
  | { kind: "on"; form: ReasoningForm; value?: string }
  | { kind: "off"; form: ReasoningForm; value?: string };

/** What the gateway decided for one request: the only changes a body may see on the diagonal. */
export type Orders = {
  upstreamModel: string;
  stream: boolean;
  /** The ceiling to send when it differs from the client's (catalog maximum, balance); absent: leave what is there. */
  maxOutputTokens?: number;
  reasoning: ReasoningOrder;
  /** What the client said of reasoning is read by nobody: it is named as dropped. */
  isReasoningIgnored?: boolean;
  /** Reasoning is active: it was asked for, or the model reasons unasked. */
  isReasoningActive: boolean;
  /** The model is known to reason, and nothing of it can be steered: it is told nothing, and may be shown what it thought earlier. */
  reasonsUnsteered?: boolean;
  /** temperature, top_p and top_k are removed, since reasoning is active (interface 4.8). Not where the vendor cannot be told that reasoning is wanted. */
  dropSampling: boolean;
  /** Top-level wire fields that this vendor or model refuses. */
  remove: readonly string[];
  /** The top-level wire field by which the vendor finds a session's cache, and the key to write into it where the client has written nothing. */
  session?: { field: string; key: string };
  /**
   * messages: thinking is switched off for this request, since the vendor refused it: some of the thinking before earlier calls is gone, which it wants back;
   * or a call is forced, which it does not take while its model thinks.
   */
  missesThought?: boolean;
  /** messages: the vendor does not know adaptive thinking; it is asked to think by a budget. */
  thinksByBudget?: boolean;
  /** The name by which the vendor knows a model that a body names by its ID here; any other name as it is. */
  vendorName?: (model: string) => string;
  /** Tells of a proof of reasoning that another model is known to have made it; absent where nothing is known. */
  isForeignProof?: (proof: string) => boolean;
  /** Tells of a proof of reasoning that this model is known to have made it; absent where nothing is known. */
  isOwnProof?: (proof: string) => boolean;
};

/** Whether the model will reason, as far as the orders tell. */
export const reasons = ({ reasoning, isReasoningActive }: Orders): boolean =>
  isReasoningActive || reasoning.kind === "level" || reasoning.kind === "on" || reasoning.kind === "budget";
