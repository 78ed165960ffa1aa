/** Money is counted in whole nano-USD (contract 5). */
const NANO_PER_USD = 1_000_000_000;

/** An amount of nano-USD in USD, as it is shown to people and in JSON. */
export const toUsd = (nano: bigint): number => Number(nano) / NANO_PER_USD;

/** Decimal USD, with at most ten digits before the point and nine after it, as nano-USD, exactly; undefined for anything else. */
export function parseUsd(text: string): bigint | undefined {
  const [, sign, whole = "", fraction = ""] = /^(-?)(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  if (sign === undefined) return undefined;
  const nano = BigInt(whole + fraction.padEnd(9, "0"));
  return sign === "-" ? -nano : nano;
}

/** USD as nano-USD, rounded to the nearest, half up. */
export const usdToNano = (usd: number): bigint => BigInt(Math.round(usd * NANO_PER_USD));
