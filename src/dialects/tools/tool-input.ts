import { isJson, isObject } from "../../lib/json.ts";
import { CLOSE_LIST, CLOSE_OBJECT, OPEN_LIST, OPEN_OBJECT, QUOTE } from "../../lib/json-codes.ts";
import { stringEnd } from "../../lib/json-ends.ts";
import { keepNumber } from "../../lib/json-numbers.ts";
import { ObjectScanner } from "./object-end.ts";

/** The one key that holds arguments which are no JSON object, for dialects and servers that demand one (dialects.md 4.3). */
const WRAPPED_INPUT_KEY = "value";

/**
 * A tool call's arguments, JSON text, as an object: `{}` for blank text and null, unpacked once when a vendor encoded them twice, and anything
 * else under {@link WRAPPED_INPUT_KEY}, also text that is no JSON or nested too deep (dialects.md 4.8 #10). Never throws.
 */
export const toInput = (text: string): Record<string, unknown> => asInput(parse(text));

/** {@link toInput} of a call that is to be run, where what weaker models make of an object is read as {@link ObjectScanner.take} has it. Never throws. */
export function toCalledInput(text: string): Record<string, unknown> {
  const value = parse(text);
  // What is no JSON comes back as it is.
  if (value !== text) return asInput(value);
  const scanner = new ObjectScanner();
  const taken = scanner.take(text) + scanner.takeRest();
  return asInput(taken !== text && isJson(taken) ? parse(taken) : text);
}

function asInput(value: unknown): Record<string, unknown> {
  if (isObject(value)) return value;
  if (value === undefined || value === null) return {};
  const inner = typeof value === "string" ? parse(value) : undefined;
  return isObject(inner) ? inner : { [WRAPPED_INPUT_KEY]: value };
}

/** Numbers of so many digits may not survive as a double: ids are often longer (dialects.md 4.8 #43). */
const LONG_NUMBER = /\d{16}|\d\.\d{14}/;

/** Deepest nesting that vendors' parsers read in a body, levels. A far deeper value can be parsed here, but not written again. */
const MAX_DEPTH = 128;

/** Whether JSON is nested deeper than {@link MAX_DEPTH}. Counted in its text: to parse a million brackets takes long, and nothing bounds them in a string. */
function isDeeper(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = stringEnd(text, at);
      if (end < 0) return false;
      at = end - 1;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      if (++depth > MAX_DEPTH) return true;
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth--;
  }
  return false;
}

/** The JSON value of `text`; the text itself when it is none, or nested too deep; undefined when it is blank. */
function parse(text: string): unknown {
  if (text.trim() === "") return undefined;
  if (isDeeper(text)) return text;
  try {
    return LONG_NUMBER.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text);
  } catch {
    // Arguments cut off or never JSON: the text itself is all there is to show.
    return text;
  }
}
