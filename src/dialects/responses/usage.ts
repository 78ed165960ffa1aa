import { promptTokens, tokenCount, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";

const countIn = (details: unknown, field: string): number => (isObject(details) ? tokenCount(details[field]) : 0);

/**
 * A usage object as disjoint counts: its input holds the cached tokens, its output the reasoning (dialects.md 4.6). Undefined for what
 * holds no count at all.
 */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const total = tokenCount(value["input_tokens"]);
  const output = tokenCount(value["output_tokens"]);
  if (total === 0 && output === 0) return undefined;
  const cacheRead = Math.min(countIn(value["input_tokens_details"], "cached_tokens"), total);
  const cacheWrite = Math.min(countIn(value["input_tokens_details"], "cache_write_tokens"), total - cacheRead);
  const reasoning = Math.min(countIn(value["output_tokens_details"], "reasoning_tokens"), output);
  return { input: total - cacheRead - cacheWrite, cacheRead, cacheWrite, output, reasoning };
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
