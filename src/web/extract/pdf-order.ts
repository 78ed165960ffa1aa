/** A piece of a page's text as the library tells it. */
export type Piece = {
  str?: unknown;
  dir?: unknown;
  hasEOL?: unknown;
  transform?: unknown;
  width?: unknown;
  height?: unknown;
};

const placeOf = ({ transform }: Piece, at: 4 | 5): number | undefined =>
  Array.isArray(transform) && typeof transform[at] === "number" ? transform[at] : undefined;

/** How far above the page's lower edge a piece's line is; undefined where the library does not say. */
export const bottomOf = (piece: Piece): number | undefined => placeOf(piece, 5);

const leftOf = (piece: Piece): number | undefined => placeOf(piece, 4);

/** What a piece says. */
export const textOf = ({ str }: Piece): string => (typeof str === "string" ? str : "");
const isBlank = (piece: Piece): boolean => textOf(piece).trim() === "";
const isLeftward = ({ dir }: Piece): boolean => dir === "rtl";

/** The pieces, each run of those of one direction reversed (`leftward`: which direction). Blanks between two pieces of a run belong to it. */
function turnRuns(pieces: readonly Piece[], leftward: boolean): Piece[] {
  const turned: Piece[] = [];
  let run: Piece[] = [];
  let blanks: Piece[] = [];
  const flush = () => {
    turned.push(...run.reverse(), ...blanks);
    run = [];
    blanks = [];
  };
  for (const piece of pieces) {
    if (isBlank(piece)) blanks.push(piece);
    else if (isLeftward(piece) === leftward) {
      if (run.length === 0) turned.push(...blanks);
      else run.push(...blanks);
      blanks = [];
      run.push(piece);
    } else {
      flush();
      turned.push(piece);
    }
  }
  flush();
  return turned;
}

/** Signs whose form depends on the direction. */
const MIRRORED: Readonly<Record<string, string>> = { "(": ")", ")": "(", "[": "]", "]": "[", "{": "}", "}": "{" };

/** A piece of signs alone as it is read from the right: reversed and mirrored, since the file has it as it looks from the left. Other pieces stay as they are. */
function readSigns(piece: Piece): Piece {
  const signs = textOf(piece);
  if (isBlank(piece) || /[\p{L}\p{N}]/u.test(signs)) return piece;
  return {
    ...piece,
    dir: "rtl",
    str: Array.from(signs, (sign) => MIRRORED[sign] ?? sign)
      .reverse()
      .join(""),
  };
}

/** The pieces of a line, given from left to right, in the order in which they are read. */
function readLine(line: readonly Piece[]): readonly Piece[] {
  const words = line.filter((piece) => !isBlank(piece));
  const leftward = words.filter(isLeftward);
  if (leftward.length === 0) return line;
  const sum = (pieces: readonly Piece[]) => pieces.reduce((total, piece) => total + textOf(piece).length, 0);
  // A number or a name in another writing keeps its order.
  const isLeftwardLine = sum(leftward) * 2 > sum(words);
  const read = isLeftwardLine ? turnRuns(line.map(readSigns).reverse(), false) : turnRuns(line, true);
  const ends = line.some(({ hasEOL }) => hasEOL === true);
  return read.map((piece, at) => ({ ...piece, hasEOL: ends && at === read.length - 1 }));
}

/** Whether a piece ends farther to the left of the one `before` it than letters do: then it is a table's next cell. */
function standsApart(piece: Piece, before: Piece): boolean {
  const { width, height } = piece;
  if (bottomOf(piece) !== bottomOf(before) || typeof width !== "number" || typeof height !== "number") return false;
  return (leftOf(before) ?? 0) - (leftOf(piece) ?? 0) - width > height / 4;
}

/**
 * A page's pieces in the order in which they are read. Browsers (Skia) write the lines of Hebrew, Arabic and the like from left to right, in pieces of a word or
 * a letter each; inside a piece the letters are in the order of reading.
 */
export function inReadingOrder(pieces: readonly Piece[]): readonly Piece[] {
  if (!pieces.some(isLeftward)) return pieces;
  const read: Piece[] = [];
  let line: Piece[] = [];
  let last: Piece | undefined;
  const flush = () => {
    read.push(...readLine(line));
    line = [];
    last = undefined;
  };
  for (const piece of pieces) {
    if (!isBlank(piece)) {
      const goesOn = !last || (bottomOf(piece) === bottomOf(last) && (leftOf(piece) ?? 0) > (leftOf(last) ?? 0));
      const isApart = last !== undefined && !goesOn && standsApart(piece, last);
      if (!goesOn) flush();
      if (isApart) read.push({ str: " " });
      last = piece;
    }
    line.push(piece);
    if (piece.hasEOL === true) flush();
  }
  flush();
  return read;
}
