/** Lengths of time, ms; a day is one of UTC, which has no summer time. */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** When the span of `spanMs` begins in which `atMs` lies: whole ones since 1970, Unix ms. */
export const startOf = (atMs: number, spanMs: number): number => Math.floor(atMs / spanMs) * spanMs;
