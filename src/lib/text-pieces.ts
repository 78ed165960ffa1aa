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

/** The code of the character, or the byte, at an index: the same for all characters that JSON is built of. */
export const codeAt = (source: Piece, at: number): number =>
  typeof source === "string" ? source.charCodeAt(at) : (source[at] as number);

/** A part of a piece: of bytes a view, which copies nothing. */
export const cut = (source: Piece, from: number, to?: number): Piece =>
  typeof source === "string" ? source.slice(from, to) : source.subarray(from, to);

/** {@link cut} as text. */
export const textAt = (source: Piece, from: number, to: number): string =>
  typeof source === "string" ? source.slice(from, to) : source.toString("utf8", from, to);

/** The first index from `at` on at which a character begins. */
export function characterAt(bytes: Buffer, at: number): number {
  let start = at;
  while (((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return start;
}
