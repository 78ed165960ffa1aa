/** A piece keeps the memory of all that it came in up to so many times its size, and this, bytes. */
const MAX_COATING = 2;
const SMALL_BYTES = 4 * 1024;

/**
 * Adds bytes that came to those that came before. What is kept for them is in proportion to their number, however they were sent: neither are tiny
 * pieces kept each by itself, nor the lines of chunks around them.
 */
export function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  const last = pieces.length - 1;
  const before = last < 0 ? undefined : pieces[last];
  if (before && before.length + piece.length <= SMALL_BYTES) pieces[last] = Buffer.concat([before, piece]);
  else if (piece.buffer.byteLength > MAX_COATING * piece.length + SMALL_BYTES) pieces.push(Buffer.from(piece));
  else pieces.push(piece);
}
