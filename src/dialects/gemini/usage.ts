import { tokenCount, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";

/** Counts as this dialect sends them: cumulative, on every record (dialects.md 3.2). */
export type RawUsage = { prompt: number; toolUse: number; cached: number; candidates: number; thoughts: number };

export const NO_RAW_USAGE: RawUsage = { prompt: 0, toolUse: 0, cached: 0, candidates: 0, thoughts: 0 };

const FIELDS: readonly [keyof RawUsage, string][] = [
  ["prompt", "promptTokenCount"],
  ["toolUse", "toolUsePromptTokenCount"],
  ["cached", "cachedContentTokenCount"],
  ["candidates", "candidatesTokenCount"],
  ["thoughts", "thoughtsTokenCount"],
];

/** `usageMetadata` over what was known before: a count that is left out stands, since some records hold none at all (dialects.md 3.2). */
export function readUsage(metadata: unknown, before: RawUsage): RawUsage {
  if (!isObject(metadata)) return before;
  const usage = { ...before };
  for (const [name, field] of FIELDS) {
    if (typeof metadata[field] === "number") usage[name] = tokenCount(metadata[field]);
  }
  return usage;
}

/** As disjoint counts: prompt counts include the cache, candidates leave the thoughts out (dialects.md 4.6). */
export function toUsage(raw: RawUsage): Usage {
  const prompt = raw.prompt + raw.toolUse;
  const cacheRead = Math.min(raw.cached, prompt);
  return {
    input: prompt - cacheRead,
    cacheRead,
    cacheWrite: 0,
    output: raw.candidates + raw.thoughts,
    reasoning: raw.thoughts,
  };
}
