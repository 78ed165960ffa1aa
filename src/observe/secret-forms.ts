/** The same with the digits of its escapes in small letters, as .NET and others write them (RFC 3986 2.1: either is right). */
const withSmallEscapes = (escaped: string) => escaped.replace(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase());

const quote = (text: string) => JSON.stringify(text).slice(1, -1);
const toDigits = (character: string) => character.charCodeAt(0).toString(16);

/**
 * A text quoted in JSON, as most write it, with slashes escaped (PHP), with what HTML is made of escaped (Go), and that in capitals with quotes and plus
 * (.NET); and each quoted once more, as where the log quotes a vendor's words that quote another vendor's.
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

/** Encodings in which a secret may turn up in other people's words: of a URL, of a form, of a header, and quoted in JSON. */
function formsOf(secret: string): string[] {
  // The padding of base64 is left off: it changes with what follows.
  const base64 = Buffer.from(secret).toString("base64").replace(/=+$/, "");
  const base64url = Buffer.from(secret).toString("base64url");
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const escaped = [encodeURIComponent(secret), form];
  const quoted = [secret, base64].flatMap(quotedForms);
  return [...new Set([secret, base64, base64url, ...escaped, ...escaped.map(withSmallEscapes), ...quoted])];
}

/** The forms of one secret more beside those known, the longest first: one may be the beginning of another, of which the rest would be left. */
export const withFormsOf = (secret: string, known: readonly string[]): readonly string[] =>
  [...new Set([...known, ...formsOf(secret)])].sort((one, other) => other.length - one.length);
