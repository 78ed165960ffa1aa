import type { Lesson, VendorTerms } from "../dialect.ts";
import { imageLessons } from "../media/blind-models.ts";
import { samplingLessons } from "../odd-sampling.ts";
import { ceilingLessons } from "../refusals/output-ceiling.ts";
import { effortLessons } from "../refusals/refused-effort.ts";
import { LEAD } from "../refusals/relayed-error.ts";
import { looseLessons } from "../schema/loose-schemas.ts";

/**
 * How servers of this dialect say that they want back what their model thought before it called its tools: DeepSeek (SuperJJ007/CSSwitch #73; VicBilibily/GCMP
 * #26), MiMo (agentscope-ai/QwenPaw #4314) and Moonshot. Who asked another model until then, or forgets such blocks as Anthropic allows, has none, and none can be made up.
 */
const THOUGHT_MISSED =
  /(?:`?content\[\]\.thinking`?|\breasoning_content) in the thinking mode must be passed back|^Missing thinking block in the assistant message|^thinking is enabled but \S+ is missing in assistant tool call message/i;

/**
 * How servers say that a model calls no tool that it is forced to while it thinks: DeepSeek, whose models think unless they are told not to (Claude Code forces
 * its search of the web, deepseek-ai/awesome-deepseek-integration #606), and Claude at Amazon Bedrock up to 4.7, also with adaptive thinking, which Anthropic
 * itself takes beside a forced tool since 4.6 (vercel/ai #17729, langchain-ai/langchain-aws #1151), and Moonshot (can1357/oh-my-pi #1077).
 */
const CHOICE_REFUSED =
  /\bnot support this tool_choice\b|\bThinking may not be enabled when tool_choice forces tool use\b|\btool_choice '?\w+'? is incompatible with thinking enabled\b/;

/** How servers say that nothing makes their model call a tool (TensorRT-LLM's `serve/anthropic_adapter.py`; LMDeploy's `anthropic/endpoints/validation.py`, of `any` alone). */
const FORCED_REFUSED =
  /^Anthropic tool_choice type '(?:any|tool)' is not supported\b|\btool-call parser does not support `tool_choice=/;

/**
 * How Claude's models since 4.7 refuse to be sampled otherwise than they are, wherever they are served (RooCodeInc/Roo-Code #12162, promptfoo/promptfoo
 * #10307), and Moonshot's to be sampled in any but one way (tinyhumansai/openhuman #2082). Where their names are known they are not told; of inference profiles, deployments and what came out today nobody knows.
 */
const UNSAMPLED = new RegExp(
  `^${LEAD}\`?(temperature|top_p|top_k)\`? is deprecated for this model\\b|\\binvalid (temperature|top_p|top_k): only [\\d.]+ is allowed for this model\\b`,
);

/** How the same models refuse to think by a budget (anthropics/claude-code #63546, openclaw/openclaw #117871). */
const NO_BUDGET = new RegExp(`^${LEAD}"?thinking\\.type\\.enabled"? is not supported for this model\\b`);

/**
 * How servers that know thinking by a budget alone refuse adaptive thinking, which Claude Code asks of models whose names it does not know: Claude's before 4.6
 * behind others (strands-agents/harness-sdk #1856, QuantumNous/new-api #3039), LM Studio and others that read by Zod (tashfeenahmed/freellmapi #632), SGLang.
 */
const NO_ADAPTIVE = new RegExp(
  `^${LEAD}(?:Invalid request: )?(?:request\\.|body\\.)?thinking(?:\\.type)?: (?:Input tag 'adaptive' found|Invalid (?:discriminator|enum) value\\. Expected 'enabled' \\| 'disabled'|Input should be 'enabled' or 'disabled')`,
);

/** How those that always think (Fable, Mythos; Kimi's) refuse not to (cline/cline #13203, MoonshotAI/Kimi-K2 #141). Of a wish to think it says nothing. */
const NO_OFF = new RegExp(
  `^${LEAD}"?thinking\\.type\\.disabled"? is not supported for this model\\b|\\binvalid thinking: only type=enabled is allowed\\b`,
);

/** How Claude's models since 4.6 refuse to go on with their own last turn (anomalyco/opencode #29760). */
const NO_PREFILL = new RegExp(`^${LEAD}This model does not support assistant message prefill\\b`);

/**
 * How servers refuse what a tool's result holds beside text: LM Studio an image that Claude Code has read (anthropics/claude-code #85007), and others a tool that
 * it has found (anthropics/claude-code #31026).
 */
const TEXT_ALONE =
  /\bcontent\.\d+\.content\.\d+\.type: Invalid literal value, expected "text"|\btool_result\.content\.\d+(?:\.type: Field required|: Input tag 'tool_reference' found)/;

/** What newer models refuse that older ones took, and servers that know less of the dialect. */
function otherLessons(words: string, terms: VendorTerms): Lesson[] {
  const [, deprecated, fixed] = UNSAMPLED.exec(words) ?? [];
  const field = deprecated ?? fixed;
  const { quirks, refuses = [] } = terms;
  if (FORCED_REFUSED.test(words))
    return [{ ...terms, quirks: { ...quirks, toolChoiceRequired: "auto" }, isOnce: true }];
  if (field !== undefined) return [{ ...terms, refuses: [...refuses, field] }];
  if (NO_BUDGET.test(words)) return [{ ...terms, thinksByEffort: true }];
  if (NO_ADAPTIVE.test(words)) return [{ ...terms, thinksByBudget: true }];
  if (TEXT_ALONE.test(words)) return [{ ...terms, quirks: { ...quirks, textResults: true } }];
  if (NO_OFF.test(words)) return [{ ...terms, refuses: [...refuses, "thinking"], isOnce: true }];
  return NO_PREFILL.test(words) ? [{ ...terms, quirks: { ...quirks, prefill: "none" } }] : [];
}

/**
 * See {@link UpstreamDialect.lessons}. A model that does not think misses nothing, and can be forced (deepseek-ai/DeepSeek-V3 #1376); the next conversation
 * may have it all.
 */
export const lessons = (words: string, terms: VendorTerms): Lesson[] =>
  THOUGHT_MISSED.test(words) || CHOICE_REFUSED.test(words)
    ? [{ ...terms, missesThought: true, isOnce: true }]
    : [
        ...effortLessons("output_config.effort", words, terms),
        ...otherLessons(words, terms),
        ...samplingLessons(words, terms),
        ...ceilingLessons(words, terms),
        ...imageLessons(words, terms),
        ...looseLessons(words, terms),
      ];
