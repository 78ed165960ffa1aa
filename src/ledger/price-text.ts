import type { PriceTier, Rates } from "./price.ts";

/** Rates as JSON has them: it has no integers beyond 2^53, so they are text there. */
export type WrittenRates = { [Name in keyof Rates]: string };
export type WrittenTier = WrittenRates & { above: number };

export const writeRates = (rates: Rates): WrittenRates =>
  Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, String(rate)])) as WrittenRates;

/** {@link writeRates} undone. */
export const readRates = (written: WrittenRates): Rates =>
  Object.fromEntries(Object.entries(written).map(([name, rate]) => [name, BigInt(rate)])) as Rates;

export const writeTiers = (tiers: readonly PriceTier[]): WrittenTier[] =>
  tiers.map(({ above, ...rates }) => ({ above, ...writeRates(rates) }));

/** {@link writeTiers} undone. */
export const readTiers = (written: readonly WrittenTier[]): PriceTier[] =>
  written.map(({ above, ...rates }) => ({ above, ...readRates(rates) }));
