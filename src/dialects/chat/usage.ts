import { promptTokens, tokenCount, type Usage, withLong } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { withNumbers } from "../count-texts.ts";
import { disjointCounts, WRITTEN_FOR_HOUR, withAllMade } from "../disjoint-counts.ts";

const NONE: Record<string, unknown> = {};

const detailsOf = (value: unknown) => (isObject(value) ? value : NONE);

/** The first of several spellings of a count that says something. */
function firstCount(...values: unknown[]): number {
  for (const value of values) {
    const count = tokenCount(value);
    if (count > 0) return count;
  }
  return 0;
}

/**
 * A chat usage object, in any vendor's spelling, as disjoint counts (dialects.md 4.6). `exclusive` is the row's word that reasoning is
 * not part of completion_tokens. Returns undefined for what holds no count at all.
 */
export function readUsage(value: unknown, exclusive: boolean): Usage | undefined {
  if (!isObject(value)) return undefined;
  const promptDetails = detailsOf(value["prompt_tokens_details"]);
  const completionDetails = detailsOf(value["completion_tokens_details"]);
  // mlx-vlm has the names of the newer dialect.
  const prompt = firstCount(value["prompt_tokens"], value["input_tokens"]);
  const completion = firstCount(value["completion_tokens"], value["output_tokens"]);
  const total = tokenCount(value["total_tokens"]);
  if (prompt === 0 && completion === 0 && total === 0) return undefined;
  const reasoning = firstCount(completionDetails["reasoning_tokens"], value["reasoning_tokens"]);
  const cacheRead = firstCount(
    promptDetails["cached_tokens"],
    value["prompt_cache_hit_tokens"],
    value["cached_tokens"],
    value["cache_read_input_tokens"],
    // Mistral's document has the singular and the one at the top beside the usual place.
    detailsOf(value["prompt_token_details"])["cached_tokens"],
    value["num_cached_tokens"],
  );
  const cacheWrite = firstCount(
    promptDetails["cache_write_tokens"],
    promptDetails["cache_creation_input_tokens"],
    value["cache_creation_input_tokens"],
    // new-api's, of Claude's models.
    promptDetails["cached_creation_tokens"],
  );
  const counts = disjointCounts({ prompt, completion, total, cacheRead, cacheWrite, reasoning }, exclusive);
  return withLong(counts, tokenCount(value[WRITTEN_FOR_HOUR]));
}

/** What no other dialect counts, and OpenAI tells of each reply: clients in Swift and PHP with checked types lose the counts without them, or the reply (openai-php/client#524). */
const UNPREDICTED = { audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 };

/** Disjoint counts as the chat dialect shows them: the prompt includes its cache, the completion its reasoning (dialects.md 1.3). */
export function writeUsage(usage: Usage): Record<string, unknown> {
  const prompt = promptTokens(usage);
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning, ...UNPREDICTED },
  };
}

/** A usage object, read as `usage`, with the three counts that clients with checked types demand (Zed, async-openai): some vendors leave out the sum. */
function withAllCounts(said: unknown, usage: Usage | undefined): unknown {
  if (!usage || !isObject(said)) return said;
  const prompt = said["prompt_tokens"] ?? promptTokens(usage);
  const completion = said["completion_tokens"] ?? usage.output;
  const total = said["total_tokens"] ?? tokenCount(prompt) + tokenCount(completion);
  const isWhole = prompt === said["prompt_tokens"] && completion === said["completion_tokens"];
  if (isWhole && total === said["total_tokens"]) return said;
  return { ...said, prompt_tokens: prompt, completion_tokens: completion, total_tokens: total };
}

/**
 * A vendor's usage object as clients can read it: its counts as numbers, none of the three missing, and its reasoning inside `completion_tokens`, where its own totals show that
 * it leaves it out, since clients add up prompt and completion (dialects.md 1.3 and 4.6). The very object where nothing is amiss.
 */
export function soundUsage(said: unknown): unknown {
  const value = withNumbers(said);
  const usage = readUsage(value, false);
  return withAllMade(withAllCounts(value, usage), usage, "prompt_tokens", "completion_tokens");
}
