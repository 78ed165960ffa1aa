import { readCount, type Usage } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";

/** Tokens as this dialect counts them: cumulative, on every record (dialects.md 3.2). */
export type RawUsage = { prompt: number; toolUse: number; cached: number; candidates: number; thoughts: number };

export const NO_RAW_USAGE: RawUsage = { prompt: 0, toolUse: 0, cached: 0, candidates: 0, thoughts: 0 };

/** The count of `field`, or `before` where this record holds none. */
const countOf = (metadata: Record<string, unknown>, field: string, before: number): number =>
  readCount(metadata[field]) ?? before;

/** The counts of `usageMetadata`; one that it leaves out stays as it was `before`, since some records have none at all (dialects.md 3.2). */
export function readUsage(metadata: unknown, before: RawUsage): RawUsage {
  if (!isObject(metadata)) return before;
  return {
    prompt: countOf(metadata, "promptTokenCount", before.prompt),
    toolUse: countOf(metadata, "toolUsePromptTokenCount", before.toolUse),
    cached: countOf(metadata, "cachedContentTokenCount", before.cached),
    candidates: countOf(metadata, "candidatesTokenCount", before.candidates),
    thoughts: countOf(metadata, "thoughtsTokenCount", before.thoughts),
  };
}

export const sameUsage = (one: RawUsage, other: RawUsage): boolean =>
  one.prompt === other.prompt &&
  one.toolUse === other.toolUse &&
  one.cached === other.cached &&
  one.candidates === other.candidates &&
  one.thoughts === other.thoughts;

/** The counts as disjoint ones: here the prompt's include the cached tokens, and the candidates' do not include the thoughts (dialects.md 4.6). */
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
