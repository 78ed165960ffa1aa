import { isObject } from "../../lib/json.ts";

/** The one key under which arguments stand that are no JSON object: this dialect demands an object (dialects.md 4.3). */
export const WRAPPED_INPUT_KEY = "value";

/**
 * A tool call's JSON arguments as the object that `input` must be: `{}` for nothing, unpacked once when a vendor encoded them twice,
 * and anything else under {@link WRAPPED_INPUT_KEY}, text that is no JSON included (dialects.md 4.8 #10). Never throws.
 */
export function toInput(text: string): Record<string, unknown> {
  const value = parse(text);
  if (isObject(value)) return value;
  if (value === undefined || value === null) return {};
  const inner = typeof value === "string" ? parse(value) : undefined;
  return isObject(inner) ? inner : { [WRAPPED_INPUT_KEY]: value };
}

/** The JSON value of `text`; the text itself when it is none; undefined when it is blank. */
function parse(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // Arguments cut off or never JSON: the text itself is all there is to show.
    return text;
  }
}
