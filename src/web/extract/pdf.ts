import { cutText } from "../../lib/cut-text.ts";
import { isoDate, MAX_TITLE } from "./metadata.ts";
import { readForm } from "./pdf-form.ts";
import { bottomOf, inReadingOrder, type Piece, textOf } from "./pdf-order.ts";

/** Pages that are read at most, whatever there is room for. */
const MAX_PAGES = 500;

/** `lost`: there are letters in it whose table is neither in the file nor here. */
export type PdfText = {
  title?: string;
  published?: string;
  blocks: string[];
  cut: boolean;
  lost: boolean;
};

/** Codings of predefined tables in which a letter's code is its number in Unicode (ISO 32000-1, 9.7.5.2), and the tables from a font's own numbers. */
const BY_UNICODE = /^Uni[A-Za-z\d]+-(?:UCS2|UTF16)-(?:HW-)?[HV]$/;
const TO_UNICODE = /^Adobe-(\w+)-UCS2$/;
/** Letters of the writings that such tables are for, first and last of each block, and the first of the numbers that they are given here. */
const LETTERS = [
  [0x20, 0x4ff, 36_000],
  [0x2000, 0x33ff, 38_000],
  [0x4e00, 0x9fff, 44_000],
  [0xf900, 0xfaff, 65_000],
  [0xff00, 0xffef, 43_500],
] as const;
/** Korea's, which mainland China's fonts, that have the most numbers of their own, do not write. */
const HANGUL = [0xac00, 0xd7a3, 24_576] as const;
/** What the numbers become that fonts have of their own: 256 signs of the second last plane, which no text has, again and again. */
const UNKNOWN = "db80dc00";
const UNKNOWN_SIGNS = /[\u{f0000}-\u{f00ff}]/gu;

const hex = (code: number) => code.toString(16).padStart(4, "0");

/** A table in the form of the format (Adobe's technical note 5014): letters by their code to numbers, or numbers back to letters. */
function writeTable(name: string): Uint8Array {
  const ordering = TO_UNICODE.exec(name)?.[1];
  const blocks = ordering === "GB1" ? LETTERS : [...LETTERS, HANGUL];
  const ranges = blocks.map(([first, last, number]) =>
    ordering === undefined
      ? `<${hex(first)}> <${hex(last)}> ${number}`
      : `<${hex(number)}> <${hex(number + last - first)}> <${hex(first)}>`,
  );
  const own = ordering === "GB1" ? 0x7fff : HANGUL[2] - 1;
  for (let at = 0; ordering !== undefined && at < own; at += 256)
    ranges.push(`<${hex(at)}> <${hex(at + 255)}> <${UNKNOWN}>`);
  const kind = ordering === undefined ? "cidrange" : "bfrange";
  const space = "1 begincodespacerange <0000> <ffff> endcodespacerange";
  return new TextEncoder().encode(
    `begincmap ${space} ${ranges.length} begin${kind} ${ranges.join(" ")} end${kind} endcmap`,
  );
}

/**
 * What the library asks for of the tables that a file does not bring along. They are a megabyte, and most files that need one write in Unicode: for
 * those the letters are their own numbers, moved out of the way of a font's.
 */
function createTables() {
  const state = { byUnicode: false, lost: false };
  class Tables {
    async fetch({ kind, filename }: { kind: string; filename: string }): Promise<Uint8Array> {
      if (BY_UNICODE.test(filename)) state.byUnicode = true;
      const known = BY_UNICODE.test(filename) || (state.byUnicode && TO_UNICODE.test(filename));
      if (!known) {
        if (kind === "cMapUrl") state.lost = true;
        throw new Error("There is no such table here.");
      }
      return writeTable(filename);
    }
  }
  return { state, Tables };
}

/** Dots that lead the eye from a title to its page, as tables of contents have them: they would fill the room that is there for the text. */
const LEADERS = / ?(?:\. ?){8,}/g;

const heightOf = ({ height }: Piece) => (typeof height === "number" && height > 0 ? height : 10);

/** Arabic letters in the form that they have in a word: each stands for the letter itself. */
const FORMS = /[\ufb50-\ufdff\ufe70-\ufefc]+/g;

/** A page's pieces of text as paragraphs: a gap wider than a line and a half begins a new one, a word cut at a line's end is mended. */
export function joinPieces(pieces: readonly Piece[]): string {
  let text = "";
  let bottom: number | undefined;
  for (const piece of inReadingOrder(pieces)) {
    const own = bottomOf(piece);
    const string = textOf(piece);
    if (string.trim() !== "" && own !== undefined) {
      const gap = bottom === undefined ? 0 : Math.abs(bottom - own);
      if (gap > heightOf(piece) * 1.9 && text !== "") text = `${text.trimEnd()}\n\n`;
      bottom = own;
    }
    text += string;
    if (piece.hasEOL === true) text += "\n";
  }
  return text
    .replace(FORMS, (letters) => letters.normalize("NFKC"))
    .replace(/(\p{Ll})-\n(?=\p{Ll})/gu, "$1")
    .replace(/[^\S\n]+/g, " ")
    .replace(LEADERS, " … ")
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replace(/\s*\n\s*/g, "\n").trim())
    .filter((paragraph) => paragraph !== "")
    .join("\n\n");
}

/** `D:20260102030405Z` and its shorter forms as a day. Some programs write one that there is not, of zeros alone. */
function dayOf(written: unknown): string | undefined {
  const parts = typeof written === "string" ? /^(?:D:)?(\d{4})(\d{2})(\d{2})/.exec(written) : null;
  return parts ? isoDate(`${parts[1]}-${parts[2]}-${parts[3]}`) : undefined;
}

/**
 * The text of a PDF file, page by page under a heading each, until `enough` says that there is room for no more. The library is loaded with
 * the first file. Throws for a file that is damaged or locked.
 */
export async function readPdf(bytes: Uint8Array, enough: (blocks: readonly string[]) => boolean): Promise<PdfText> {
  const { getDocumentProxy } = await import("unpdf");
  const { state, Tables } = createTables();
  const document = await getDocumentProxy(bytes, {
    ...{ disableFontFace: true, verbosity: 0, useWorkerFetch: false, cMapPacked: false },
    BinaryDataFactory: Tables,
  });
  try {
    const blocks: string[] = [];
    const last = Math.min(document.numPages, MAX_PAGES);
    const filled = await readForm(document);
    let read = 0;
    while (read < last && !enough(blocks)) {
      const page = await document.getPage(++read);
      const { items } = await page.getTextContent();
      const joined = joinPieces(items as Piece[]);
      const text = joined.replace(UNKNOWN_SIGNS, "");
      state.lost ||= text !== joined;
      const form = filled.get(read) ?? [];
      const paragraphs = [...text.split("\n\n"), form.join("\n")].filter((paragraph) => paragraph.trim() !== "");
      if (paragraphs.length > 0) blocks.push(`## Page ${read}`, ...paragraphs);
      page.cleanup();
    }
    const { info } = await document.getMetadata();
    const { Title, CreationDate } = info as { Title?: unknown; CreationDate?: unknown };
    const title = typeof Title === "string" ? cutText(Title.trim(), MAX_TITLE) : "";
    const published = dayOf(CreationDate);
    const about = { ...(title !== "" && { title }), ...(published && { published }) };
    return { ...about, blocks, cut: read < document.numPages, lost: state.lost };
  } finally {
    await document.loadingTask.destroy();
  }
}
