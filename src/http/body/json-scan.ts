import { GatewayError } from "../../canon/errors.ts";
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isSpace,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from "../../lib/json-codes.ts";
import { stringEnd } from "../../lib/json-ends.ts";
import type { FieldPlaces } from "../../lib/json-text.ts";

/** Arrays and objects inside each other (reliability 7.5). */
export const MAX_DEPTH = 64;
/** Braces, brackets, commas and colons outside of strings (reliability 7.5). */
export const MAX_TOKENS = 500_000;

const invalid = (message: string) => new GatewayError("invalid_request", message);

const isNumberPart = (code: number) =>
  (code >= 48 && code <= 57) || code === 46 || code === 43 || code === 45 || code === 101 || code === 69;

/** Index just after the number at `start`. Throws when its value is beyond what a double holds: it would become Infinity. */
function numberEnd(text: string, start: number): number {
  let at = start + 1;
  let exponent = false;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (!isNumberPart(code)) break;
    if (code === 101 || code === 69) exponent = true;
  }
  if (exponent || at - start > 300) {
    const value = Number(text.slice(start, at));
    if (value === Infinity || value === -Infinity) {
      throw invalid(`The request body holds a number that is too large, at character ${start}.`);
    }
  }
  return at;
}

/** A key that must not be, as it is plainly written, and one of its letters by its number. */
const PROTO = '"__proto__"';
const ESCAPED_PROTO = /\\u00(?:5f|70|72|6f|74)/i;

/** Whether a text that spells characters by their number may spell one of that key's. */
export const maySpellProto = (text: string): boolean => ESCAPED_PROTO.test(text);

/**
 * Walks a JSON value in a text once, strings skipped: counts, and notes where the fields of a document stand, so that nobody has to look for them again.
 */
export class Scan {
  readonly fields: FieldPlaces = { at: [], close: -1 };
  /** A string `__proto__` stands in it, plainly written: perhaps a key. */
  holdsProto = false;
  #depth: number;
  #tokens = 0;
  /** At the top level: a key is to come next; else the place of its colon, until its value has ended. */
  #keyComes = false;
  #colonAt = -1;

  /** `depth`: how many brackets of the document are open around the value. */
  constructor(
    private readonly text: string,
    private readonly depth = 0,
  ) {
    this.#depth = depth;
  }

  /** Braces, brackets, commas and colons so far. */
  get tokens(): number {
    return this.#tokens;
  }

  /**
   * The index just behind the object or array that the text begins with, or that of its end where it begins with anything else; -1 where a bracket or a
   * string is never closed. Throws GatewayError (invalid_request) on a bomb.
   */
  run(): number {
    const { text, depth } = this;
    let at = 0;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        const opens = at;
        at = stringEnd(text, at);
        if (at < 0) return -1;
        if (at - opens === PROTO.length && text.startsWith(PROTO, opens)) this.holdsProto = true;
        if (this.#keyComes) {
          this.#keyComes = false;
          this.fields.at.push(opens, at);
        }
        continue;
      }
      if ((code >= 48 && code <= 57) || code === 45) {
        at = numberEnd(text, at);
        continue;
      }
      if (
        code === COMMA ||
        code === COLON ||
        code === OPEN_OBJECT ||
        code === OPEN_LIST ||
        code === CLOSE_OBJECT ||
        code === CLOSE_LIST
      ) {
        this.#take(code, at);
        if (this.#depth <= depth && (code === CLOSE_OBJECT || code === CLOSE_LIST)) return at + 1;
      }
      at++;
    }
    return this.#depth <= depth ? at : -1;
  }

  #take(code: number, at: number): void {
    if (++this.#tokens > MAX_TOKENS) throw invalid(`The request body has more than ${MAX_TOKENS} parts.`);
    if (code === COMMA) {
      if (this.#depth !== 1) return;
      this.#endValue(at);
      this.#keyComes = true;
    } else if (code === COLON) {
      if (this.#depth === 1) this.#colonAt = at;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      if (++this.#depth > MAX_DEPTH) throw invalid(`The request body is nested deeper than ${MAX_DEPTH} levels.`);
      this.#keyComes = this.#depth === 1;
    } else {
      if (this.#depth === 1) {
        this.#endValue(at);
        this.#keyComes = false;
        this.fields.close = at;
      }
      this.#depth--;
    }
  }

  /** The value of the last key ends before `end`: its blanks belong to nobody. */
  #endValue(end: number): void {
    if (this.#colonAt < 0) return;
    let start = this.#colonAt + 1;
    while (isSpace(this.text.charCodeAt(start))) start++;
    let last = end;
    while (isSpace(this.text.charCodeAt(last - 1))) last--;
    this.fields.at.push(start, last);
    this.#colonAt = -1;
  }
}
