import { promptTokens, tokenCount, type Usage, withLong } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";
import { withNumbers } from "../count-texts.ts";
import { disjointCounts, WRITTEN_FOR_HOUR, withAllMade } from "../disjoint-counts.ts";

const countIn = (details: unknown, field: string): number => (isObject(details) ? tokenCount(details[field]) : 0);

/**
 * A usage object as disjoint counts: its input holds the cached tokens, its output the reasoning (dialects.md 4.6). Undefined for what holds no count at
 * all. Some servers have the chat dialect's names for them (SGLang's UsageInfo), and Perplexity has Anthropic's for the tokens written to the
 * cache (docs.perplexity.ai, Agent API, Prompt Caching), and new-api one of its own.
 */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const read = value["input_tokens_details"] ?? value["prompt_tokens_details"];
  const made = value["output_tokens_details"] ?? value["completion_tokens_details"];
  const prompt = tokenCount(value["input_tokens"] ?? value["prompt_tokens"]);
  const completion = tokenCount(value["output_tokens"] ?? value["completion_tokens"]);
  if (prompt === 0 && completion === 0) return undefined;
  const total = tokenCount(value["total_tokens"]);
  const cacheRead = countIn(read, "cached_tokens");
  const cacheWrite =
    countIn(read, "cache_write_tokens") ||
    countIn(read, "cache_creation_input_tokens") ||
    countIn(read, "cached_creation_tokens");
  const written = isObject(read) ? read["cache_write_tokens_details"] : undefined;
  const told = countIn(made, "reasoning_tokens") || tokenCount(value["reasoning_tokens"]);
  // Without a total nothing shows that it stands beside the output.
  const reasoning = total > 0 ? told : Math.min(told, completion);
  const counts = disjointCounts({ prompt, completion, total, cacheRead, cacheWrite, reasoning }, false);
  return withLong(counts, countIn(written, "ttl_12h_tokens") || tokenCount(value[WRITTEN_FOR_HOUR]));
}

/** What clients' types demand: Codex takes no response whose usage has no total. */
const DEMANDED = [
  "input_tokens",
  "input_tokens_details",
  "output_tokens",
  "output_tokens_details",
  "total_tokens",
] as const;

/** A usage object, read as `usage`, with all that is demanded of one. The very object where nothing is missing. */
function withAllDemanded(counts: unknown, usage: Usage): unknown {
  if (!isObject(counts)) return counts;
  const missing = DEMANDED.filter((field) => counts[field] == null);
  if (missing.length === 0) return counts;
  const written = writeUsage(usage);
  return { ...counts, ...Object.fromEntries(missing.map((field) => [field, written[field]])) };
}

/**
 * A vendor's usage object as clients can read it: its counts as numbers, no field missing, and all that was made inside `output_tokens`, where its own
 * totals show that some stands beside it. The very object where nothing is amiss.
 */
export function soundUsage(said: unknown): unknown {
  const value = withNumbers(said);
  const usage = readUsage(value);
  return usage ? withAllMade(withAllDemanded(value, usage), usage, "input_tokens", "output_tokens") : value;
}

/** Disjoint counts as this dialect shows them. */
export function writeUsage(usage: Usage): Record<string, unknown> {
  const input = promptTokens(usage);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: input + usage.output,
  };
}
