import { BACKSLASH, CLOSE_LIST, CLOSE_OBJECT, COMMA, isSpace, OPEN_LIST, OPEN_OBJECT, QUOTE } from "./json-codes.ts";
import { codeAt, type Piece } from "./text-pieces.ts";

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
export function skipString(text: Piece, start: number): number {
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
