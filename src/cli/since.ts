import { hasPlainYear, readInstant } from "../lib/instant.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../lib/spans.ts";
import { WrongUsage } from "./output.ts";

const UNITS: Readonly<Record<string, number>> = {
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};

/**
 * A span from `now` (`30m`, `24h`, `7d`, `4w`; `direction` -1 is back in time), or a date (UTC) or date and time, as Unix ms; undefined for
 * anything else.
 */
export function readSpan(text: string, now: number, direction: 1 | -1): number | undefined {
  const [, count, unit] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined) return readInstant(text);
  // Nothing here is older than Unix time.
  const at = Math.max(0, now + direction * Number(count) * UNITS[unit]!);
  return hasPlainYear(at) ? at : undefined;
}

/**
 * The start (or with `option` the end) of a span as Unix ms: `30m`, `24h`, `7d`, `4w` before `now`, or a date (UTC) or date and time. Throws
 * WrongUsage for anything else.
 */
export function readSince(text: string, now: number, option = "--since"): number {
  const at = readSpan(text, now, -1);
  if (at !== undefined) return at;
  throw new WrongUsage(`${option}: expected a span such as 24h or 7d, or a date such as 2026-01-31, found "${text}"`);
}
