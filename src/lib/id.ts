const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Width of a millisecond time in base62: enough until the year 8888. */
const TIME_WIDTH = 8;
/** Random characters of an identifier: 95 bits. */
const RANDOM_WIDTH = 16;
/** How many random characters are drawn from the secure source at once, for {@link randomName}. */
const POOLED = 1_536;

/** `length` random base62 characters from the system's secure source; no modulo bias (bytes of 248 and above are drawn again). */
export function randomBase62(length: number): string {
  const codes = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const bytes = crypto.getRandomValues(new Uint8Array(length + 8));
    for (let at = 0; at < bytes.length && filled < length; at++) {
      const byte = bytes[at] as number;
      if (byte < 248) codes[filled++] = BASE62.charCodeAt(byte % 62);
    }
  }
  return codes.toString("latin1");
}

/** A number (a non-negative integer below 2^53) as base62, left-padded with zeros to `width`. */
export function toBase62(value: number, width: number): string {
  let text = "";
  for (let rest = value; rest > 0; rest = Math.floor(rest / 62)) text = BASE62[rest % 62] + text;
  return text.padStart(width, "0");
}

/** The number that `text` spells in base62 from `start` to its end; NaN for any other character. At most 8 digits. */
export function fromBase62(text: string, start: number): number {
  let value = 0;
  for (let at = start; at < text.length; at++) {
    const digit = BASE62.indexOf(text[at] as string);
    value = digit < 0 ? Number.NaN : value * 62 + digit;
  }
  return value;
}

let pool = "";
let poolAt = 0;
let stampAt = -1;
let stamp = "";

/** `length` random base62 characters, at most 64, cut from a stock that is drawn in advance: for names that others may see, not for secrets. */
export function randomName(length: number): string {
  if (poolAt + length > pool.length) {
    pool = randomBase62(POOLED);
    poolAt = 0;
  }
  poolAt += length;
  return pool.slice(poolAt - length, poolAt);
}

/**
 * A fresh identifier `<prefix>_<24 base62>`: 8 characters of the time in milliseconds, then 16 random ones. Unique, and cannot be guessed. Identifiers of
 * one prefix sort by the time at which they were made, so that rows keyed by them are appended to a table, not scattered over it.
 */
export function newId(prefix: string): string {
  const now = Date.now();
  if (now !== stampAt) {
    stampAt = now;
    stamp = toBase62(now, TIME_WIDTH);
  }
  return `${prefix}_${stamp}${randomName(RANDOM_WIDTH)}`;
}

/** `length` base62 characters, at most 21, made of a 128-bit hash of a text: the same for the same text. Not for secrets: the hash is no cryptographic one. */
export function hashLetters(text: string, length: number): string {
  let rest = BigInt(Bun.hash(text)) + (BigInt(Bun.hash(text, 1)) << 64n);
  let letters = "";
  for (let at = 0; at < length; at++) {
    letters += BASE62[Number(rest % 62n)];
    rest /= 62n;
  }
  return letters;
}
