import { lendMemory } from "./memory.ts";

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

/** All pieces as one, in memory that is lent: see {@link lendMemory}. One piece is given as it is. */
export function joinPieces(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0] as Uint8Array;
  const size = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const memory = lendMemory(size);
  let at = 0;
  for (const piece of pieces) {
    memory.set(piece, at);
    at += piece.length;
  }
  return memory.subarray(0, size);
}
