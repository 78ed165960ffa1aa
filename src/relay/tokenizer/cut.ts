/**
 * Longest run of characters of one kind that is encoded in one piece: encoding costs the square of a run's length. No token of the
 * vocabulary is longer than 128 characters, those of blanks and rules; no word of a language is longer than 64.
 */
export const MAX_RUN = { word: 64, marks: 128 } as const;

const WORD = 1;
const DIGIT = 2;
const MARK = 3;

/** Kinds of the ASCII characters. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[a-z]/i.test(character)) return WORD;
  return /\d/.test(character) ? DIGIT : MARK;
});

const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff;
const isBlank = (code: number) => code <= 32;
/** Punctuation of Chinese and Japanese, and the full-width forms of ASCII's. */
const isEasternMark = (code: number) => (code >= 0x3000 && code <= 0x303f) || (code >= 0xff00 && code <= 0xff0f);

/** Whether a word surely ends before `at`: a blank or an eastern mark after something that is neither. */
function isBorder(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  const before = text.charCodeAt(at - 1);
  if (code === 32) return !isBlank(before);
  return isEasternMark(code) && before >= 128 && !isEasternMark(before);
}

/** Where to cut a run that goes from after `from` to `at`: at its last sure border, which costs nothing, else right at `at`. */
function findCut(text: string, from: number, at: number): number {
  for (let border = at; border > from; border--) if (isBorder(text, border)) return border;
  return at;
}

/**
 * `text` cut inside every run longer than {@link MAX_RUN} that the vocabulary might take for one word: letters, or anything but
 * letters and digits. What lies outside ASCII can be part of either. Usual texts come back whole, or cut where a word ends anyway.
 * `wide` counts the characters outside ASCII. Linear in the text's length.
 */
export function cutRuns(text: string): { pieces: string[]; wide: number } {
  const pieces: string[] = [];
  let from = 0;
  let kind = 0;
  let run = 0;
  let wide = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // What lies outside ASCII goes on as what it follows, and behind a digit as a word.
    const own = code < 128 ? (KINDS[code] ?? MARK) : kind === DIGIT ? WORD : kind;
    if (code >= 128) wide++;
    if (own !== kind || own === DIGIT) run = 0;
    kind = own;
    run++;
    if (run > (kind === MARK ? MAX_RUN.marks : MAX_RUN.word) && !isLowSurrogate(code)) {
      const cut = findCut(text, at - run + 1, at);
      pieces.push(text.slice(from, cut));
      from = cut;
      run = at - cut + 1;
    }
  }
  pieces.push(from === 0 ? text : text.slice(from));
  return { pieces, wide };
}
