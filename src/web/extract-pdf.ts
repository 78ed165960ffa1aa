import { cutText } from "../lib/cut-text.ts";

/** Pages that are read at most, whatever there is room for. */
const MAX_PAGES = 500;

export type PdfText = { title?: string; published?: string; blocks: string[]; pages: number; cut: boolean };

type Piece = { str?: unknown; hasEOL?: unknown; transform?: unknown; height?: unknown };

const heightOf = ({ height }: Piece) => (typeof height === "number" && height > 0 ? height : 10);
const bottomOf = ({ transform }: Piece) =>
  Array.isArray(transform) && typeof transform[5] === "number" ? transform[5] : undefined;

/** A page's pieces of text as paragraphs: a gap wider than a line and a half begins a new one, a word cut at a line's end is mended. */
export function joinPieces(pieces: readonly Piece[]): string {
  let text = "";
  let bottom: number | undefined;
  for (const piece of pieces) {
    const own = bottomOf(piece);
    const string = typeof piece.str === "string" ? piece.str : "";
    if (string.trim() !== "" && own !== undefined) {
      const gap = bottom === undefined ? 0 : Math.abs(bottom - own);
      if (gap > heightOf(piece) * 1.9 && text !== "") text = `${text.trimEnd()}\n\n`;
      bottom = own;
    }
    text += string;
    if (piece.hasEOL === true) text += "\n";
  }
  return text
    .replace(/(\p{Ll})-\n(?=\p{Ll})/gu, "$1")
    .replace(/[^\S\n]+/g, " ")
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replace(/\s*\n\s*/g, "\n").trim())
    .filter((paragraph) => paragraph !== "")
    .join("\n\n");
}

/** `D:20260102030405Z` and its shorter forms as a day. */
function dayOf(written: unknown): string | undefined {
  const parts = typeof written === "string" ? /^(?:D:)?(\d{4})(\d{2})(\d{2})/.exec(written) : null;
  return parts ? `${parts[1]}-${parts[2]}-${parts[3]}` : undefined;
}

/**
 * The text of a PDF file, page by page under a heading each, until `enough` says that there is room for no more. The library is loaded with
 * the first file. Throws for a file that is damaged or locked.
 */
export async function readPdf(bytes: Uint8Array, enough: (blocks: readonly string[]) => boolean): Promise<PdfText> {
  const { getDocumentProxy } = await import("unpdf");
  const document = await getDocumentProxy(bytes, { disableFontFace: true, verbosity: 0 });
  try {
    const blocks: string[] = [];
    const last = Math.min(document.numPages, MAX_PAGES);
    let read = 0;
    while (read < last && !enough(blocks)) {
      const page = await document.getPage(++read);
      const { items } = await page.getTextContent();
      const text = joinPieces(items as Piece[]);
      if (text !== "") blocks.push(`## Page ${read}`, ...text.split("\n\n"));
      page.cleanup();
    }
    const { info } = await document.getMetadata();
    const { Title, CreationDate } = info as { Title?: unknown; CreationDate?: unknown };
    const title = typeof Title === "string" ? cutText(Title.trim(), 300) : "";
    const published = dayOf(CreationDate);
    const about = { ...(title !== "" && { title }), ...(published && { published }) };
    return { ...about, blocks, pages: document.numPages, cut: read < document.numPages };
  } finally {
    await document.loadingTask.destroy();
  }
}
