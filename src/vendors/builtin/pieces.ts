/** A word, or at most 24 characters of one, with the blanks before it; or the blanks at the end. Text without blanks comes in pieces too. */
const PIECE = /\s*\S{1,24}|\s+$/gu;

/**
 * Text cut into word-sized pieces, each with the blanks before it; joined they are the text again. A piece is what the built-in models
 * count as a token (contract 10).
 */
export function piecesOf(text: string): string[] {
  return text.match(PIECE) ?? [];
}

/** Tokens of a text, as the built-in models count: its pieces. */
export function countTokens(text: string): number {
  return piecesOf(text).length;
}

/** Text cut every `size` characters (a positive integer), never inside a surrogate pair. */
export function slicesOf(text: string, size: number): string[] {
  const slices: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + size, text.length);
    const last = text.charCodeAt(end - 1);
    if (last >= 0xd800 && last <= 0xdbff && end < text.length) end++;
    slices.push(text.slice(at, end));
    at = end;
  }
  return slices;
}
