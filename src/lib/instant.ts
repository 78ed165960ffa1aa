const SHAPE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

const FIRST = Date.parse("0000-01-01");
const LAST = Date.parse("9999-12-31T23:59:59.999Z");

/** Whether a time in Unix ms has a year of four digits: others are written in a way that hardly anybody reads, {@link readInstant} neither. */
export const hasPlainYear = (at: number): boolean => at >= FIRST && at <= LAST;

/**
 * A date (its beginning, UTC) or a date and time, in ISO 8601, as Unix ms; undefined for anything else, a day that its month does not have among it. A
 * time without a zone is taken as UTC: what is meant must not depend on where this runs.
 */
export function readInstant(text: string): number | undefined {
  const [, day, zone] = SHAPE.exec(text) ?? [];
  if (day === undefined) return undefined;
  const at = Date.parse(text === day || zone !== undefined ? text : `${text}Z`);
  // Of a day too many the runtime makes one of the next month.
  const isDay = new Date(Date.parse(day)).getUTCDate() === Number(day.slice(8));
  return isDay && hasPlainYear(at) ? at : undefined;
}
