import { BACKSLASH } from "../../lib/json-codes.ts";
import type { JsonText } from "../../lib/json-text.ts";

/**
 * A text of at most this length is looked at whole; of a longer one, {@link WINDOWS} samples, characters. Over 700 texts of many kinds that is within
 * 5 % of a look at the whole, where the rules below are within 20 % of the vocabulary.
 */
const WHOLE = 2_048;
/** Four by four. */
const WINDOWS = 32;
const WINDOW = 64;
const LETTER_U = 117;
/** Characters of one that is spelled by its number. */
const ESCAPE = 6;

const LETTER = 1;
const DIGIT = 2;
const SPACE = 3;
const MARK = 4;

const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[a-z]/i.test(character)) return LETTER;
  if (/\d/.test(character)) return DIGIT;
  return code <= 32 ? SPACE : MARK;
});

// Tokens of the o200k vocabulary for each thing that is seen, fitted to prose, code, JSON and seven languages: within 20 %. In hundredths: whole numbers
// are added up in half the time.
const HUNDREDTHS = 100;
const PER_WORD = 85;
const PER_LETTER_BEYOND_SIX = 28;
const PER_THREE_DIGITS = 120;
const PER_MARKS = 110;
const PER_FURTHER_MARK = 8;
const PER_FURTHER_SPACE = 5;
const PER_LATIN = 100;
const PER_OTHER_LETTER = 32;
const PER_IDEOGRAPH = 84;
const PER_ESCAPED = 80;

const FIRST_OTHER = 0x300;
const FIRST_IDEOGRAPH = 0x2e80;

/**
 * Where the vocabulary knows letters less well than others, from the first to behind the last, in hundredths: languages that it has seen little of (Punjabi,
 * Odia, Sinhala, Lao, Burmese, Ethiopic and syllables like it, Khmer, Tibetan, Mongolian), the points of Hebrew, and signs that no language is written in, of
 * which most are told byte by byte. Left at what a usual letter costs, a request of them would be let in for a tenth of its price.
 */
const RARE_LETTERS: readonly (readonly [first: number, behind: number, tokens: number])[] = [
  [0x300, 0x360, 100],
  [0x5a0, 0x5c0, 150],
  [0x700, 0x800, 150],
  [0x800, 0x900, 250],
  [0xa00, 0xa80, 55],
  [0xb00, 0xb80, 120],
  [0xd80, 0xe00, 64],
  [0xe80, 0xf00, 190],
  [0xf00, 0x1000, 150],
  [0x1000, 0x10a0, 60],
  [0x1100, 0x1200, 300],
  [0x1200, 0x1680, 225],
  [0x1680, 0x1780, 300],
  [0x1780, 0x1800, 64],
  [0x1800, 0x1e00, 280],
  [0x1f00, 0x2000, 150],
  [0x2080, 0x2300, 100],
  [0x2300, 0x2500, 150],
  [0x2500, 0x25a0, 60],
  [0x25a0, 0x27c0, 150],
  [0x27c0, 0x2e80, 280],
  [0x3400, 0x4dc0, 300],
  [0xa000, 0xac00, 290],
  // Halves of a pair: two are one character.
  [0xd800, 0xe000, 125],
  [0xe000, 0xfb00, 270],
  [0xfb00, 0xfe00, 200],
];

/** Letters that cost the same stand side by side, so many at the least: a bit count. */
const NEIGHBOURS_BITS = 5;
const OUTSIDE = new Uint16Array(0x10000 >> NEIGHBOURS_BITS);

function fillLetters(first: number, behind: number, tokens: number): void {
  OUTSIDE.fill(tokens, first >> NEIGHBOURS_BITS, behind >> NEIGHBOURS_BITS);
}

// Filled a range at a time, and not asked for letter by letter: that would take a tenth of a start.
fillLetters(0, FIRST_OTHER, PER_LATIN);
fillLetters(FIRST_OTHER, FIRST_IDEOGRAPH, PER_OTHER_LETTER);
fillLetters(FIRST_IDEOGRAPH, 0x10000, PER_IDEOGRAPH);
for (const [first, behind, tokens] of RARE_LETTERS) fillLetters(first, behind, tokens);

const outsideAscii = (code: number): number => OUTSIDE[code >> NEIGHBOURS_BITS] as number;

/** A character that is spelled by its number, as PHP and Python spell all outside of ASCII, and Go what stands for something in HTML. */
const escaped = (code: number): number => (code < 128 ? PER_ESCAPED : outsideAscii(code));

/** What the first character of a run costs, by its kind. */
const FIRST = [0, PER_WORD, PER_THREE_DIGITS, 0, PER_MARKS];

/** What a further character of a run of its kind costs, the `run`th. */
function insideRun(kind: number, run: number): number {
  if (kind === LETTER) return run > 6 ? PER_LETTER_BEYOND_SIX : 0;
  if (kind === DIGIT) return run % 3 === 1 ? PER_THREE_DIGITS : 0;
  return kind === MARK ? PER_FURTHER_MARK : PER_FURTHER_SPACE;
}

/** Runs longer than this go on as one of these lengths: a seventh letter costs as the eighth does, a fourth digit as the seventh. */
const LONGEST_RUN = 7;
const DIGITS_AT_ONCE = 3;
const KIND_COUNT = 5;
const STATE_BITS = 8;
const STATE = (1 << STATE_BITS) - 1;

/** Where a reader stands who has read `run` characters of one kind: the beginning of its row in {@link STEPS}. */
const stateOf = (kind: number, run: number): number => (run * KIND_COUNT + kind) * KIND_COUNT;
const NO_RUN = 0;

/**
 * The rules as a table: for each place to stand and the kind of the next character, what that costs and where one stands behind it. Language changes its
 * kind at every few characters, which a processor does not foresee: looked up it takes a third of the time that deciding takes.
 */
const STEPS = new Int32Array(stateOf(MARK, LONGEST_RUN) + KIND_COUNT);
for (let run = 0; run <= LONGEST_RUN; run++) {
  for (let last = 0; last < KIND_COUNT; last++) {
    for (let kind = LETTER; kind <= MARK; kind++) {
      const goesOn = kind === last && run > 0;
      const further = run < LONGEST_RUN ? run + 1 : run + 1 - DIGITS_AT_ONCE;
      const next = goesOn ? (kind === DIGIT ? further : Math.min(run + 1, LONGEST_RUN)) : 1;
      const cost = goesOn ? insideRun(kind, run + 1) : (FIRST[kind] as number);
      STEPS[stateOf(last, run) + kind] = (cost << STATE_BITS) | stateOf(kind, next);
    }
  }
}

/** Where one stands at `at`: behind one character of its run, whose length nobody has counted. */
function stateAt(text: string, at: number): number {
  const code = at > 0 ? text.charCodeAt(at - 1) : FIRST_OTHER;
  return code < 128 ? stateOf(KINDS[code] as number, 1) : NO_RUN;
}

/** o200k tokens of the characters from `from` up to `to`, roughly, in hundredths: one pass, no memory. */
function scan(text: string, from: number, to: number): number {
  let tokens = 0;
  let state = stateAt(text, from);
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at);
    if (code >= 128) {
      tokens += outsideAscii(code);
      state = NO_RUN;
    } else if (code === BACKSLASH && text.charCodeAt(at + 1) === LETTER_U) {
      // What stands before the first one is the rest of another, in the midst of which a sample may begin.
      if (at - from < ESCAPE) tokens = 0;
      tokens += escaped(Number.parseInt(text.slice(at + 2, at + ESCAPE), 16));
      at += ESCAPE - 1;
      state = NO_RUN;
    } else {
      const step = STEPS[state + (KINDS[code] as number)] as number;
      tokens += step >> STATE_BITS;
      state = step & STATE;
      // Two are one of the text: a number behind them is language, as in JSON that a tool has printed.
      if (code === BACKSLASH && text.charCodeAt(at + 1) === BACKSLASH) at++;
    }
  }
  return tokens;
}

/** Whether the character at `at` is that of a number by which another one is spelled. */
const isEscape = (text: string, at: number, code: number): boolean =>
  code === BACKSLASH && text.charCodeAt(at + 1) === LETTER_U;

/**
 * {@link scan} of four windows, added up. A look-up waits for the one before it, and not for those of the other three: side by side they take two thirds
 * of the time. Negative where it takes more than look-ups: a character outside of ASCII, or one that is spelled by its number.
 */
function scanSideBySide(text: string, a: number, b: number, c: number, d: number): number {
  let tokens = 0;
  let inA = stateAt(text, a);
  let inB = stateAt(text, b);
  let inC = stateAt(text, c);
  let inD = stateAt(text, d);
  for (let at = 0; at < WINDOW; at++) {
    const codeA = text.charCodeAt(a + at);
    const codeB = text.charCodeAt(b + at);
    const codeC = text.charCodeAt(c + at);
    const codeD = text.charCodeAt(d + at);
    if ((codeA | codeB | codeC | codeD) >= 128) return -1;
    if (isEscape(text, a + at, codeA) || isEscape(text, b + at, codeB)) return -1;
    if (isEscape(text, c + at, codeC) || isEscape(text, d + at, codeD)) return -1;
    const stepA = STEPS[inA + (KINDS[codeA] as number)] as number;
    const stepB = STEPS[inB + (KINDS[codeB] as number)] as number;
    const stepC = STEPS[inC + (KINDS[codeC] as number)] as number;
    const stepD = STEPS[inD + (KINDS[codeD] as number)] as number;
    tokens += (stepA >> STATE_BITS) + (stepB >> STATE_BITS) + (stepC >> STATE_BITS) + (stepD >> STATE_BITS);
    inA = stepA & STATE;
    inB = stepB & STATE;
    inC = stepC & STATE;
    inD = stepD & STATE;
  }
  return tokens;
}

/** A text, or one of which nobody has made characters yet. */
type Sliced = string | Pick<JsonText, "slice">;

/** {@link scan} of a stretch whose run is told by the character before it. */
function scanStretch(text: Sliced, from: number, to: number): number {
  // Cut out of a text the stretches would cost several times what is seen in them.
  if (typeof text === "string") return scan(text, from, to);
  // By itself: of bytes, the place before may be in the midst of a character, and nothing is there.
  const before = from > 0 ? text.slice(from - 1, from) : "";
  const stretch = before + text.slice(from, to);
  return scan(stretch, before.length, stretch.length);
}

/** A window of fewer hundredths than this is nothing but marks or blanks: of language each is of some 1,200. */
const SPARSE = 1_000;
/** Marks of one kind, such as a line of dashes, are few tokens however many they are. Others, behind so many that stand together in code, are one each, nearly. */
const MARKS_TOGETHER = 4;
const PER_UNLIKE_MARK = 60;

/** What marks that are not like the ones before them cost beside what {@link scan} takes them for. */
function unlikeMarks(window: string): number {
  let tokens = 0;
  let run = 0;
  for (let at = 0; at < window.length; at++) {
    const code = window.charCodeAt(at);
    run = code < 128 && KINDS[code] === MARK ? run + 1 : 0;
    if (run > MARKS_TOGETHER && code !== window.charCodeAt(at - 1)) tokens += PER_UNLIKE_MARK;
  }
  return tokens;
}

/** {@link scan} of one window, which is looked at once more where it holds so little that it is no language. */
function scanWindow(text: Sliced, start: number): number {
  const tokens = scanStretch(text, start, start + WINDOW);
  return tokens < SPARSE ? tokens + unlikeMarks(text.slice(start, start + WINDOW)) : tokens;
}

/** {@link scan} in whole tokens, of samples where the stretch is long: one of each of its shares, which are all of the same length, at a place that chance chooses. */
export function roughTokens(text: Sliced, from: number, to: number): number {
  const length = to - from;
  if (length <= WHOLE) return scanStretch(text, from, to) / HUNDREDTHS;
  const share = length / WINDOWS;
  // Nobody can write what costs little just where it is looked, and much elsewhere, nor find out by asking where that is.
  const startOf = (window: number) => from + Math.floor(window * share + Math.random() * (share - WINDOW));
  let tokens = 0;
  for (let window = 0; window < WINDOWS; window += 4) {
    const [a, b, c, d] = [startOf(window), startOf(window + 1), startOf(window + 2), startOf(window + 3)] as const;
    const found = typeof text === "string" ? scanSideBySide(text, a, b, c, d) : -1;
    if (found >= 4 * SPARSE) tokens += found;
    else for (const start of [a, b, c, d]) tokens += scanWindow(text, start);
  }
  return (tokens * length) / (WINDOWS * WINDOW * HUNDREDTHS);
}
