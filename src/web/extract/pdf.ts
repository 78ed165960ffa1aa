import { cutText } from "../../lib/cut-text.ts";
import { isoDate, MAX_TITLE } from "./metadata.ts";
import { readForm } from "./pdf-form.ts";
import { bottomOf, inReadingOrder, type Piece, textOf } from "./pdf-order.ts";

/** Pages that are read at most, whatever there is room for. */
const MAX_PAGES = 500;

/** The text of a PDF file. `cut`: not all of its pages were read. `lost`: it has letters whose table is neither in the file nor here. */
export type PdfText = {
  title?: string;
  published?: string;
  blocks: string[];
  cut: boolean;
  lost: boolean;
};

/** Names of predefined tables from letters to a font's numbers in which a letter's code is that of Unicode (ISO 32000-1, 9.7.5.2). */
const BY_UNICODE = /^Uni[A-Za-z\d]+-(?:UCS2|UTF16)-(?:HW-)?[HV]$/;
/** Names of the tables from a font's numbers back to letters. */
const TO_UNICODE = /^Adobe-(\w+)-UCS2$/;
/** Blocks of letters in Unicode that such tables are for: the first, the last, and the number that is made up here for the first. */
const LETTERS = [
  [0x20, 0x4ff, 36_000],
  [0x2000, 0x33ff, 38_000],
  [0x4e00, 0x9fff, 44_000],
  [0xf900, 0xfaff, 65_000],
  [0xff00, 0xffef, 43_500],
] as const;
/** The block of Korea's letters. Mainland China's fonts (GB1) do without it: they use its made-up numbers themselves. */
const HANGUL = [0xac00, 0xd7a3, 24_576] as const;
/**
 * What the numbers that fonts use themselves become, 256 by 256: the 256 signs from U+F0000 on (this is it in UTF-16), which no text has, so that lost letters
 * are noticed.
 */
const UNKNOWN = "db80dc00";
const UNKNOWN_SIGNS = /[\u{f0000}-\u{f00ff}]/gu;

const hex = (code: number) => code.toString(16).padStart(4, "0");

/** The table of this name, written as files have them (Adobe's technical note 5014): from letters to numbers, or from numbers back to letters. */
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
 * The class that the library asks for tables that a file does not bring along. The real ones are a megabyte. Most files that need one write letters by their
 * codes in Unicode, and for these any numbers will do that lead there and back: each letter gets one that no font uses itself. `state.byUnicode`: the file has
 * asked for a table of such codes; `state.lost`: it needs a table that is not here.
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

/** Dots that lead the eye from a title to its page in a table of contents. They would fill the room that is there for the text. */
const LEADERS = / ?(?:\. ?){8,}/g;

const heightOf = ({ height }: Piece) => (typeof height === "number" && height > 0 ? height : 10);

/** Where lines are farther apart than this, in heights of letters, a paragraph begins: about a line and a half. */
const PARAGRAPH_GAP = 1.9;

/** Arabic letters in the form that they have in a word: each stands for the letter itself. */
const FORMS = /[\ufb50-\ufdff\ufe70-\ufefc]+/g;

/** A page's pieces of text as paragraphs, each separated by an empty line. A word that was cut at a line's end is mended. */
function joinPieces(pieces: readonly Piece[]): string {
  let text = "";
  let bottom: number | undefined;
  for (const piece of inReadingOrder(pieces)) {
    const own = bottomOf(piece);
    const string = textOf(piece);
    if (string.trim() !== "" && own !== undefined) {
      const gap = bottom === undefined ? 0 : Math.abs(bottom - own);
      if (gap > heightOf(piece) * PARAGRAPH_GAP && text !== "") text = `${text.trimEnd()}\n\n`;
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

/** The day of a date as files have it, `D:20260102030405Z` or shorter; undefined for anything else, such as the zeros that some programs write. */
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
