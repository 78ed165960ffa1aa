/** Sizes of the two pieces of memory that are lent again and again to whoever needs some for a moment, bytes; a need for more gets memory of its own. */
const SMALL_BYTES = 64 * 1024;
export const LARGEST_LENT_BYTES = 1024 * 1024;
const small = Buffer.allocUnsafeSlow(SMALL_BYTES);
/** Made when it is first needed. */
let large: Buffer | undefined;

/** At least `size` bytes of memory, with unknown content. The caller must be done with it before it calls anything that may borrow memory too. */
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
 * Frees the memory of bytes that came from a socket, which nobody may read any more: a socket gives every piece memory of its own. Freed at once, it is used
 * again while it is still in the processor's cache. A garbage collection would free it later, and half of it to the system.
 */
export function release(bytes: Uint8Array): void {
  if (bytes.buffer instanceof ArrayBuffer) bytes.buffer.transfer(0);
}

/** {@link release} for bytes that reach to the end of their memory. Otherwise that may also hold a further request, which came in the same piece. */
export function releaseWhole(bytes: Uint8Array): void {
  if (bytes.byteOffset + bytes.length === bytes.buffer.byteLength) release(bytes);
}
