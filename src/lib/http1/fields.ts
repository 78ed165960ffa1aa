import type { Text } from "../text-pieces.ts";
import { isLent, LARGEST_LENT_BYTES, lendMemory } from "./memory.ts";

/** Thrown for a message that is not valid HTTP/1.1: nothing that follows on its connection can be trusted. */
export class MalformedMessage extends Error {
  override readonly name = "MalformedMessage";
}

/** What the last line of a head ends in, and the empty line behind it; and the same where lines end in a line feed alone. */
export const HEAD_END = Buffer.from("\r\n\r\n");
export const BARE_HEAD_END = Buffer.from("\n\n");

/** Fits a `connection` field that says that the connection ends with this message (RFC 9112, 9.6). */
export const CLOSES = /(?:^|,)\s*close\s*(?:,|$)/i;

/** Blanks that may stand around a value (RFC 9110, 5.5), and the CR at its end. Not `trim`, which also removes a no-break space: other readers would not. */
const isBlank = (code: number): boolean => code === 32 || code === 9 || code === 13;

/** Header fields, asked for by their names in lower case; null for one that did not come. */
export type Fields = { get(name: string): string | null; has(name: string): boolean };

/** The text to search for to find a field, by the field's name: each is made once. */
const needles = new Map<string, string>();

function needleOf(name: string): string {
  let needle = needles.get(name);
  if (needle === undefined) {
    needle = `\n${name}:`;
    needles.set(name, needle);
  }
  return needle;
}

/** The header fields of one message, held as the text that came. A field is searched for when it is asked for: of dozens that are sent only a few are read. */
export class FieldLines implements Fields {
  /** {@link #lines} in lower case, for names; latin-1 has the same length in both. */
  readonly #names: string;
  readonly #lines: string;

  /** `lines`: each line after a line feed, with or without a carriage return at its end. They must have been checked. */
  constructor(lines: string) {
    this.#lines = lines;
    this.#names = lines.toLowerCase();
  }

  /** No field came at all. */
  get isEmpty(): boolean {
    return this.#lines === "";
  }

  /** A field by its name in lower case, its values joined by commas where it came more than once; null when it did not come. */
  get(name: string): string | null {
    const needle = needleOf(name);
    let at = this.#names.indexOf(needle);
    if (at < 0) return null;
    let value = this.#valueAt(at + needle.length);
    for (;;) {
      at = this.#names.indexOf(needle, at + needle.length);
      if (at < 0) return value;
      value += `, ${this.#valueAt(at + needle.length)}`;
    }
  }

  has(name: string): boolean {
    return this.#names.includes(needleOf(name));
  }

  /** How often a field came. */
  count(name: string): number {
    const needle = needleOf(name);
    let found = 0;
    for (let at = this.#names.indexOf(needle); at >= 0; at = this.#names.indexOf(needle, at + needle.length)) found++;
    return found;
  }

  /** Every field in its order, the name in lower case. */
  *entries(): Generator<[name: string, value: string]> {
    for (let at = this.#names.indexOf("\n"); at >= 0; at = this.#names.indexOf("\n", at + 1)) {
      const colon = this.#names.indexOf(":", at);
      yield [this.#names.slice(at + 1, colon), this.#valueAt(colon + 1)];
    }
  }

  #valueAt(start: number): string {
    const lines = this.#lines;
    let from = start;
    let end = lines.indexOf("\n", start);
    if (end < 0) end = lines.length;
    while (from < end && isBlank(lines.charCodeAt(from))) from++;
    while (end > from && isBlank(lines.charCodeAt(end - 1))) end--;
    return lines.slice(from, end);
  }
}

/** Characters that may not stand in a field's value (RFC 9110, 5.5): they would begin another field, or do not fit into one byte. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Header fields as lines. Throws TypeError for a value that cannot be written, without repeating it. */
export function writeFields(fields: Readonly<Record<string, string>>): string {
  let lines = "";
  for (const name in fields) {
    const value = fields[name] as string;
    if (NO_VALUE.test(value)) throw new TypeError(`The header ${name} holds characters that a header cannot carry.`);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** What is left of a message after its first `written` bytes, copied where it lies in memory that is lent (see {@link lendMemory}). */
export function restOf(message: Uint8Array, written: number): Uint8Array {
  const rest = message.subarray(written);
  return isLent(rest) ? Buffer.from(rest) : rest;
}

/**
 * The bytes of a head (latin-1) and of the body after it, which is `length` bytes of UTF-8. They are valid until the next call only: what cannot be written
 * at once is to be kept by {@link restOf}.
 */
export function writeMessage(head: string, body: Text, length: number): Uint8Array {
  const size = head.length + length;
  const bytes = lendMemory(size);
  let at = bytes.write(head, 0, "latin1");
  if (typeof body === "string") bytes.write(body, at, "utf8");
  else for (const piece of body) at += put(bytes, piece, at);
  return bytes.subarray(0, size);
}

/** Writes a piece at an index. Returns its length, bytes. */
function put(bytes: Buffer, piece: string | Uint8Array, at: number): number {
  if (typeof piece === "string") return bytes.write(piece, at, "utf8");
  bytes.set(piece, at);
  return piece.length;
}

/** Most bytes that UTF-8 takes for one UTF-16 unit of a string. */
const MOST_BYTES = 3;
/** Room for the line with a chunk's size, bytes. */
const SIZE_ROOM = 16;
const HEX_DIGITS = "0123456789abcdef";

/**
 * A text as one chunk of a body (RFC 9112, 7.1), with `head` before it and `end` after it, both latin-1. The bytes are valid until the next call only, as
 * those of {@link writeMessage}.
 */
export function writeChunk(head: string, text: string, end: string): Uint8Array {
  const room = head.length + SIZE_ROOM;
  const most = room + text.length * MOST_BYTES + end.length;
  if (most > LARGEST_LENT_BYTES) {
    const length = Buffer.byteLength(text);
    return writeMessage(`${head}${length.toString(16)}\r\n`, [text, end], length + end.length);
  }
  const bytes = lendMemory(most);
  // The text is written first and its size before it, backwards: to measure it in advance would be to go through it twice.
  const length = bytes.write(text, room, "utf8");
  let from = room;
  bytes[--from] = 10;
  bytes[--from] = 13;
  for (let left = length; left > 0 || from === room - 2; left >>>= 4) bytes[--from] = HEX_DIGITS.charCodeAt(left & 15);
  if (head !== "") {
    from -= head.length;
    bytes.write(head, from, "latin1");
  }
  let to = room + length;
  for (let at = 0; at < end.length; at++) bytes[to++] = end.charCodeAt(at);
  return bytes.subarray(from, to);
}
