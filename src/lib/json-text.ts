import { releaseWhole } from "./http1/memory.ts";
import { BACKSLASH, COLON, COMMA, isSpace, OPEN_OBJECT, QUOTE } from "./json-codes.ts";
import { skipString, skipValue } from "./json-ends.ts";
import { characterAt, codeAt, cut, type Piece, textAt, wholeText } from "./text-pieces.ts";

/**
 * A JSON document as it came and, once somebody asks, as a value: parsed once, lazily. One that came as bytes stays bytes while nobody needs the text:
 * to decode a long one costs more than everything else that is done with it.
 */
export class JsonText<Value = unknown> {
  #source: Piece;
  #value: Value | undefined;
  #parsed = false;
  /** Where the fields are in the source, in the form that it has now. */
  #fields: FieldPlaces | undefined;
  #mayHoldHalves: boolean | undefined;

  /**
   * `fields` (as by {@link findFields}), `value` and `mayHoldHalves`: what the caller knows of the text already. Bytes must be UTF-8, and belong to this
   * document from now on.
   */
  constructor(source: Piece, fields?: FieldPlaces, value?: Value, mayHoldHalves?: boolean) {
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

  #found(): FieldPlaces {
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

/**
 * Where the top-level fields of an object stand in its text. `at` has four indices for each field, in the order of the text: start and end of its key, start
 * and end of its value; an end is the index just after.
 */
export type FieldPlaces = {
  at: number[];
  /** Index of the brace that closes the object. */
  close: number;
};

/** The fields of `text`, which must already be known to parse as an object. */
function findFields(text: string): FieldPlaces {
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
function spliceFields(text: Piece, { at: places, close }: FieldPlaces, edits: Edits): Piece[] {
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
function findValue(text: Piece, { at }: FieldPlaces, field: string): readonly [start: number, end: number] | undefined {
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
