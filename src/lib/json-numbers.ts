/** A whole number in JSON with more digits than a double holds exactly, or in the form in which `JSON.stringify` writes it after it was read as a double. */
const LONG_INTEGER = /[:,[]\s*-?(?:\d{16}|\d(?:\.\d{1,17})?e\+)/;

/** Whether reading this JSON may change a whole number in it, or has changed it. Also true for such a number inside a string, where it does no harm. */
export const mayBeInexact = (json: string): boolean => LONG_INTEGER.test(json);

/** Part of the language and of this runtime, but missing in its types. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

/**
 * A reviver for `JSON.parse`: keeps a number as the text in which it was written where a double would be written otherwise, and `JSON.stringify` writes it as
 * that text again. Not for a number that is the whole document.
 */
export function keepNumber(key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (key === "" || typeof value !== "number" || source === undefined || String(value) === source) return value;
  return rawJSON(source);
}

/** {@link keepNumber} for whole numbers alone: all others, such as the settings of a request, stay numbers. */
const keepLongInteger: typeof keepNumber = (key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? keepNumber(key, value, context) : value;

/** `JSON.parse` that keeps whole numbers beyond 2^53 as the text in which they were written, see {@link keepNumber}. Throws SyntaxError. */
export const parseExactly = (text: string): unknown => JSON.parse(text, keepLongInteger);
