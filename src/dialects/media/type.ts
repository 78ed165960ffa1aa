/**
 * The media type that the first bytes of base64 data show, or undefined when they are none of the known ones.
 * Clients often name the wrong one, and vendors refuse a mismatch (dialects.md 4.8 #46).
 */
export function sniffMediaType(data: string): string | undefined {
  if (data.startsWith("iVBORw0KGgo")) return "image/png";
  if (data.startsWith("/9j/")) return "image/jpeg";
  if (data.startsWith("R0lGOD")) return "image/gif";
  // RIFF, four bytes of length, WEBP: the letters EBP fall together on base64 characters 12 to 15.
  if (data.startsWith("UklGR") && data.slice(12, 16) === "RUJQ") return "image/webp";
  if (data.startsWith("JVBERi")) return "application/pdf";
  return undefined;
}

/** The media type to write for base64 data: the one its bytes show, else `said`, without parameters and in its common spelling. */
export function mediaTypeOf(said: string, data: string): string {
  const bare = (said.split(";")[0] ?? "").trim().toLowerCase();
  return sniffMediaType(data) ?? (bare === "image/jpg" ? "image/jpeg" : bare);
}

const utf8 = new TextDecoder();

/** Whether a file of this type can be read as text. */
export const isTextType = (mediaType: string): boolean =>
  mediaType.startsWith("text/") || mediaType === "application/json";

/** The text of a file of this type, given as base64; undefined for a type that is not text. */
export function textOfMedia(mediaType: string, data: string): string | undefined {
  return isTextType(mediaType) ? utf8.decode(Buffer.from(data, "base64")) : undefined;
}
