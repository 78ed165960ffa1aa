const SHAPE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

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
  return isDay && !Number.isNaN(at) ? at : undefined;
}
