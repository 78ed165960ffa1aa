/** Lengths of time, ms. A day is a UTC day, which always has 24 hours. */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** When the span of `spanMs` begins that `atMs` lies in, Unix ms. Spans are counted without gaps from 1970 on. */
export const startOf = (atMs: number, spanMs: number): number => Math.floor(atMs / spanMs) * spanMs;
