/** The smaller of two amounts: Math.min takes no BigInt. */
export const least = (a: bigint, b: bigint): bigint => (a - b < 0n ? a : b);

/** The larger of two amounts. */
export const most = (a: bigint, b: bigint): bigint => (a - b > 0n ? a : b);

/** An amount, or nothing where it is below zero. */
export const atLeastZero = (nano: bigint): bigint => (nano > 0n ? nano : 0n);
