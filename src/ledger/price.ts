import type { Usage } from "../canon/usage.ts";

/**
 * What a model costs: micro-USD per 1,000,000 tokens, which is exactly pico-USD per token (contract 5). Whole numbers, BigInt, so that
 * no float can come near money. Tokens read from or written to the cache cost as fresh input where the row says nothing else.
 */
export type Prices = { input: bigint; output: bigint; cacheRead?: bigint; cacheWrite?: bigint };

const PICO_PER_NANO = 1_000n;

/** Cost in pico-USD, exact. Reasoning is inside output and is not counted again. */
export function costPico(usage: Usage, prices: Prices): bigint {
  return (
    BigInt(usage.input) * prices.input +
    BigInt(usage.cacheRead) * (prices.cacheRead ?? prices.input) +
    BigInt(usage.cacheWrite) * (prices.cacheWrite ?? prices.input) +
    BigInt(usage.output) * prices.output
  );
}

/** Charge in nano-USD: the one rounding of a request, up, on the sum of all counts (contract 5, reliability 3.1 rule 1 and 2). */
export function costNano(usage: Usage, prices: Prices): bigint {
  return (costPico(usage, prices) + PICO_PER_NANO - 1n) / PICO_PER_NANO;
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
