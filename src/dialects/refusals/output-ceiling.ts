import type { Lesson, Quirks, VendorTerms } from "../dialect.ts";

const FIELD = "\\bmax_(?:completion_|output_)?tokens[`'\"]?";

/**
 * How servers name the highest ceiling that their model takes, each in the same words in whatever dialect it is asked: Qianfan, Alibaba and DeepSeek, Groq,
 * OpenAI's models at whoever serves them, Z.ai (glm-4v-flash takes 1,024), Novita (cline/cline #8337), Ollama's cloud (anomalyco/models.dev #1707), OpenAI and
 * Volcengine (yiliqi78/TOKENICODE #3, Gitlawb/openclaude #331), Anthropic (anthropics/claude-code #24451), Amazon Bedrock (BerriAI/litellm #5656), SGLang of its
 * whole window (its `serving_chat.py`), Cohere (docs.cohere.com/reference/errors).
 */
const HIGHEST: readonly RegExp[] = [
  `${FIELD} (?:range is|should be|value, the valid range of max_tokens is) \\[\\d+, ?(\\d+)`,
  `${FIELD} must be less than or equal to [\`'"]?(\\d+)`,
  `${FIELD} is too large: \\d+\\. ?This model supports at most (\\d+)`,
  `${FIELD}(?: parameter is illegal\\.|参数非法)：限制数值范围\\[\\d+, ?(\\d+)`,
  `${FIELD} \\(current value: \\d+\\) must be between \\d+ and (\\d+)`,
  `${FIELD} \\(\\d+\\) exceeds model's maximum output tokens \\((\\d+)`,
  `${FIELD}[^\\d]{0,50}\\binteger above maximum value[.,] expected a value <= (\\d+)`,
  `${FIELD}: \\d+ > (\\d+), which is the maximum allowed number of output tokens`,
  "^The maximum tokens you requested exceeds the model limit of (\\d+)",
  "\\btoo many tokens: max tokens must be less than or equal to (\\d+)",
].map((pattern) => new RegExp(pattern, "i"));

/** Google says of it where the range ends that is taken: the first number that is too large. */
const FIRST_TOO_LARGE =
  /\bmaxOutputTokens value of \d+ but the supported range is from \d+ \(inclusive\) ?to (\d+) \(exclusive\)/;

/** The quirk that follows from a refusal which names the highest ceiling that is taken, tokens; undefined for other words. */
export function taughtCeiling(words: string): Pick<Quirks, "maxOutputTokens"> | undefined {
  const first = FIRST_TOO_LARGE.exec(words)?.[1];
  const named = first === undefined ? HIGHEST.map((pattern) => pattern.exec(words)?.[1]).find(Boolean) : undefined;
  const most = first === undefined ? Number(named ?? 0) : Number(first) - 1;
  return most > 0 ? { maxOutputTokens: most } : undefined;
}

/** What a refusal in these words teaches of the output ceiling; see {@link UpstreamDialect.lessons}. */
export function ceilingLessons(words: string, { quirks, ...terms }: VendorTerms): Lesson[] {
  const rule = taughtCeiling(words);
  return rule ? [{ ...terms, quirks: { ...quirks, ...rule } }] : [];
}
