const SHAPE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

const FIRST = Date.parse("0000-01-01");
const LAST = Date.parse("9999-12-31T23:59:59.999Z");

/** Whether a time in Unix ms has a year of four digits (0000 to 9999): others are written in a way that few programs read, nor does {@link readInstant}. */
export const hasPlainYear = (at: number): boolean => at >= FIRST && at <= LAST;

/**
 * An ISO 8601 date (its beginning, UTC) or date and time, as Unix ms; undefined for anything else, including a day that its month does not have. A time
 * without a zone is taken as UTC: its meaning must not depend on where this runs.
 */
export function readInstant(text: string): number | undefined {
  const [, day, zone] = SHAPE.exec(text) ?? [];
  if (day === undefined) return undefined;
  const at = Date.parse(text === day || zone !== undefined ? text : `${text}Z`);
  // The runtime takes a day that the month does not have for one of the next month.
  const isDay = new Date(Date.parse(day)).getUTCDate() === Number(day.slice(8));
  return isDay && hasPlainYear(at) ? at : undefined;
}
