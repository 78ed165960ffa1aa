import { isObject, keepNumber } from "../../lib/json.ts";

/** The one key under which arguments stand that are no JSON object: this dialect demands an object (dialects.md 4.3). */
const WRAPPED_INPUT_KEY = "value";

/**
 * A tool call's JSON arguments as the object that `input` must be: `{}` for nothing, unpacked once when a vendor encoded them twice,
 * and anything else under {@link WRAPPED_INPUT_KEY}, text that is no JSON or nested too deep included (dialects.md 4.8 #10). Never throws.
 */
export function toInput(text: string): Record<string, unknown> {
  const value = parse(text);
  if (isObject(value)) return value;
  if (value === undefined || value === null) return {};
  const inner = typeof value === "string" ? parse(value) : undefined;
  return isObject(inner) ? inner : { [WRAPPED_INPUT_KEY]: value };
}

/** Numbers of so many digits may not survive as a double: ids are often longer (dialects.md 4.8 #43). */
const LONG_NUMBER = /\d{16}|\d\.\d{14}/;

/** Deepest nesting that vendors' parsers read in a body, levels; far beyond it a value can be read here and not written again. */
const MAX_DEPTH = 128;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** The JSON value of `text`; the text itself when it is none, or nested too deep; undefined when it is blank. */
function parse(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    const value: unknown = LONG_NUMBER.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text);
    return isDeeper(value, MAX_DEPTH) ? text : value;
  } catch {
    // Arguments cut off or never JSON: the text itself is all there is to show.
    return text;
  }
}
