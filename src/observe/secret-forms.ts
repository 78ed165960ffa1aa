/** URL-encoded text with its percent escapes in small letters, as .NET and others write them (RFC 3986 2.1 allows either). */
const withSmallEscapes = (escaped: string) => escaped.replace(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase());

const quote = (text: string) => JSON.stringify(text).slice(1, -1);
const toDigits = (character: string) => character.charCodeAt(0).toString(16);

/**
 * A text as it may stand in a JSON string: plainly; with slashes escaped (PHP); with `<`, `>` and `&` escaped (Go); with these, quotes and `+` escaped in
 * capital digits (.NET). And each of them quoted once more, for where the log quotes a vendor's words that quote another vendor's.
 */
function quotedForms(text: string): string[] {
  const quoted = quote(text);
  const once = [
    quoted,
    quoted.replaceAll("/", "\\/"),
    quoted.replace(/[<>&]/g, (character) => `\\u00${toDigits(character)}`),
    text.replaceAll("\\", "\\\\").replace(/[<>&+'"`]/g, (character) => `\\u00${toDigits(character).toUpperCase()}`),
  ];
  return [...once, ...once.map(quote)];
}

/** The forms in which a secret may turn up in a text by others: plain, encoded for a URL, a form or a header (base64), and quoted in JSON. */
function formsOf(secret: string): string[] {
  // Without the padding of base64, which is not there where more text was encoded with it.
  const base64 = Buffer.from(secret).toString("base64").replace(/=+$/, "");
  const base64url = Buffer.from(secret).toString("base64url");
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const escaped = [encodeURIComponent(secret), form];
  const quoted = [secret, base64].flatMap(quotedForms);
  return [...new Set([secret, base64, base64url, ...escaped, ...escaped.map(withSmallEscapes), ...quoted])];
}

/** The known forms and those of one more secret, longest first: where one is the beginning of another, removing it first would leave the rest of that. */
export const withFormsOf = (secret: string, known: readonly string[]): readonly string[] =>
  [...new Set([...known, ...formsOf(secret)])].sort((one, other) => other.length - one.length);
