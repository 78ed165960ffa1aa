import { longWrite, promptTokens, type Usage } from "../canon/usage.ts";
import { most } from "./nano.ts";

/**
 * What a model costs: micro-USD per 1,000,000 tokens, which is exactly pico-USD per token (contract 5). Whole numbers, BigInt, so that
 * no float can come near money. What is absent is told by {@link fullRates}.
 */
export type Rates = { input: bigint; output: bigint; cacheRead?: bigint; cacheWrite?: bigint; cacheWriteLong?: bigint };

/** Rates for requests whose prompt has more tokens than `above`: they hold for the whole request. */
export type PriceTier = Rates & { above: number };

/** The rates of short prompts and, where a vendor has them, those of longer ones in rising order of `above`. */
export type Prices = Rates & { tiers?: readonly PriceTier[] };

/** The rates of all tokens: those of the cache cost as fresh input where the row says nothing else, and those written for longer than usual as others that are written. */
export function fullRates(rates: Rates): Required<Rates> {
  const { input, output, cacheRead = input, cacheWrite = input, cacheWriteLong = cacheWrite } = rates;
  return { input, output, cacheRead, cacheWrite, cacheWriteLong };
}

export const PICO_PER_NANO = 1_000n;

/** The rates for a request with a prompt of so many tokens, cached ones included. */
export function ratesFor(prices: Prices, prompt: number): Rates {
  let rates: Rates = prices;
  for (const tier of prices.tiers ?? []) if (prompt > tier.above) rates = tier;
  return rates;
}

/**
 * What a token of the prompt costs at the most: what is not known to come from the cache may have to be written to it (reliability 3.5). `long`: for longer
 * than usual, too.
 */
export function dearestInput(rates: Rates, long: boolean): bigint {
  const { input, cacheRead, cacheWrite, cacheWriteLong } = fullRates(rates);
  const written = long ? most(cacheWrite, cacheWriteLong) : cacheWrite;
  return most(input, most(cacheRead, written));
}

/** Nothing ever costs anything: there is no money to set aside. */
export function isFree(prices: Prices): boolean {
  return [prices, ...(prices.tiers ?? [])].every((rates) => dearestInput(rates, true) === 0n && rates.output === 0n);
}

/** Pico-USD as nano-USD, rounded up. */
export function picoToNano(pico: bigint): bigint {
  return (pico + PICO_PER_NANO - 1n) / PICO_PER_NANO;
}

/** Cost in pico-USD, exact, of one call of a vendor. Reasoning is inside output and is not counted again. */
export function costPico(usage: Usage, prices: Prices): bigint {
  const rates = prices.tiers === undefined ? prices : ratesFor(prices, promptTokens(usage));
  const { input, output, cacheRead, cacheWrite, cacheWriteLong } = fullRates(rates);
  let pico = BigInt(usage.input) * input + BigInt(usage.output) * output;
  if (usage.cacheRead > 0) pico += BigInt(usage.cacheRead) * cacheRead;
  if (usage.cacheWrite > 0) {
    const long = longWrite(usage);
    pico += BigInt(usage.cacheWrite - long) * cacheWrite + BigInt(long) * cacheWriteLong;
  }
  return pico;
}

/**
 * Charge in nano-USD: the one rounding of a request, up, on the sum of all counts (contract 5, reliability 3.1 rule 1 and 2). `rounds`: what each call came
 * to, of a reply that took several; its vendor knows nothing of the others, and looks at the length of its own prompt.
 */
export function costNano(usage: Usage, prices: Prices, rounds?: readonly Usage[]): bigint {
  if (!rounds || prices.tiers === undefined) return picoToNano(costPico(usage, prices));
  return picoToNano(rounds.reduce((pico, round) => pico + costPico(round, prices), 0n));
}

/** Whether the rounds of a reply cost something else than one call with all of their counts would. */
export function isRoundwise(usage: Usage, prices: Prices, rounds: readonly Usage[]): boolean {
  if (prices.tiers === undefined) return false;
  const rates = ratesFor(prices, promptTokens(usage));
  return rounds.some((round) => ratesFor(prices, promptTokens(round)) !== rates);
}

/** Nano-USD as USD with all nine decimals, exact: `0.009507000`. */
export function formatUsd(nano: bigint): string {
  const sign = nano < 0n ? "-" : "";
  const digits = (nano < 0n ? -nano : nano).toString().padStart(10, "0");
  return `${sign}${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

/**
 * A catalog price (USD per 1,000,000 tokens, as it is written in decimal) as micro-USD, rounded half up once. Throws RangeError for
 * what is no price: negative, not finite, or above 1,000,000,000 USD.
 */
export function toMicroPrice(usd: number): bigint {
  if (!(usd >= 0 && usd <= 1_000_000_000)) throw new RangeError(`${usd} is no price.`);
  // Below 0.000001 JavaScript writes an exponent, and only one question is left.
  if (usd < 0.000001) return usd >= 0.0000005 ? 1n : 0n;
  const [whole = "0", fraction = ""] = usd.toString().split(".");
  const digits = fraction.padEnd(7, "0");
  return BigInt(whole) * 1_000_000n + BigInt(digits.slice(0, 6)) + (digits.charAt(6) >= "5" ? 1n : 0n);
}
