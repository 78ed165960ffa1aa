const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** `length` random base62 characters from the system's secure source; no modulo bias (bytes of 248 and above are drawn again). */
export function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

/** A number as base62, left-padded with zeros to `width`. */
export function toBase62(value: number, width: number): string {
  let text = "";
  for (let rest = value; rest > 0; rest = Math.floor(rest / 62)) text = BASE62[rest % 62] + text;
  return text.padStart(width, "0");
}

let pool = "";
let poolAt = 0;

/** A fresh identifier `<prefix>_<24 base62>`: unique, not secret (drawn from a pool refilled from the secure source). */
export function newId(prefix: string): string {
  if (poolAt + 24 > pool.length) {
    pool = randomBase62(24 * 64);
    poolAt = 0;
  }
  poolAt += 24;
  return `${prefix}_${pool.slice(poolAt - 24, poolAt)}`;
}
