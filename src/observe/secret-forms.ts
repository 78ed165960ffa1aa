/** The same with the digits of its escapes in small letters, as .NET and others write them (RFC 3986 2.1: either is right). */
const withSmallEscapes = (escaped: string) => escaped.replace(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase());

/** Encodings in which a secret may turn up in other people's words: of a URL, of a form, of a header, and quoted in JSON. */
function formsOf(secret: string): string[] {
  const base64 = Buffer.from(secret).toString("base64");
  const base64url = Buffer.from(secret).toString("base64url");
  const quoted = JSON.stringify(secret).slice(1, -1);
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const escaped = [encodeURIComponent(secret), form];
  // The padding of base64 is left off: it changes with what follows.
  return [
    ...new Set([secret, base64.replace(/=+$/, ""), base64url, ...escaped, ...escaped.map(withSmallEscapes), quoted]),
  ];
}

/** The forms of one secret more beside those known, the longest first: one may be the beginning of another, of which the rest would be left. */
export const withFormsOf = (secret: string, known: readonly string[]): readonly string[] =>
  [...new Set([...known, ...formsOf(secret)])].sort((one, other) => other.length - one.length);
