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
