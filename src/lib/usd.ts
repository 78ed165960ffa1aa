/** Money is counted in whole nano-USD (contract 5). */
const NANO_PER_USD = 1_000_000_000;

/** An amount of nano-USD as people and JSON have it, in USD. */
export const toUsd = (nano: bigint): number => Number(nano) / NANO_PER_USD;

/** USD as they are counted, rounded half up. */
export const toNano = (usd: number): bigint => BigInt(Math.round(usd * NANO_PER_USD));
