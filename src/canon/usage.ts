/**
 * Token counts. The first four are disjoint, so that cost is a plain sum; `reasoning` is the part of `output` that was spent on reasoning (contract 5).
 */
export type TokenCounts = {
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
};

/** Token counts of one request. */
export type Usage = TokenCounts & {
  /**
   * The part of `cacheWrite` that is kept for longer than usual, and has a price of its own: for an hour at Anthropic's, twice that of input, and for twelve
   * at OpenAI's. Absent: none is known.
   */
  cacheWriteLong?: number;
};

export const NO_USAGE: Readonly<Usage> = Object.freeze({
  input: 0,
  cacheRead: 0,
  cacheWrite: 0,
  output: 0,
  reasoning: 0,
});

/** The counts of two requests, or of two messages of a vendor (dialects.md 4.8 #42), that make one reply. */
export function sumUsage(one: Usage, other: Usage): Usage {
  const sum = {
    input: one.input + other.input,
    cacheRead: one.cacheRead + other.cacheRead,
    cacheWrite: one.cacheWrite + other.cacheWrite,
    output: one.output + other.output,
    reasoning: one.reasoning + other.reasoning,
  };
  return withLong(sum, longWrite(one) + longWrite(other));
}

/** How many tokens were written to the cache for longer than usual. */
export const longWrite = ({ cacheWriteLong = 0 }: Pick<Usage, "cacheWriteLong">): number => cacheWriteLong;

/** These counts, so many of their cache writes for longer than usual: no more than there are. */
export function withLong(usage: Usage, long: number): Usage {
  return long > 0 && usage.cacheWrite > 0 ? { ...usage, cacheWriteLong: Math.min(long, usage.cacheWrite) } : usage;
}

/** Whether two counts say the same of every kind of token. */
export const sameUsage = (one: Usage, other: Usage): boolean =>
  one.input === other.input &&
  one.cacheRead === other.cacheRead &&
  one.cacheWrite === other.cacheWrite &&
  longWrite(one) === longWrite(other) &&
  one.output === other.output &&
  one.reasoning === other.reasoning;

/** All tokens the model read: fresh, from the cache and into the cache. */
export function promptTokens(usage: Usage): number {
  return usage.input + usage.cacheRead + usage.cacheWrite;
}

/** A count as text: servers that write JSON from protocol buffers put every 64-bit integer in quotes. */
const COUNT_TEXT = /^\d{1,15}$/;

/** A count that was written as text, as a number; anything else as it is. */
export const countAsNumber = (value: unknown): unknown =>
  typeof value === "string" && COUNT_TEXT.test(value) ? Number(value) : value;

/**
 * A count as a vendor sent it: a non-negative integer; 0 for a number that is none, undefined for anything else.
 * Usage is input from a stranger (reliability 3.1 rule 6).
 */
export function readCount(value: unknown): number | undefined {
  const count = countAsNumber(value);
  if (typeof count !== "number") return undefined;
  return Number.isFinite(count) && count > 0 ? Math.floor(count) : 0;
}

/** See {@link readCount}; what is no count is 0. */
export const tokenCount = (value: unknown): number => readCount(value) ?? 0;
