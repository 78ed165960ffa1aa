import { DAY_MS, HOUR_MS, startOf } from "../lib/spans.ts";

/** A half-open time, Unix ms: `fromMs` belongs to it, `toMs` does not. */
export type Range = { fromMs: number; toMs: number };

/** How far back single rows and sums by hour are kept, Unix ms. */
export type Kept = { rowsFromMs: number; hoursFromMs: number };

/** A time cut into what sums by day, sums by hour and single rows tell of it; together they are the whole of it, and none overlap. */
export type Cut = { days: Range[]; hours: Range[]; rows: Range[] };

/** Later than any record: how an open end is written. */
export const END_OF_TIME = startOf(Number.MAX_SAFE_INTEGER, DAY_MS);

/** A time as exact as it can still be told: to the millisecond, the hour, or the day that it lies in. */
function snap(ms: number, { rowsFromMs, hoursFromMs }: Kept): number {
  if (ms >= rowsFromMs) return ms;
  return startOf(ms, ms >= hoursFromMs ? HOUR_MS : DAY_MS);
}

/** `range` as whole spans inside it, and what is left before and behind them. */
function cutBy(range: Range, spanMs: number): { whole?: Range; rest: Range[] } {
  const fromMs = Math.ceil(range.fromMs / spanMs) * spanMs;
  const toMs = startOf(range.toMs, spanMs);
  if (fromMs >= toMs) return { rest: [range] };
  const rest = [
    { fromMs: range.fromMs, toMs: fromMs },
    { fromMs: toMs, toMs: range.toMs },
  ];
  return { whole: { fromMs, toMs }, rest: rest.filter((piece) => piece.fromMs < piece.toMs) };
}

/**
 * The pieces of a time (Unix ms): whole UTC days, at its ends whole hours, and single rows for what is left. Where rows or hours are no longer
 * kept, an end is moved back to the hour or the day it lies in.
 */
export function cutRange({ fromMs, toMs }: Range, kept: Kept): Cut {
  const range = { fromMs: snap(fromMs, kept), toMs: snap(toMs, kept) };
  const cut: Cut = { days: [], hours: [], rows: [] };
  if (range.fromMs >= range.toMs) return cut;
  const byDay = cutBy(range, DAY_MS);
  if (byDay.whole) cut.days.push(byDay.whole);
  for (const edge of byDay.rest) {
    const byHour = edge.fromMs >= kept.hoursFromMs ? cutBy(edge, HOUR_MS) : { rest: [edge] };
    if (byHour.whole) cut.hours.push(byHour.whole);
    cut.rows.push(...byHour.rest);
  }
  return cut;
}
