import { tokenCount, type Usage } from "../canon/usage.ts";
import { isObject } from "../lib/json.ts";

/** Where new-api says, in both of OpenAI's dialects, how much of what Claude wrote to its cache is kept for an hour (QuantumNous/new-api, `dto.Usage`). */
export const WRITTEN_FOR_HOUR = "claude_cache_creation_1_h_tokens";

/** Counts as OpenAI's dialects have them: `prompt` holds what is cached, `completion` the reasoning, and `total` both. What is not told is 0. */
type ToldCounts = {
  prompt: number;
  completion: number;
  total: number;
  cacheRead: number;
  cacheWrite: number;
  reasoning: number;
};

/**
 * Whether `completion` leaves reasoning out (dialects.md 4.6). The totals decide where they can; else the vendor's row does.
 * Reasoning that exceeds the output can only stand beside it.
 */
function excludesReasoning(told: ToldCounts, asked: number, stated: boolean): boolean {
  const { completion, total, reasoning } = told;
  if (reasoning === 0) return false;
  if (reasoning > completion) return true;
  if (total === asked + completion) return false;
  return stated || total === asked + completion + reasoning;
}

/** Whether the cache is what a total holds beyond prompt and completion, alone or with the reasoning; what could be the reasoning alone is taken for that. */
const isBeside = (cached: number, beyond: number, reasoning: number): boolean =>
  cached > 0 && (beyond === cached || beyond === cached + reasoning) && beyond !== reasoning;

/** The cached parts of a prompt, none larger than what they are a part of. */
function inside({ prompt, cacheRead, cacheWrite }: ToldCounts) {
  const read = Math.min(cacheRead, prompt);
  const write = Math.min(cacheWrite, prompt - read);
  return { input: prompt - read - write, cacheRead: read, cacheWrite: write };
}

/**
 * A vendor's counts as disjoint ones (dialects.md 4.6), by its own totals where they show that it counts otherwise than OpenAI does. `exclusive` is the
 * row's word that reasoning is not part of the completion. What a total holds that no other count tells of was made unseen: Google's endpoint in this
 * dialect tells of a model's thoughts nowhere else, and bills them as output.
 */
export function disjointCounts(told: ToldCounts, exclusive: boolean): Usage {
  const { prompt, completion, total, cacheRead, cacheWrite, reasoning } = told;
  // Only the totals can show that this vendor counts its cache beside the prompt.
  const isApart = isBeside(cacheRead + cacheWrite, total - prompt - completion, reasoning);
  const read = isApart ? { input: prompt, cacheRead, cacheWrite } : inside(told);
  const asked = read.input + read.cacheRead + read.cacheWrite;
  if (reasoning === 0 && asked > 0 && total > asked + completion) {
    return { ...read, output: total - asked, reasoning: total - asked - completion };
  }
  const output = excludesReasoning(told, asked, exclusive) ? completion + reasoning : completion;
  return { ...read, output, reasoning };
}

/**
 * A vendor's usage object, read as `usage`, with all that was made in the field `completion`, where its own totals show that some stands beside it. The very
 * object where nothing is amiss.
 */
export function withAllMade(said: unknown, usage: Usage | undefined, prompt: string, completion: string): unknown {
  if (!usage || !isObject(said) || usage.output === tokenCount(said[completion])) return said;
  return { ...said, [completion]: usage.output, total_tokens: tokenCount(said[prompt]) + usage.output };
}
