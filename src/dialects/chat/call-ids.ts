const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 9;

/**
 * A tool-call id as exactly nine alphanumeric characters (Mistral, dialects.md 4.3 "ids"). The same id gives the same result, so that
 * a call and its result still fit together; an id that is in order already stays.
 */
export function shortCallId(id: string): string {
  if (/^[0-9A-Za-z]{9}$/.test(id)) return id;
  let rest = BigInt(Bun.hash(id));
  let short = "";
  for (let at = 0; at < LENGTH; at++) {
    short += ALPHABET[Number(rest % 62n)];
    rest /= 62n;
  }
  return short;
}
