/** Encodings in which a secret may turn up in other people's words: of a URL, of a header, and quoted in JSON. */
export function formsOf(secret: string): string[] {
  const base64 = Buffer.from(secret).toString("base64");
  const url = Buffer.from(secret).toString("base64url");
  const quoted = JSON.stringify(secret).slice(1, -1);
  // The padding of base64 is left off: it changes with what follows.
  return [...new Set([secret, base64.replace(/=+$/, ""), url, encodeURIComponent(secret), quoted])];
}
