import { DAY_MS, HOUR_MS, MINUTE_MS, startOf } from "../../lib/spans.ts";

/** A date that a search engine gave. `iso`: of the day (`2026-03-01`) or of the moment; `untilMs`: its last moment, Unix ms. */
export type FoundDate = { iso: string; untilMs: number };

/** Longer texts are no dates. */
const MAX_LENGTH = 64;

const UNIT_MS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: MINUTE_MS,
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
};

const ISO_DAY = /^\d{4}-\d{2}-\d{2}$/;
const ISO_MOMENT = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;
const AGO = /^(\d{1,4}|an?) (second|minute|hour|day|week|month|year)s? ago$/i;
/** `Mar 3, 2026`, `3 March 2026`, as search pages write them. */
const IN_WORDS = /^(?:[a-z]{3,9}\.? \d{1,2},? \d{4}|\d{1,2} [a-z]{3,9}\.? \d{4})$/i;
/** `Tue, 03 Mar 2026 10:00:00 GMT`. */
const RFC_2822 = /^[a-z]{3}, \d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})$/i;

/** Whether a time is in a year of four figures: ISO 8601 writes others in another way, and nothing was published then. */
const isSensible = (ms: number) => ms >= Date.UTC(1000, 0, 1) && ms < Date.UTC(10_000, 0, 1);

function ofDay(ms: number): FoundDate | undefined {
  if (!isSensible(ms)) return undefined;
  return { iso: new Date(ms).toISOString().slice(0, 10), untilMs: startOf(ms, DAY_MS) + DAY_MS - 1 };
}

function ofMoment(ms: number): FoundDate | undefined {
  return isSensible(ms) ? { iso: new Date(ms).toISOString(), untilMs: ms } : undefined;
}

/** A time without a zone is taken as UTC: it must not depend on where this runs. */
function readIso(text: string): FoundDate | undefined {
  if (ISO_DAY.test(text)) return ofDay(Date.parse(`${text}T00:00:00Z`));
  const match = ISO_MOMENT.exec(text);
  if (!match) return undefined;
  return ofMoment(Date.parse(`${text.replace(" ", "T")}${match[1] === undefined ? "Z" : ""}`));
}

/** A date as engines write it, in figures or in words; undefined for whatever else. `now` (Unix ms) is what "ago" counts from. */
export function parseDate(written: string | undefined, now: number): FoundDate | undefined {
  const text = written?.trim() ?? "";
  if (text === "" || text.length > MAX_LENGTH) return undefined;
  const iso = readIso(text);
  if (iso) return iso;
  const ago = AGO.exec(text);
  if (ago) {
    const count = /^\d/.test(ago[1]!) ? Number(ago[1]) : 1;
    const unitMs = UNIT_MS[ago[2]!.toLowerCase()] ?? 0;
    return unitMs < DAY_MS ? ofMoment(now - count * unitMs) : ofDay(now - count * unitMs);
  }
  if (/^yesterday$/i.test(text)) return ofDay(now - DAY_MS);
  if (RFC_2822.test(text)) return ofMoment(Date.parse(text));
  return IN_WORDS.test(text) ? ofDay(Date.parse(`${text.replace(/\./g, "")} UTC`)) : undefined;
}
