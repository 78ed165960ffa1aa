import { releaseWhole } from "./http1/memory.ts";
import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isSpace,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from "./json-codes.ts";
import { percentDecode } from "./percent-decode.ts";

/** A piece of text, as characters or as UTF-8 bytes. Indices into it count characters or bytes accordingly. */
export type Piece = string | Buffer;

/** Text in one piece or in several that follow one another, since joining copies a long text. No character is cut in two. */
export type Text = string | readonly Piece[];

/** The text in one piece. */
export const wholeText = (text: Text): string => (typeof text === "string" ? text : text.map(textOf).join(""));

const textOf = (piece: Piece): string => (typeof piece === "string" ? piece : piece.toString());

/** The length of a text as UTF-8, bytes. */
export function byteLength(text: Text): number {
  if (typeof text === "string") return Buffer.byteLength(text);
  let length = 0;
  for (const piece of text) length += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
  return length;
}

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

/** Whether a text is JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // That it throws is the answer.
    return false;
  }
}

/**
 * A JSON document as it came and, once somebody asks, as a value: parsed once, lazily. One that came as bytes stays bytes while nobody needs the text:
 * to decode a long one costs more than everything else that is done with it.
 */
export class JsonText<Value = unknown> {
  #source: Piece;
  #value: Value | undefined;
  #parsed = false;
  /** Where the fields are in the source, in the form that it has now. */
  #fields: Fields | undefined;
  #mayHoldHalves: boolean | undefined;

  /**
   * `fields` (as by {@link findFields}), `value` and `mayHoldHalves`: what the caller knows of the text already. Bytes must be UTF-8, and belong to this
   * document from now on.
   */
  constructor(source: Piece, fields?: Fields, value?: Value, mayHoldHalves?: boolean) {
    this.#source = source;
    this.#fields = fields;
    this.#value = value;
    this.#parsed = value !== undefined;
    this.#mayHoldHalves = mayHoldHalves;
  }

  /** The whole text. Bytes are decoded once, and the document is held as text from then on. */
  get text(): string {
    const source = this.#source;
    if (typeof source === "string") return source;
    const text = source.toString();
    // They are byte indices, which are not those of the text where it holds more than ASCII.
    if (text.length !== source.length) this.#fields = undefined;
    this.#source = text;
    return text;
  }

  /** The text, where the document is held as text; undefined while it is held as bytes. */
  get held(): string | undefined {
    const source = this.#source;
    return typeof source === "string" ? source : undefined;
  }

  /** Its length in the form in which it is held: characters or bytes. */
  get length(): number {
    return this.#source.length;
  }

  /** The parsed value. Throws SyntaxError when the text is not JSON. */
  get value(): Value {
    if (!this.#parsed) {
      this.#value = JSON.parse(this.text);
      this.#parsed = true;
    }
    return this.#value as Value;
  }

  /** Drops the value and keeps the source: whoever asks for the value later has it parsed again. */
  forgetValue(): void {
    this.#value = undefined;
    this.#parsed = false;
  }

  /** Whether a lone surrogate may stand in it: none does without a `\u` escape. Searched once, since the document may be long. */
  get mayHoldHalves(): boolean {
    this.#mayHoldHalves ??= this.#source.includes("\\u");
    return this.#mayHoldHalves;
  }

  /** Whether `spelled` stands somewhere in the source, literally. */
  includes(spelled: string): boolean {
    return this.#source.includes(spelled);
  }

  /** The text between two indices into the form in which it is held; those into bytes are moved on to the next beginning of a character. */
  slice(from: number, to: number): string {
    const source = this.#source;
    if (typeof source === "string") return source.slice(from, to);
    return source.toString("utf8", characterAt(source, from), characterAt(source, to));
  }

  /** The text of top-level `field`'s value, cut to `most` characters or bytes; undefined where there is none. This document must be an object. */
  textOf(field: string, most: number): string | undefined {
    const fields = this.#found();
    const range = findValue(this.#source, fields, field);
    return range && textAt(this.#source, range[0], Math.min(range[1], range[0] + most));
  }

  /** {@link editObject} applied to this document, which must be an object. */
  edit(edits: Edits): string {
    return wholeText(this.editInPieces(edits));
  }

  /** {@link edit} in pieces: what lies between the edits is not copied. The pieces are valid until {@link forget}. */
  editInPieces(edits: Edits): Piece[] {
    const fields = this.#found();
    return spliceFields(this.#source, fields, edits);
  }

  #found(): Fields {
    this.#fields ??= findFields(this.text);
    return this.#fields;
  }

  /** Turns it into an empty object and frees its memory: for a document that others still refer to but nobody reads any more, nor its pieces. */
  forget(): void {
    if (typeof this.#source !== "string") releaseWhole(this.#source);
    this.#source = "{}";
    this.forgetValue();
    this.#fields = undefined;
    this.#mayHoldHalves = undefined;
  }
}

/** A document that is known to be an object. */
export type ObjectText = JsonText<Record<string, unknown>>;

/** New values for top-level fields; `undefined` removes a field. */
export type Edits = Record<string, unknown>;

/** The value that a field will have once the edits are made. */
export const editedField = (field: string, body: Record<string, unknown>, edits: Edits): unknown =>
  Object.hasOwn(edits, field) ? edits[field] : body[field];

/** The code of the character, or the byte, at an index: the same for all characters that JSON is built of. */
const codeAt = (source: Piece, at: number): number =>
  typeof source === "string" ? source.charCodeAt(at) : (source[at] as number);

const cut = (source: Piece, from: number, to?: number): Piece =>
  typeof source === "string" ? source.slice(from, to) : source.subarray(from, to);

const textAt = (source: Piece, from: number, to: number): string =>
  typeof source === "string" ? source.slice(from, to) : source.toString("utf8", from, to);

/** The first index from `at` on at which a character begins. */
function characterAt(bytes: Buffer, at: number): number {
  let start = at;
  while (((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return start;
}

/** Index just after the string literal that opens at `start`, or -1 when it never closes. */
export function stringEnd(text: Piece, start: number): number {
  if (typeof text !== "string") return bytesEnd(text, start);
  let at = start + 1;
  for (;;) {
    at = text.indexOf('"', at);
    if (at < 0) return -1;
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++;
    at++;
    if (slashes % 2 === 0) return at;
  }
}

/** How many bytes after an escaped quote are looked at one by one: where there is one, others are near, and a search for each would take longer. */
const NEAR_BYTES = 16;

/** {@link stringEnd} in bytes. */
function bytesEnd(bytes: Buffer, start: number): number {
  let at = start + 1;
  for (;;) {
    at = bytes.indexOf(QUOTE, at);
    if (at < 0) return -1;
    let slashes = 0;
    while (bytes[at - 1 - slashes] === BACKSLASH) slashes++;
    at++;
    if (slashes % 2 === 0) return at;
    for (const stop = Math.min(at + NEAR_BYTES, bytes.length); at < stop; at++) {
      const code = bytes[at];
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) return at + 1;
    }
  }
}

/** {@link stringEnd}, or the end of the text for a string that never closes. */
function skipString(text: Piece, start: number): number {
  const end = stringEnd(text, start);
  return end < 0 ? text.length : end;
}

/** Index just after the value that starts at `start`. Invalid JSON is not noticed; some index at or before the end of the text is returned for that too. */
export function skipValue(text: Piece, start: number): number {
  const first = codeAt(text, start);
  if (first === QUOTE) return skipString(text, start);
  let at = start;
  if (first !== OPEN_OBJECT && first !== OPEN_LIST) {
    while (at < text.length) {
      const code = codeAt(text, at);
      if (code === COMMA || code === CLOSE_OBJECT || code === CLOSE_LIST || isSpace(code)) break;
      at++;
    }
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const code = codeAt(text, at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    if (code === OPEN_OBJECT || code === OPEN_LIST) depth++;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) {
      depth--;
      if (depth === 0) return at + 1;
    }
    at++;
  }
  return at;
}

/**
 * Where the top-level fields of an object stand in its text. `at` has four indices for each field, in the order of the text: start and end of its key, start
 * and end of its value; an end is the index just after.
 */
export type Fields = {
  at: number[];
  /** Index of the brace that closes the object. */
  close: number;
};

/** The fields of `text`, which must already be known to parse as an object. */
function findFields(text: string): Fields {
  const found: number[] = [];
  let at = text.indexOf("{") + 1;
  for (;;) {
    while (isSpace(text.charCodeAt(at)) || text.charCodeAt(at) === COMMA) at++;
    if (text.charCodeAt(at) !== QUOTE) return { at: found, close: at };
    const keyAt = at;
    at = skipString(text, at);
    const keyEnd = at;
    while (text.charCodeAt(at) !== COLON) at++;
    at++;
    while (isSpace(text.charCodeAt(at))) at++;
    const valueAt = at;
    at = skipValue(text, at);
    found.push(keyAt, keyEnd, valueAt, at);
  }
}

/** The name that the key literal from `start` to `end`, quotes included, spells. */
function readKey(text: Piece, start: number, end: number): string {
  const literal = textAt(text, start + 1, end - 1);
  return literal.includes("\\") ? (JSON.parse(`"${literal}"`) as string) : literal;
}

/** The one of `names` that the key literal from `start` to `end`, quotes included, spells; undefined for any other key. */
function spelledName(text: Piece, start: number, end: number, names: readonly string[]): string | undefined {
  if (typeof text !== "string") {
    const key = readKey(text, start, end);
    return names.includes(key) ? key : undefined;
  }
  for (let at = start + 1; at < end - 1; at++) {
    if (text.charCodeAt(at) !== BACKSLASH) continue;
    const key = readKey(text, start, end);
    return names.includes(key) ? key : undefined;
  }
  const length = end - start - 2;
  for (const name of names) if (name.length === length && text.startsWith(name, start + 1)) return name;
  return undefined;
}

const commaBefore = (text: Piece, at: number): number =>
  typeof text === "string" ? text.lastIndexOf(",", at) : text.lastIndexOf(COMMA, at);

/** {@link editObject} with the fields found already, and the result in pieces. */
function spliceFields(text: Piece, { at: places, close }: Fields, edits: Edits): Piece[] {
  const names = Object.keys(edits);
  const found: string[] = [];
  const pieces: Piece[] = [];
  /** How far the text has been copied, and whether what was copied holds a field. */
  let copied = 0;
  let any = false;
  for (let place = 0; place < places.length; place += 4) {
    const keyAt = places[place] as number;
    const key = spelledName(text, keyAt, places[place + 1] as number, names);
    if (key === undefined) {
      any = true;
      continue;
    }
    found.push(key);
    const valueAt = places[place + 2] as number;
    const valueEnd = places[place + 3] as number;
    const value = edits[key];
    if (value !== undefined) {
      pieces.push(cut(text, copied, valueAt), JSON.stringify(value));
      copied = valueEnd;
      any = true;
      continue;
    }
    // With a field the comma before it is removed, or the one after it where no field is left before it.
    pieces.push(cut(text, copied, any ? commaBefore(text, keyAt) : keyAt));
    copied = valueEnd;
    if (any) continue;
    while (isSpace(codeAt(text, copied))) copied++;
    if (codeAt(text, copied) === COMMA) copied++;
  }
  pieces.push(cut(text, copied, close));
  for (const key of names) {
    const value = edits[key];
    if (value === undefined || found.includes(key)) continue;
    pieces.push(`${any ? "," : ""}${JSON.stringify(key)}:${JSON.stringify(value)}`);
    any = true;
  }
  pieces.push(cut(text, close));
  return pieces;
}

/**
 * `text`, a JSON object, with the named top-level fields set or removed, and every other byte as it was: big integers, spelling and
 * order survive. A field that occurs twice is edited at each place. The text must already be known to parse as an object.
 */
export function editObject(text: string, edits: Edits): string {
  return wholeText(spliceFields(text, findFields(text), edits));
}

/** Start and end of the value of top-level `field`, the last one where it occurs twice; undefined where there is none. */
function findValue(text: Piece, { at }: Fields, field: string): readonly [start: number, end: number] | undefined {
  for (let place = at.length - 4; place >= 0; place -= 4) {
    if (readKey(text, at[place] as number, at[place + 1] as number) === field) {
      return [at[place + 2] as number, at[place + 3] as number];
    }
  }
  return undefined;
}

/** The text of top-level `field`'s value, as it was written; undefined where there is none. The text must already be known to parse as an object. */
export function fieldText(text: string, field: string): string | undefined {
  const range = findValue(text, findFields(text), field);
  return range && text.slice(range[0], range[1]);
}

/**
 * {@link editObject} one level down: the edits apply to the object that stands in top-level `field`, and every other byte stays as it
 * was. Text without an object there comes back unchanged.
 */
export function editInside(text: string, field: string, edits: Edits): string {
  const range = findValue(text, findFields(text), field);
  if (!range || text.charCodeAt(range[0]) !== OPEN_OBJECT) return text;
  return text.slice(0, range[0]) + editObject(text.slice(range[0], range[1]), edits) + text.slice(range[1]);
}

/** A plain JSON object, as opposed to an array, null or a scalar. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether an object has no field at all. */
export function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}

/** Sets a field unless its value is undefined: where an object is spread over another, an undefined field would hide the other's. */
export function put<T extends object, K extends keyof T>(target: T, field: K, value: T[K] | undefined): void {
  if (value !== undefined) target[field] = value;
}

const NO_LIST: readonly unknown[] = [];

/** A value that should be a list; an empty list for anything else. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : NO_LIST);

/** Whether a value is a list that holds nothing. */
export const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** The objects of a list; none of anything else. */
export const objectsOf = (value: unknown): Record<string, unknown>[] => listOf(value).filter(isObject);

/** What a table holds under a word that comes from outside; undefined for what every object inherits, such as `constructor`. */
export const entryOf = <T>(table: Readonly<Record<string, T>>, word: string): T | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined;

/** The item of a list at an index as RFC 6901 writes it: `0`, but not `00`. */
const itemOf = (list: readonly unknown[], place: string): unknown =>
  /^(?:0|[1-9]\d{0,8})$/.test(place) ? list[Number(place)] : undefined;

/** What a reference within the document `root` leads to, such as `#/$defs/point` or `#/anyOf/0` (RFC 6901, 4 and 6); undefined where it leads nowhere. */
export function atPointer(root: unknown, reference: string): unknown {
  let value = root;
  for (const step of percentDecode(reference.slice(1)).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = itemOf(value, key);
    else value = isObject(value) ? entryOf(value, key) : undefined;
  }
  return value;
}

/** A value that should be a string; "" for anything else. */
export const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A value that should be a number; undefined for anything else. */
export const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
