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

/** A stretch of text as characters, or as the bytes of their UTF-8. Places in it count the one or the other. */
export type Piece = string | Buffer;

/** Text in one piece, or in several that follow one another: a long one is copied when it is put together. No character is cut in two. */
export type Text = string | readonly Piece[];

/** The text in one piece. */
export const wholeText = (text: Text): string => (typeof text === "string" ? text : text.map(textOf).join(""));

const textOf = (piece: Piece): string => (typeof piece === "string" ? piece : piece.toString());

/** Its length as UTF-8, bytes. */
export function byteLength(text: Text): number {
  if (typeof text === "string") return Buffer.byteLength(text);
  let length = 0;
  for (const piece of text) length += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
  return length;
}

/** A whole number in JSON that may be longer than a double is exact, also as `JSON.stringify` writes what became of it. Inside a string it is none. */
const LONG_INTEGER = /[:,[]\s*-?(?:\d{16}|\d(?:\.\d{1,17})?e\+)/;

/** Whether reading this JSON may change a whole number in it, or has changed it. Wrong only in that it may say so of one inside a string. */
export const mayBeInexact = (json: string): boolean => LONG_INTEGER.test(json);

/** In the language and in this runtime, not yet in its types. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

/** Of `JSON.parse`: a number as the text it came as, where a double is another one. `JSON.stringify` writes it as that text. Not at the root. */
export function keepNumber(key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (key === "" || typeof value !== "number" || source === undefined || String(value) === source) return value;
  return rawJSON(source);
}

/** {@link keepNumber} of whole numbers alone: the settings of a request are to be numbers. */
const keepLongInteger: typeof keepNumber = (key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? keepNumber(key, value, context) : value;

/** `JSON.parse`, in which whole numbers that are longer than a double is exact stay the text they came as. Throws SyntaxError. */
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
 * A JSON document as it came and, once somebody asks, as a value: parsed once, lazily. One that came as bytes need not become text for that:
 * of a long one that would cost more than all else that is done with it.
 */
export class JsonText<Value = unknown> {
  #source: Piece;
  #value: Value | undefined;
  #parsed = false;
  /** Of the source, as it is. */
  #fields: Fields | undefined;
  #mayHoldHalves: boolean | undefined;

  /**
   * What whoever made the text knows of it already: the fields of {@link findFields}, what it reads as, and whether half a character may stand in it.
   * Bytes are the UTF-8 of a text, and from now on this document's own.
   */
  constructor(source: Piece, fields?: Fields, value?: Value, mayHoldHalves?: boolean) {
    this.#source = source;
    this.#fields = fields;
    this.#value = value;
    this.#parsed = value !== undefined;
    this.#mayHoldHalves = mayHoldHalves;
  }

  /** All of it. Of bytes it is made once, and the document is that from then on. */
  get text(): string {
    const source = this.#source;
    if (typeof source === "string") return source;
    const text = source.toString();
    // The places of another source.
    if (text.length !== source.length) this.#fields = undefined;
    this.#source = text;
    return text;
  }

  /** The text, where it is held as one; undefined where it is bytes still. */
  get held(): string | undefined {
    const source = this.#source;
    return typeof source === "string" ? source : undefined;
  }

  /** Its length as it is held: characters, or bytes. */
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

  /** Keeps the text alone: whoever asks for the value later has it parsed again. */
  forgetValue(): void {
    this.#value = undefined;
    this.#parsed = false;
  }

  /** Whether half a character may stand in it: none does where no character is spelled by its number. Looked for once: it may be long. */
  get mayHoldHalves(): boolean {
    this.#mayHoldHalves ??= this.#source.includes("\\u");
    return this.#mayHoldHalves;
  }

  /** Whether this stands in it, spelled just so. */
  includes(spelled: string): boolean {
    return this.#source.includes(spelled);
  }

  /** Whether bytes may stand in it, which their blocks and addresses say. */
  get mayHoldBytes(): boolean {
    return this.#source.includes("base64");
  }

  /** The text between two places of the document as it is held; of bytes, of the characters that begin there. */
  slice(from: number, to: number): string {
    const source = this.#source;
    if (typeof source === "string") return source.slice(from, to);
    return source.toString("utf8", characterAt(source, from), characterAt(source, to));
  }

  /** The value of top-level `field`, or its beginning of so many characters or bytes. This document must be an object. */
  textOf(field: string, most: number): string | undefined {
    const fields = this.#found();
    const range = findValue(this.#source, fields, field);
    return range && textAt(this.#source, range[0], Math.min(range[1], range[0] + most));
  }

  /** {@link editObject} of this document, which must be an object. */
  edit(edits: Edits): string {
    return wholeText(this.editInPieces(edits));
  }

  /** {@link edit}, not put together: what lies between the edits is not copied. The pieces are there until this document is forgotten. */
  editInPieces(edits: Edits): Piece[] {
    const fields = this.#found();
    return spliceFields(this.#source, fields, edits);
  }

  #found(): Fields {
    this.#fields ??= findFields(this.text);
    return this.#fields;
  }

  /** Becomes an empty object: for a document that nobody reads any more while others still hold it. Nor do they read pieces of it any more. */
  forget(): void {
    if (typeof this.#source !== "string") releaseWhole(this.#source);
    this.#source = "{}";
    this.forgetValue();
    this.#fields = undefined;
    this.#mayHoldHalves = undefined;
  }
}

/** One that is known to hold an object. */
export type ObjectText = JsonText<Record<string, unknown>>;

/** New values for top-level fields; `undefined` removes a field. */
export type Edits = Record<string, unknown>;

/** A field as it will be once the edits are made. */
export const editedField = (field: string, body: Record<string, unknown>, edits: Edits): unknown =>
  Object.hasOwn(edits, field) ? edits[field] : body[field];

/** The character or byte at a place; what JSON is built of is the same in both. */
const codeAt = (source: Piece, at: number): number =>
  typeof source === "string" ? source.charCodeAt(at) : (source[at] as number);

const cut = (source: Piece, from: number, to?: number): Piece =>
  typeof source === "string" ? source.slice(from, to) : source.subarray(from, to);

const textAt = (source: Piece, from: number, to: number): string =>
  typeof source === "string" ? source.slice(from, to) : source.toString("utf8", from, to);

/** The first place from `at` on where a character begins. */
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

/** Bytes that are looked at one by one behind a quote that is escaped: where one is, others are near, and to have each of them found takes longer. */
const NEAR_BYTES = 16;

/** {@link stringEnd} of bytes. */
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

/** {@link stringEnd} of text that is known to be valid JSON; elsewhere the text's own end stands for a missing one. */
function skipString(text: Piece, start: number): number {
  const end = stringEnd(text, start);
  return end < 0 ? text.length : end;
}

/** Index just after the value that starts at `start`. Of what is no valid JSON it says nothing; it ends there too. */
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
 * Where the top-level fields of an object stand in its text: for each field, in the text's order, the start of its key, the end of its key,
 * the start of its value and the end of its value; ends are the index just behind.
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

/** {@link editObject} where the fields have been found already, in pieces. */
function spliceFields(text: Piece, { at: places, close }: Fields, edits: Edits): Piece[] {
  const names = Object.keys(edits);
  const found: string[] = [];
  const pieces: Piece[] = [];
  /** How far the text has been taken over, and whether a field stands in what was. */
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
    // Removing takes the comma before the field along, or the one after it when it is the first left.
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

/** Sets a field that has a value: to whoever spreads an object, one that is not there is not the same as undefined. */
export function put<T extends object, K extends keyof T>(target: T, field: K, value: T[K] | undefined): void {
  if (value !== undefined) target[field] = value;
}

const NO_LIST: readonly unknown[] = [];

/** A value that should be a list; an empty one in the place of anything else. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : NO_LIST);

/** Whether a value is a list that holds nothing. */
export const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** The objects of a list; none of anything else. */
export const objectsOf = (value: unknown): Record<string, unknown>[] => listOf(value).filter(isObject);

/** What a table holds under a word of a stranger's: nothing of what every object has from its prototype, such as `constructor`. */
export const entryOf = <T>(table: Readonly<Record<string, T>>, word: string): T | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined;

/** Text in which a URL spells characters by their bytes; as it stands where it spells none. */
function unescaped(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    // A percent sign that is meant as one.
    return fragment;
  }
}

/** What a list holds at a place as a reference writes it: `0`, and not `00`. */
const itemOf = (list: readonly unknown[], place: string): unknown =>
  /^(?:0|[1-9]\d{0,8})$/.test(place) ? list[Number(place)] : undefined;

/** What a reference inside a document leads to, such as `#/$defs/point` or `#/anyOf/0` (RFC 6901, 4 and 6); undefined where it leads nowhere. */
export function atPointer(root: unknown, reference: string): unknown {
  let value = root;
  for (const step of unescaped(reference.slice(1)).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = itemOf(value, key);
    else value = isObject(value) ? entryOf(value, key) : undefined;
  }
  return value;
}

/** A value that should be a string; an empty one in the place of anything else. */
export const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A value that should be a number; undefined in the place of anything else. */
export const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
