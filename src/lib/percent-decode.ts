/** A text with its percent-encoding (UTF-8) decoded. One with a percent sign that encodes nothing, or with other bytes, is returned as it stands. */
export function percentDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Whoever wrote it did not encode it.
    return text;
  }
}
