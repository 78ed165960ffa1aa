import type { Element } from "../page-tree.ts";

const ROMAN = [
  ...([
    ["m", 1_000],
    ["cm", 900],
    ["d", 500],
    ["cd", 400],
    ["c", 100],
    ["xc", 90],
    ["l", 50],
  ] as const),
  ...([
    ["xl", 40],
    ["x", 10],
    ["ix", 9],
    ["v", 5],
    ["iv", 4],
    ["i", 1],
  ] as const),
] as const;
/** The largest Roman number. Larger ones are written in figures, as browsers do (CSS Counter Styles, "upper-roman"). */
const MAX_ROMAN = 3_999;

function toRoman(number: number): string {
  let left = number;
  let text = "";
  for (const [letters, value] of ROMAN) {
    text += letters.repeat(Math.floor(left / value));
    left %= value;
  }
  return text;
}

/** 1 is a, 26 is z, 27 is aa. */
function toLetters(number: number): string {
  let text = "";
  for (let left = number; left > 0; left = Math.floor((left - 1) / 26))
    text = String.fromCharCode(97 + ((left - 1) % 26)) + text;
  return text;
}

const BY_STYLE = /(?:^|;)\s*list-style(?:-type)?\s*:[^;]*\b(lower|upper)-(alpha|latin|roman)\b/i;

/** Docutils' classes, which stand in every page of Sphinx' and in PEPs: their style sheets tell how such a list counts. */
const BY_CLASS = /(?:^|\s)(lower|upper)(alpha|roman)(?=$|\s)/;

/** How a list counts, by its style, its class, else by its `type` (HTML standard): `a`, `A`, `i`, `I`, or anything else for figures. */
function typeOf({ attributes }: Element): string | undefined {
  const [, height, kind] = BY_STYLE.exec(attributes["style"] ?? "") ?? BY_CLASS.exec(attributes["class"] ?? "") ?? [];
  if (kind === undefined) return attributes["type"]?.trim();
  const type = /roman/i.test(kind) ? "i" : "a";
  return /upper/i.test(height ?? "") ? type.toUpperCase() : type;
}

/** A number as its ordered list writes it before an item: what a law calls (b) must not become 2. */
export function numberIn(list: Element, number: number): string {
  const type = typeOf(list);
  const small = type?.toLowerCase();
  const text =
    small === "a" && number > 0
      ? toLetters(number)
      : small === "i" && number > 0 && number <= MAX_ROMAN
        ? toRoman(number)
        : String(number);
  return type === small ? text : text.toUpperCase();
}
