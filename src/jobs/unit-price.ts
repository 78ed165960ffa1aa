import type { Entry } from "../catalog/entry.ts";

const NANO_PER_USD = 1_000_000_000;

/**
 * What one image of a model costs, nano-USD: `per_image` of its row's prices, in USD; 0 for a row that is free. Undefined: not known, since
 * prices by the token say nothing of one image.
 */
export function unitPriceOf({ pricing }: Entry): bigint | undefined {
  const perImage = pricing?.["per_image"];
  if (typeof perImage === "number" && perImage >= 0) return BigInt(Math.round(perImage * NANO_PER_USD));
  return pricing?.input === 0 && pricing.output === 0 ? 0n : undefined;
}
