import { cutText } from "../../lib/cut-text.ts";
import { fence } from "../markdown/code.ts";
import { escapeText } from "../markdown/inline.ts";
import { isShell, toMarkdown } from "../markdown/markdown.ts";
import { type Element, parseTree, squeeze, textOf } from "../page-tree.ts";
import { decodeText } from "./charset.ts";
import { type Cut, cutBlocks, estimateTokens } from "./cut.ts";
import { readXml } from "./feed.ts";
import { nameTables } from "./grids.ts";
import { linkedText } from "./linked-data.ts";
import { findMain } from "./main.ts";
import { MAX_TITLE, readMetadata } from "./metadata.ts";
import { readPdf } from "./pdf.ts";
import { nameTabs } from "./tabs.ts";
import { type DocumentKind, fenceLanguage, isXhtml, kindOf, parseContentType } from "./type.ts";
import { unscript } from "./unscripted.ts";

/** A document as it was fetched, and how much of it is wanted. */
export type RawPage = {
  /** Where it came from in the end. */
  url: string;
  contentType: string;
  bytes: Uint8Array;
  /** Its end was not fetched. */
  cut: boolean;
  /** Most tokens of Markdown that are wanted. */
  maxTokens: number;
};

/** What is known of a document beside its text. */
type Known = {
  title?: string;
  published?: string;
  language?: string;
  note?: string;
  /** It says hardly anything, and leads on to this address by itself. */
  movedTo?: string;
};

/** A document as Markdown. */
export type ReadPage = Cut & Known & { kind: DocumentKind };

/** What a document says, before it is cut to its room. */
type Content = Known & {
  blocks: string[];
  /** More was there than was read. */
  cut?: boolean;
};

/** A page that leads on to another and says more than this, characters, is worth reading itself. */
const MAX_SIGNPOST = 1_000;
/** Characters of JSON that are laid out anew where they stand in one line. */
const MAX_LAID_OUT = 256 * 1024;
/** JSON that is nested deeper than this is not laid out: its indentation grows with the square of its depth. */
const MAX_LAID_OUT_DEPTH = 64;

const NEEDS_SCRIPT = "This page shows its text only after running programs, which are not run here.";
/**
 * Also for files whose fonts only name one of Adobe's predefined tables (CMaps), as older Chinese, Japanese and Korean ones do: the library gives none of their
 * letters.
 */
const NO_TEXT =
  "No text can be read from this file: it may be made of pictures, or of letters whose table is not in the file.";
const LOST_LETTERS = "Some of the text may be missing: the table of its letters is not in the file.";
const EMPTY = "There is no text on this page.";
const TOO_MUCH = "This page is too large, or nested too deeply, for any of its text to be read.";

/** A document that cannot be turned into text. `message` is for the client. */
export class UnreadablePage extends Error {
  override readonly name = "UnreadablePage";
  constructor(
    readonly code: "unsupported_content_type" | "unreadable",
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/**
 * The address that links are relative to: the page's base, or its own address where it names none, or one that is no place (`javascript:`, `data:`; HTML
 * standard).
 */
function baseOf(written: string | undefined, url: string): string {
  const base = written === undefined ? null : URL.parse(written, url);
  return base && /^https?:$/.test(base.protocol) ? base.href : url;
}

/** How HTML shows in a text: by an element that descriptions have. In other angle brackets stands what the text says itself, such as a type of a program. */
const TAG =
  /<\/?(?:a|b|blockquote|br|code|div|em|figure|font|h[1-6]|hr|i|img|li|ol|p|pre|section|span|strong|su[bp]|table|td|th|tr|u|ul)(?:\s{1,9}[a-z-]{1,40}=[^<>]*)?\s{0,9}\/?>/i;
/** A text in which characters are written as HTML has them, though it may be none; or which is HTML that was escaped once more. */
const ENTITY = /&(?:#\w{1,8}|[a-z]{2,8});/i;

/** What a page of programs says of itself to those who run none: what is written for search engines, as jobs and articles have all of their text there, or its summary. */
function selfDescription(root: Element, summary: string | undefined, base: string): string[] {
  const told = linkedText(root);
  if (told.length <= (summary?.length ?? 0)) return summary ? [escapeText(summary)] : [];
  const isEscaped = !TAG.test(told) && ENTITY.test(told);
  const text = isEscaped ? textOf(parseTree(told.replaceAll("<", "&lt;")).root) : told;
  return TAG.test(text) ? toMarkdown(parseTree(text).root, base) : paragraphs(text).map(escapeText);
}

function readHtml(text: string, url: string, xhtml: boolean): Content {
  const { root, cut } = parseTree(text, { xhtml });
  unscript(root);
  nameTabs(root);
  nameTables(root);
  const { base, next, description, ...about } = readMetadata(root);
  const main = findMain(root);
  const from = baseOf(base, url);
  const blocks = toMarkdown(main, from);
  const movedTo = next && blocks.join("").length <= MAX_SIGNPOST ? URL.parse(next, from)?.href : undefined;
  if (about.title && !blocks.some((block) => block.startsWith("# "))) blocks.unshift(`# ${escapeText(about.title)}`);
  const shell = isShell(main, root);
  // All that such a page says without its programs.
  if (shell) blocks.push(...selfDescription(root, description, from));
  const note = shell ? { note: NEEDS_SCRIPT } : {};
  return { ...about, ...note, ...(movedTo && { movedTo }), blocks, cut };
}

/** JSON without the white space between its parts, and how deep these are nested. */
function pack(text: string): { packed: string; depth: number } {
  let packed = "";
  let from = 0;
  let inString = false;
  let open = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString && code === 92) at++;
    else if (code === 34) inString = !inString;
    else if (inString) continue;
    else if (code === 91 || code === 123) depth = Math.max(depth, ++open);
    else if (code === 93 || code === 125) open--;
    else if (code <= 32) {
      packed += text.slice(from, at);
      from = at + 1;
    }
  }
  return { packed: packed + text.slice(from), depth };
}

/** JSON as a fenced block, laid out where it stood in one line and where that loses nothing. */
function readJson(text: string): Content {
  const trimmed = text.trim();
  let shown = trimmed;
  if (!trimmed.includes("\n") && trimmed.length <= MAX_LAID_OUT) {
    try {
      const value: unknown = JSON.parse(trimmed);
      const { packed, depth } = pack(trimmed);
      if (depth <= MAX_LAID_OUT_DEPTH && JSON.stringify(value) === packed) shown = JSON.stringify(value, null, 2);
    } catch {
      // Called JSON and none: shown as it is.
    }
  }
  return { blocks: shown === "" ? [] : [fence(shown, "json")] };
}

/**
 * A text's paragraphs. Of several empty lines between two of them all but the first stay, before the second one: programs come as plain text too, and their
 * lines must keep their numbers.
 */
const paragraphs = (text: string) =>
  text
    .replace(/\r\n?/g, "\n")
    .replace(/^[^\S\n]+$/gm, "")
    .replace(/^\n+/, "")
    .trimEnd()
    .split(/(?<!\n)\n\n/)
    .filter((block) => block !== "");

/** The fence at which a program begins or ends. */
const FENCE = /^\s{0,3}(`{3,}|~{3,})/m;
const FENCES = new RegExp(FENCE, "gm");

/** The first heading of the first level, outside of programs: there a line that begins with `#` is a remark. */
function titleIn(blocks: readonly string[]): string | undefined {
  for (const block of blocks) {
    const [prose = ""] = block.split(FENCE, 1);
    const heading = /^#[^\S\n]+(.+)$/m.exec(prose)?.[1];
    if (heading !== undefined) return heading.trim();
  }
  return undefined;
}

/** Markdown is cut between its paragraphs, but not inside a fence. */
function readMarkdown(text: string): Content {
  const blocks: string[] = [];
  let open: string | undefined;
  for (const part of paragraphs(text)) {
    if (open === undefined) blocks.push(part);
    else blocks[blocks.length - 1] += `\n\n${part}`;
    for (const [, run = ""] of part.matchAll(FENCES)) {
      if (open === undefined) open = run;
      else if (run[0] === open[0] && run.length >= open.length) open = undefined;
    }
  }
  const title = cutText(titleIn(blocks) ?? "", MAX_TITLE);
  return { blocks, ...(title && { title }) };
}

async function readPdfFile(page: RawPage): Promise<Content> {
  if (page.cut) throw new UnreadablePage("unreadable", "The PDF file is too large.");
  const enough = (blocks: readonly string[]) =>
    blocks.reduce((sum, block) => sum + estimateTokens(block), 0) > page.maxTokens;
  try {
    const { lost, ...content } = await readPdf(page.bytes, enough);
    const note = content.blocks.length === 0 ? NO_TEXT : lost ? LOST_LETTERS : undefined;
    return { ...content, ...(note && { note }) };
  } catch (cause) {
    throw new UnreadablePage("unreadable", "The PDF file is damaged or locked.", cause);
  }
}

const TEXT: Readonly<Record<Exclude<DocumentKind, "pdf">, (text: string, page: RawPage, type: string) => Content>> = {
  html: (text, { url }, type) => readHtml(text, url, isXhtml(type)),
  markdown: (text) => readMarkdown(text),
  text: (text) => ({ blocks: paragraphs(text) }),
  code: (text, _page, type) => ({ blocks: text.trim() === "" ? [] : [fence(text.trimEnd(), fenceLanguage(type))] }),
  json: (text) => readJson(text),
  xml: (text, { url }) => readXml(text, url),
};

/** Characters that are not seen, or that turn the writing around. No text needs them, and attackers hide words with them. */
const UNSEEN = /(?![\n\t])\p{Cc}|[\u00ad\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

/**
 * A fetched document as Markdown, cut to its room (web-and-mcp.md C4). Throws UnreadablePage for formats without text and for damaged
 * files. Takes as long as the document makes it: to be run where nobody waits, and ended when it takes too long.
 */
export async function readPage(page: RawPage): Promise<ReadPage> {
  const { type, charset } = parseContentType(page.contentType);
  const kind = kindOf(type, page.bytes, charset);
  if (!kind) {
    const shown = /^[\w.+-]+\/[\w.+-]{1,80}$/.test(type) ? type : "an unknown format";
    throw new UnreadablePage("unsupported_content_type", `What is there (${shown}) cannot be read as text.`);
  }
  const content =
    kind === "pdf" ? await readPdfFile(page) : TEXT[kind](decodeText(page.bytes, charset, !page.cut), page, type);
  const { blocks, cut = false, title: written = "", ...about } = content;
  // Results show the title on one line: a line break in it could pass for another line of theirs.
  const title = squeeze(written.replace(UNSEEN, ""));
  const clean = blocks.map((block) => block.replace(UNSEEN, "")).filter((block) => block.trim() !== "");
  const whole = !cut && !page.cut;
  // A reader who is shown nothing is told why.
  const note = about.note ?? (clean.length > 0 ? undefined : whole ? EMPTY : TOO_MUCH);
  return {
    kind,
    ...(title !== "" && { title }),
    ...about,
    ...(note && { note }),
    ...cutBlocks(clean, page.maxTokens, whole),
  };
}
