import type { Payment } from "./ledger.ts";
import { atLeastZero } from "./nano.ts";
import { dearestInput, PICO_PER_NANO, type Prices, picoToNano, type Rates, ratesFor } from "./price.ts";

/** Output tokens of the first slice (contract 5), and of the largest one that follows (reliability 3.5 #5). */
const FIRST_SLICE = 4_096;
const MAX_SLICE = 16_384;
/** A reply of fewer tokens than this is not worth beginning, unless no more were asked for (reliability 3.5 #3). */
const LEAST_OUTPUT = 256;
/** Tokens before the end of a slice at which the next one is asked for (reliability 3.5 #5). */
const MARGIN = 512;
/** Ceiling of a reply that comes whole, where nobody named one: what a model writes in the 95 s it has (interface 8). */
const BLOCKING_OUTPUT = 16_384;
/** A blocking request may hold one part in this many of its account's money. */
const TIGHT_PART = 4n;
/** What is set aside for the input, in tenths of its estimate: that is within a fifth of the truth, and mostly above it. */
const ESTIMATE_TENTHS = 11n;

/** What decides how much money a request needs. */
export type SliceWish = {
  prices: Prices;
  /** The gateway's estimate of the input, tokens. */
  estimatedInput: number;
  /** The client's ceiling, tokens, of each reply. */
  maxOutputTokens: number | undefined;
  /** Replies that are asked for at once: output is that of all together. Default 1. */
  choices?: number | undefined;
  /** Calls of the vendor that the reply takes, as far as is known: the model's own ceiling is one of each. Default 1. */
  calls?: number;
  payment: Payment;
};

/** The wish of a reply that takes one more call of the vendor. */
export const withCall = (wish: SliceWish): SliceWish => ({ ...wish, calls: (wish.calls ?? 1) + 1 });

/** Money for so many tokens of output on top of the input. */
export type Slice = {
  /** Output tokens that are paid for. */
  output: number;
  /** Money to set aside in all, nano-USD. */
  nano: bigint;
};

/** Nothing can be begun; so much output could be paid for. */
export type Refusal = { affordableOutput: number };

/**
 * The wish of a blocking request as one in slices, where holding the whole of it would take more than {@link TIGHT_PART} of the money: other
 * requests of the account want some too (contract 5: a large `max_tokens` does not lock a small wallet out). Else the wish itself.
 */
export function loosen(wish: SliceWish, availableNano: bigint): SliceWish {
  const { sliced, collectable, unseenOutput } = wish.payment;
  if (sliced || !collectable || unseenOutput > 0) return wish;
  const whole = firstOutput(wish);
  if (whole <= FIRST_SLICE || sliceCost(wish, whole) * TIGHT_PART <= availableNano) return wish;
  // With less than a slice the vendor itself is told where to stop.
  if (sliceCost(wish, FIRST_SLICE) > availableNano) return wish;
  return { ...wish, payment: { ...wish.payment, sliced: true } };
}

/** Output tokens that a request can come to at the most: by the client's word or the model's nature. Infinity: nobody says. */
export function mostOutput({ maxOutputTokens, payment, choices = 1, calls = 1 }: SliceWish): number {
  const each = Math.min(
    maxOutputTokens ?? Number.POSITIVE_INFINITY,
    (payment.maxOutputTokens ?? Number.POSITIVE_INFINITY) * calls,
  );
  return each * choices;
}

/** The reply is watched while it streams. Of several at once only the first is read. */
const isWatched = ({ payment, choices = 1 }: SliceWish) =>
  payment.sliced && payment.unseenOutput === 0 && choices === 1;

/** Output tokens to set money aside for at the beginning. */
export function firstOutput(wish: SliceWish): number {
  const { maxOutputTokens, payment, choices = 1 } = wish;
  const most = mostOutput(wish);
  if (isWatched(wish)) return Math.min(FIRST_SLICE, most);
  // What cannot be watched cannot be ended: the whole of what is asked for is held, and no more is asked of the vendor.
  if (maxOutputTokens !== undefined) return most;
  const usual = payment.unseenOutput > 0 ? payment.unseenOutput + FIRST_SLICE : BLOCKING_OUTPUT;
  return Math.min(most, usual * choices);
}

/** Cost at the most of the estimated input and so much output, nano-USD, rounded up. */
export function sliceCost(wish: SliceWish, output: number): bigint {
  const { rates, inputPico } = upperInput(wish);
  return picoToNano(inputPico + BigInt(output) * rates.output);
}

/** What the input costs at the most, pico-USD, and the rates of a prompt as long as that: one that may be beyond a price tier's edge is held as one that is. */
function upperInput({ prices, estimatedInput, payment }: SliceWish): { rates: Rates; inputPico: bigint } {
  const upper = (BigInt(Math.ceil(estimatedInput)) * ESTIMATE_TENTHS + 9n) / 10n;
  const rates = ratesFor(prices, Number(upper));
  return { rates, inputPico: upper * dearestInput(rates, payment.cachesLong === true) };
}

/** Output tokens that so much money pays for beside the input; below 0 when it does not even pay that. */
function affordableOutput(wish: SliceWish, availableNano: bigint): number {
  const { rates, inputPico } = upperInput(wish);
  const left = availableNano * PICO_PER_NANO - inputPico;
  if (left < 0n) return -1;
  if (rates.output === 0n) return Number.MAX_SAFE_INTEGER;
  return Number(left / rates.output);
}

/** The first slice: as much as is wanted, or what the money pays for where that is worth beginning (reliability 3.5 #3). */
export function firstSlice(wish: SliceWish, availableNano: bigint): Slice | Refusal {
  const wanted = firstOutput(wish);
  const affordable = affordableOutput(wish, availableNano);
  if (affordable < Math.min(LEAST_OUTPUT * (wish.choices ?? 1), wanted))
    return { affordableOutput: Math.max(0, affordable) };
  const output = Math.min(wanted, affordable);
  return { output, nano: sliceCost(wish, output) };
}

/**
 * The slice after one of `output` tokens that grew by `grown`; undefined when the money is not there for any more of it. `cameTo`: the reply has ended,
 * and wants no more than that.
 */
export function nextSlice(
  wish: SliceWish,
  { output, nano }: Slice,
  grown: number,
  freeNano: bigint,
  cameTo = output + Math.min(grown * 2, MAX_SLICE),
): Slice | undefined {
  const wanted = Math.min(cameTo, mostOutput(wish));
  const reached = Math.min(wanted, affordableOutput(wish, nano + atLeastZero(freeNano)));
  return reached > output ? { output: reached, nano: sliceCost(wish, reached) } : undefined;
}

/**
 * Estimated output at which the next slice is asked for. Infinity where the vendor keeps the ceiling by itself. The margin pays for what
 * comes between a decision and the vendor's stop, and for the estimate's own error.
 */
export function growAt(wish: SliceWish, { output }: Slice): number {
  if (!isWatched(wish) || output >= mostOutput(wish)) return Number.POSITIVE_INFINITY;
  return output - Math.min(MARGIN, output >> 3);
}

/** What the vendor must be told of each reply, where it cannot be ended in the middle and the client asked for more or for anything. */
export function ceilingOf(wish: SliceWish, { output }: Slice): number | undefined {
  if (isWatched(wish)) return undefined;
  const each = Math.floor(output / (wish.choices ?? 1));
  return wish.maxOutputTokens !== undefined && wish.maxOutputTokens <= each ? undefined : each;
}
