import { lendMemory } from "./memory.ts";

/** A piece is copied where the memory that it lies in is larger than this many times its size plus {@link SMALL_BYTES}. */
const MAX_COATING = 2;
/** Pieces that come to no more than this are joined, bytes. */
const SMALL_BYTES = 4 * 1024;

/**
 * Adds bytes that have arrived to `pieces`. The memory that is kept is in proportion to the number of bytes, however they were sent: tiny pieces are joined,
 * and a small piece does not keep the large memory in which it arrived.
 */
export function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  const last = pieces.length - 1;
  const before = last < 0 ? undefined : pieces[last];
  if (before && before.length + piece.length <= SMALL_BYTES) pieces[last] = Buffer.concat([before, piece]);
  else if (piece.buffer.byteLength > MAX_COATING * piece.length + SMALL_BYTES) pieces.push(Buffer.from(piece));
  else pieces.push(piece);
}

/** All pieces as one, in memory that is lent (see {@link lendMemory}). A single piece is returned as it is. */
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
