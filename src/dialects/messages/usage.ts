import { longWrite, NO_USAGE, readCount, type Usage, withLong } from "../../canon/usage.ts";
import { isObject } from "../../lib/json.ts";

/** The count of `field`, or `before` where the vendor left it out or null. */
const countOf = (usage: Record<string, unknown>, field: string, before: number): number =>
  readCount(usage[field]) ?? before;

/** What a prompt comes to. */
const PROMPT = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] as const;

/** Proxies that know the prompt at the beginning alone write noughts at the end, for all of it or for the part that they know of. */
function isNoughts(usage: Record<string, unknown>): boolean {
  const told = PROMPT.map((field) => readCount(usage[field])).filter((count) => count !== undefined);
  return told.length > 0 && told.every((count) => count === 0);
}

/**
 * Whether `usage` tells which parts of a prompt counted before, as a whole, came from a cache or went into one: DashScope's endpoint for messages starts a stream with
 * the whole prompt as `input_tokens`, and ends it with the cache's counts in this dialect's words and in the chat dialect's, whose count of a prompt includes them.
 */
function tellsParts(usage: Record<string, unknown>, before: Usage): boolean {
  const isWhole = before.cacheRead === 0 && before.cacheWrite === 0;
  return isWhole && readCount(usage["input_tokens"]) === undefined && isObject(usage["prompt_tokens_details"]);
}

/**
 * `usage` as disjoint counts over what was known before: counts that are present replace, as they are cumulative for the whole message
 * (dialects.md 2.5, 4.6, 4.8 #41). `input_tokens` already excludes both cache counters; what is written for an hour is told in `cache_creation`.
 * Returns `before` itself when there is nothing.
 */
export function readUsage(usage: unknown, before: Usage): Usage {
  if (!isObject(usage)) return before;
  const details = usage["output_tokens_details"];
  const output = countOf(usage, "output_tokens", before.output);
  const cacheRead = countOf(usage, "cache_read_input_tokens", before.cacheRead);
  const cacheWrite = countOf(usage, "cache_creation_input_tokens", before.cacheWrite);
  const fresh = countOf(usage, "input_tokens", before.input);
  const input = tellsParts(usage, before) ? Math.max(0, fresh - cacheRead - cacheWrite) : fresh;
  const written = usage["cache_creation"];
  const long = isObject(written) ? countOf(written, "ephemeral_1h_input_tokens", longWrite(before)) : longWrite(before);
  // Where each iteration is told, a nought is none that was left out.
  const isTold = Array.isArray(usage["iterations"]) || !isNoughts(usage);
  const counts = {
    input: isTold ? input : before.input,
    cacheRead: isTold ? cacheRead : before.cacheRead,
    cacheWrite: isTold ? cacheWrite : before.cacheWrite,
    output,
    reasoning: Math.min(
      isObject(details) ? countOf(details, "thinking_tokens", before.reasoning) : before.reasoning,
      output,
    ),
  };
  return withLong(counts, isTold ? long : longWrite(before));
}

/** Iterations that are in no other count of a reply: the others are the reply's own, or one that a fallback model took over and nobody bills. */
const APART: ReadonlySet<unknown> = new Set(["compaction", "advisor_message"]);
/** More calls than a vendor makes for one reply; a list from a stranger is not read beyond. */
const MAX_APART = 100;

/**
 * What the vendor did on top of the message and bills beside it: a summary of the conversation (compaction), the advice of another model.
 * `usage` tells it in `iterations` alone, and its other counts are those of the message without it; undefined where it tells of none. Advice
 * has the price of the advising model there; its tokens are counted here as the model's own, whose price is the one that is known.
 */
export function readApart(usage: unknown): Usage[] | undefined {
  const iterations = isObject(usage) ? usage["iterations"] : undefined;
  if (!Array.isArray(iterations)) return undefined;
  const apart = iterations
    .slice(0, MAX_APART)
    .filter((iteration) => isObject(iteration) && APART.has(iteration["type"]));
  return apart.length > 0 ? apart.map((iteration) => readUsage(iteration, NO_USAGE)) : undefined;
}

/** The larger of two counts in each place: a repeated message_start must not take back what was counted (dialects.md 4.8 #42). */
export function largerUsage(one: Usage, other: Usage): Usage {
  const counts = {
    input: Math.max(one.input, other.input),
    cacheRead: Math.max(one.cacheRead, other.cacheRead),
    cacheWrite: Math.max(one.cacheWrite, other.cacheWrite),
    output: Math.max(one.output, other.output),
    reasoning: Math.max(one.reasoning, other.reasoning),
  };
  return withLong(counts, Math.max(longWrite(one), longWrite(other)));
}

/** Counts as this dialect writes them (dialects.md 4.6). */
export function writeUsage(usage: Usage): Record<string, unknown> {
  const written: Record<string, unknown> = {
    input_tokens: usage.input,
    cache_creation_input_tokens: usage.cacheWrite,
    cache_read_input_tokens: usage.cacheRead,
    output_tokens: usage.output,
  };
  const long = longWrite(usage);
  if (long > 0) {
    written["cache_creation"] = {
      ephemeral_5m_input_tokens: usage.cacheWrite - long,
      ephemeral_1h_input_tokens: long,
    };
  }
  if (usage.reasoning > 0) written["output_tokens_details"] = { thinking_tokens: usage.reasoning };
  return written;
}
