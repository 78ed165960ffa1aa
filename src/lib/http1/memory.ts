/** What needs memory of up to these sizes for a moment takes the same two pieces of it in turn, bytes; what needs more has its own. */
const SMALL_BYTES = 64 * 1024;
export const LARGEST_LENT_BYTES = 1024 * 1024;
const small = Buffer.allocUnsafeSlow(SMALL_BYTES);
/** Made for the first who needs it. */
let large: Buffer | undefined;

/** At least so many bytes of memory, as somebody else left it; to be used up before anything else is called that may ask for some. */
export function lendMemory(size: number): Buffer {
  if (size <= SMALL_BYTES) return small;
  if (size > LARGEST_LENT_BYTES) return Buffer.allocUnsafeSlow(size);
  large ??= Buffer.allocUnsafeSlow(LARGEST_LENT_BYTES);
  return large;
}

/** Whether these bytes lie in memory that is lent to others. */
export function isLent({ buffer }: Uint8Array): boolean {
  return buffer === small.buffer || buffer === large?.buffer;
}

/**
 * Gives back the memory of bytes that came from a socket, which nobody looks at any more: a socket gives every piece memory of its own. So it is used
 * again while it is warm. A collection would give it back cold, and half of it to the system.
 */
export function release(bytes: Uint8Array): void {
  if (bytes.buffer instanceof ArrayBuffer) bytes.buffer.transfer(0);
}

/** {@link release} of what was read of a piece to its end: of a request that came along with others the memory is theirs too. */
export function releaseWhole(bytes: Uint8Array): void {
  if (bytes.byteOffset + bytes.length === bytes.buffer.byteLength) release(bytes);
}
