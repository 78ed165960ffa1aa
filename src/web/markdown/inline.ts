import { cutText } from "../../lib/cut-text.ts";
import { entryOf } from "../../lib/json.ts";
import { type Element, squeeze, textOf, walkElements } from "../page-tree.ts";

/** What the writer must know of the page. */
export type PageContext = {
  /** Absolute address that links of the page are relative to. */
  base: string;
  /** Signs of emphasis that are open already, with blanks between them: the same one again would read as another, as `****` does. */
  within?: string;
};

/** Characters of an image's description that are shown. */
const MAX_DESCRIPTION = 300;
/** Longest address that is written down: longer ones are data, not places. */
const MAX_LINK = 2_000;

/** The absolute address of a link; undefined where it leads nowhere a reader could go. */
export function absolute(href: string | undefined, { base }: PageContext): string | undefined {
  const written = href?.trim();
  if (!written || written.startsWith("#")) return undefined;
  const url = URL.parse(written, base);
  if (!url || !/^(?:https?|mailto|tel|ftp):$/.test(url.protocol) || url.href.length > MAX_LINK) return undefined;
  return url.href.replaceAll("(", "%28").replaceAll(")", "%29");
}

/**
 * A text with a backslash before each sign that Markdown would take for its own, and before no other: most readers are models, for whom each is noise. A star at an
 * end of the text has one too, since it may touch what stands beside it: `<em><span>*</span><span>args</span></em>`.
 */
export function escapeText(text: string): string {
  return text
    .replace(/\\(?=[!-/:-@[-`{-~])|`|\*(?!\s)|(?<!\s)\*|\](?=[([:])/g, "\\$&")
    .replace(/(^|[^A-Za-z0-9])_(?=\S)|(?<=\S)_(?=[^A-Za-z0-9]|$)/g, (all) => all.replace("_", "\\_"))
    .replace(/<(?=[A-Za-z/!?])/g, "\\<");
}

/** Length of the longest match of a pattern, or of its first group where it has one; 0 for none. */
export function longestRun(text: string, pattern: RegExp): number {
  let longest = 0;
  for (const [whole, group = whole] of text.matchAll(pattern)) longest = Math.max(longest, group.length);
  return longest;
}

/** A code span: fenced by more backticks than it holds in a row. */
function codeSpan(text: string): string {
  const code = text.replace(/\s+/g, " ").trim();
  if (code === "") return "";
  const fence = "`".repeat(longestRun(code, /`+/g) + 1);
  const pad = code.startsWith("`") || code.endsWith("`") ? " " : "";
  return `${fence}${pad}${code}${pad}${fence}`;
}

/** A code span of `text`, with the white space at its ends outside. */
const spacedSpan = (text: string): string =>
  `${/^\s/.test(text) ? " " : ""}${codeSpan(text)}${/\s$/.test(text) ? " " : ""}`;

/**
 * Code in a line. A code span can hold no link and no line break: each link, as of the types in a signature (Javadoc), is around a span of its own, and so is each of
 * several lines, as WordPress has them.
 */
function writeCode(element: Element, context: PageContext): string {
  let line = "";
  let plain = "";
  const part = (next: string) => {
    line += spacedSpan(plain) + next;
    plain = "";
  };
  const write = (from: Element) => {
    for (const child of from.children) {
      if (typeof child === "string") plain += child;
      else if (child.name === "br") part("\n");
      else {
        const href = child.name === "a" ? absolute(child.attributes["href"], context) : undefined;
        const label = href === undefined ? "" : codeSpan(textOf(child));
        if (label === "") write(child);
        else part(`[${label}](${href})`);
      }
    }
  };
  write(element);
  return line === "" ? codeSpan(plain) : line + spacedSpan(plain);
}

/** `text` between two marks, the white space at its ends outside of them; without marks where that is all there is. */
function mark(text: string, open: string, close = open): string {
  const inner = text.trim();
  if (inner === "") return text;
  const start = text.indexOf(inner);
  return `${text.slice(0, start)}${open}${inner}${close}${text.slice(start + inner.length)}`;
}

/** An element between signs of emphasis; without them inside emphasis of the same kind, as editors leave it (`<b><strong>`). */
function writeEmphasis(element: Element, sign: string, context: PageContext): string {
  const { within = "" } = context;
  if (within.split(" ").includes(sign)) return writeInline(element, context);
  return mark(writeInline(element, { ...context, within: `${within} ${sign}` }), sign);
}

/** What stands in one line of `element`, all of it strong. "" for nothing. */
export const writeStrong = (element: Element, context: PageContext): string =>
  squeeze(tidyLine(writeEmphasis(element, "**", context)));

const EMPHASIS: Readonly<Record<string, string>> = {
  strong: "**",
  b: "**",
  em: "*",
  i: "*",
  del: "~~",
  s: "~~",
  strike: "~~",
};
const CODE = new Set(["code", "kbd", "samp", "tt"]);
/** Links that stand beside a heading to point at it. */
const ANCHOR_CLASS =
  /\b(?:headerlink|anchor|anchorjs-link|heading-anchor|header-anchor|hash-link|permalink|direct-link|mw-editsection)\b/;

/** A link; its text alone where it leads nowhere, and nothing for one that only points at its heading. */
function writeLink(element: Element, context: PageContext): string {
  const text = writeInline(element, context);
  const bare = squeeze(text);
  // A footnote's number may be called an anchor too (Substack).
  if (ANCHOR_CLASS.test(element.attributes["class"] ?? "") && bare.length <= 2)
    return /\d/.test(bare) ? `[${bare}]` : "";
  const href = absolute(element.attributes["href"], context);
  if (bare === "" || /^[#¶§🔗ⓘ]$/u.test(bare)) return href === undefined || bare !== "" ? "" : text;
  if (href === undefined) return text;
  // A card: one link around a heading and its text.
  const label = bare.replace(/^#+ /, "");
  return `${/^\s/.test(text) ? " " : ""}[${label}](${href})${/\s$/.test(text) ? " " : ""}`;
}

/** A formula that is shown as an image, its source being the description: Wikipedia's. */
const isFormula = ({ attributes }: Element) => /\bmwe-math-fallback-image\b/.test(attributes["class"] ?? "");

/** An image with a description; one without says nothing to a reader of text. */
function writeImage(element: Element, context: PageContext): string {
  const { attributes } = element;
  if (isFormula(element) && attributes["alt"]) return `$${squeeze(attributes["alt"])}$`;
  const description = cutText(squeeze(attributes["alt"] ?? ""), MAX_DESCRIPTION);
  if (description === "" || attributes["width"] === "1") return "";
  const lazy = attributes["data-src"] ?? attributes["data-original"] ?? attributes["data-lazy-src"];
  const source = attributes["src"];
  const url = absolute(lazy ?? (source?.startsWith("data:") ? undefined : source), context);
  return url === undefined ? `[image: ${escapeText(description)}]` : `![${escapeText(description)}](${url})`;
}

/** A formula's source as its page has it: in an annotation, or as the text for those who do not see it (LaTeXML, Wikipedia). */
function texOf(element: Element): string | undefined {
  for (const each of walkElements(element)) {
    if (each.name === "annotation" && /tex/i.test(each.attributes["encoding"] ?? "")) return squeeze(textOf(each));
  }
  const { alttext } = element.attributes;
  return element.name === "math" && alttext ? squeeze(alttext) : undefined;
}

/** A part of a formula, in brackets where it is more than one sign or number. */
const grouped = (text: string) => (/^(?:[\p{L}\p{N}.,]*|\S)$/u.test(text) ? text : `(${text})`);

/** How the parts of an element of MathML are written where they do not simply follow each other: the fraction of 1 and 2 must not become 12. */
const FORMULAS: Readonly<Record<string, (parts: readonly string[]) => string>> = {
  mfrac: ([over = "", under = ""]) => `${grouped(over)}/${grouped(under)}`,
  msup: ([base = "", up = ""]) => `${grouped(base)}^${grouped(up)}`,
  msub: ([base = "", down = ""]) => `${grouped(base)}_${grouped(down)}`,
  msubsup: ([base = "", down = "", up = ""]) => `${grouped(base)}_${grouped(down)}^${grouped(up)}`,
  mover: ([base = "", up = ""]) => `${grouped(base)}^${grouped(up)}`,
  munder: ([base = "", down = ""]) => `${grouped(base)}_${grouped(down)}`,
  munderover: ([base = "", down = "", up = ""]) => `${grouped(base)}_${grouped(down)}^${grouped(up)}`,
  mroot: ([inner = "", degree = ""]) => `root(${inner}, ${degree})`,
};

/** MathML in one line. */
function spellFormula(element: Element): string {
  if (/^annotation(?:-xml)?$/.test(element.name)) return "";
  const parts = element.children
    .map((child) => (typeof child === "string" ? squeeze(child) : spellFormula(child)))
    .filter((part) => part !== "");
  const join = entryOf(FORMULAS, element.name);
  if (join) return join(parts);
  if (element.name === "msqrt") return `√(${parts.join("")})`;
  return element.name === "mtr" ? `${parts.join(", ")}; ` : parts.join("");
}

/** A formula as its author wrote it, where the page tells. */
function writeMath(element: Element): string {
  const tex = texOf(element);
  return tex === undefined ? escapeText(spellFormula(element).trim()) : `$${tex}$`;
}

const hasClass = (element: Element | string, names: RegExp): boolean =>
  typeof element !== "string" && names.test(element.attributes["class"] ?? "");

/** A footnote of LaTeXML's (arXiv's papers), which it writes into the sentence: in brackets, and without its number, which stands before it already. */
function writeNote(note: Element, context: PageContext): string {
  const children = note.children
    .flatMap((child) => (hasClass(child, /\bltx_note_content\b/) ? (child as Element).children : [child]))
    .filter((child) => !hasClass(child, /\bltx_(?:note_mark|note_type|tag_note)\b/));
  const text = squeeze(writeInline({ ...note, children }, context));
  return text === "" ? "" : ` (${text})`;
}

function writeElement(element: Element, context: PageContext): string {
  const { name } = element;
  if (hasClass(element, /\bltx_note_outer\b/)) return writeNote(element, context);
  const sign = entryOf(EMPHASIS, name);
  if (sign) return writeEmphasis(element, sign, context);
  if (CODE.has(name)) return writeCode(element, context);
  switch (name) {
    case "a":
      return writeLink(element, context);
    case "br":
      return "\n";
    case "img":
      return writeImage(element, context);
    case "math":
      return writeMath(element);
    case "q":
      return `“${writeInline(element, context)}”`;
    case "sup":
    case "sub": {
      const text = writeInline(element, context);
      // A footnote's number is a link already.
      return text.trimStart().startsWith("[") ? text : mark(text, `<${name}>`, `</${name}>`);
    }
    case "rt":
      return `(${squeeze(textOf(element))})`;
    case "input":
    case "rp":
    case "wbr":
      return "";
    default:
      return writeInline(element, context);
  }
}

/** Elements that stand on lines of their own: inside a line they are kept apart by a blank. */
const APART =
  /^(?:p|div|section|article|aside|header|footer|hgroup|center|li|ul|ol|dl|dt|dd|h[1-6]|table|caption|tr|td|th|blockquote|pre|figure|figcaption|address|hr|main|form|fieldset|legend|summary|details|option)$/;

/** The text below `element` without any marks, what stands on lines of its own kept apart by a blank. */
export function spacedText(element: Element): string {
  let text = "";
  for (const child of element.children) {
    if (typeof child === "string") text += child;
    else if (child.name === "br") text += " ";
    else text += APART.test(child.name) ? ` ${spacedText(child)} ` : spacedText(child);
  }
  return text;
}

/**
 * What stands in one line: the children of `element` with links, emphasis and code. White space is one blank, a line break is a newline;
 * the ends are not trimmed.
 */
export function writeInline(element: Element, context: PageContext): string {
  let line = "";
  for (const child of element.children) line += writeNode(child, context);
  return line;
}

/** One child as {@link writeInline} writes it. */
export function writeNode(child: Element | string, context: PageContext): string {
  if (typeof child === "string") return escapeText(child.replace(/[\s\u00a0]+/g, " "));
  const text = writeElement(child, context);
  return APART.test(child.name) ? ` ${text} ` : text;
}

/** A finished line: runs of blanks are one, breaks stay, and nothing stands at its ends. */
export const tidyLine = (line: string): string =>
  line
    .replace(/[^\S\n]+/g, " ")
    .replace(/ ?\n ?/g, "\n")
    .trim();
