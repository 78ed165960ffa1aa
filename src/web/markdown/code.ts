import { type Element, elementsOf, isFile, walkElements } from "../page-tree.ts";
import { longestRun } from "./inline.ts";

/** Whether an element is a cell of a table with the line numbers of the program in the next cell. */
export const isNumbering = ({ name, attributes }: Element): boolean =>
  name === "td" &&
  /\b(?:lineno|linenos|line-?num(?:bers?)?|gutter|blob-num|lines-num)\b/i.test(attributes["class"] ?? "");

/**
 * Classes of line numbers, buttons and explanations beside a program. Chroma's (Hugo) `ln` and `lnt` count as whole names alone: `hljs-ln-line` holds the
 * program.
 */
const BESIDE =
  /\b(?:lineno|linenos|line-?num(?:bers?)?|lines-num|gutter|copy|clipboard|hljs-ln-n|blob-num|code-toolbar-item|ltx_listing_data|ltx_tag_listingline)\b|(?:^|\s)(?:lnt?|ttc)(?=$|\s)/i;

/**
 * Whether an element stands beside a program and is no part of it. A `code` never does: its class may tell a highlighter what to add (`language-php
 * line-numbers`).
 */
const isBeside = ({ name, attributes }: Element): boolean =>
  name === "button" || (name !== "code" && BESIDE.test(attributes["class"] ?? ""));

/** Whether an element holds the lines of a program in Doxygen's pages. The white space between them is of the page's source, not of the program. */
const hasLines = ({ name, attributes }: Element): boolean =>
  name === "div" && /(?:^|\s)(?:fragment|foldopen)(?:$|\s)/.test(attributes["class"] ?? "");

/** Whether an element holds rows, cells or items. The white space between them, too, is of the page's source. */
const hasRows = ({ name }: Element): boolean => /^(?:table|tbody|tr|ol)$/.test(name);

/** Whether an element is a program in LaTeXML's pages (arXiv's papers), with an element for each line. Not its algorithms: these are sentences and formulas. */
const isLatexListing = ({ attributes }: Element): boolean => /\bltx_lstlisting\b/.test(attributes["class"] ?? "");

/**
 * Whether a program is laid out as running text is: its lines are elements or end with `br`, and are indented by no-break spaces (W3Schools; GeSHi, as at
 * Pastebin).
 */
function isTypeset(element: Element): boolean {
  const { name, attributes } = element;
  if (name === "div") return /(?:^|\s)w3-code(?:$|\s)/.test(attributes["class"] ?? "");
  if (name !== "ol") return false;
  // `li1` alone is macOS' name for an item of any list.
  const [line] = elementsOf(element);
  return line !== undefined && elementsOf(line).next().value?.attributes["class"] === "de1";
}

/**
 * Whether an element is a program although it is no `pre`, so that the program's white space would be lost: a table with a row for each line, numbered in a cell
 * of its own (GitHub's gists, Gitea, Gitiles), or an element for each line (GitHub's files, arXiv's papers, Doxygen).
 */
export function isListing(element: Element): boolean {
  const { name, attributes } = element;
  if (isTypeset(element)) return true;
  if (name === "div") {
    if (isFile(element) || isLatexListing(element)) return true;
    if (!/(?:^|\s)fragment(?:$|\s)/.test(attributes["class"] ?? "")) return false;
    const parts = [...elementsOf(element)];
    return parts.length > 0 && parts.every((part) => /^(?:line|foldopen|ttc)$/.test(part.attributes["class"] ?? ""));
  }
  if (name !== "table") return false;
  let rows = 0;
  for (const each of walkElements(element)) {
    if (each.name === "pre" || each.name === "th") return false;
    if (each.name !== "tr") continue;
    rows++;
    if (![...elementsOf(each)].some(isNumbering)) return false;
  }
  return rows > 0;
}

/** A language behind one of the words with which classes announce it. */
const LANGUAGE =
  /(?:^|\s)(?:language-|lang-|lang:\s?|highlight-source-|highlight-text-html-|highlight-|brush:\s?|sourceCode\s(?:numberSource\s)?|src-)([a-z][\w+#.-]{0,20})/i;
/** Languages that stand as a class of their own, as some highlighters have it. */
const BARE_LANGUAGES = new Set(
  "rust python py javascript js jsx typescript ts tsx bash sh shell console json yaml yml toml ini html xml css scss c cpp c++ csharp cs java kotlin swift go golang ruby rb php perl lua r sql diff haskell ocaml elixir erlang scala clojure dart zig nix makefile dockerfile graphql".split(
    " ",
  ),
);
/** Words in a language's place that name none: `auto` is Discourse's, `undefined` and `null` of pages whose programs had none to write there. */
const NOT_A_LANGUAGE = new Set([
  "auto",
  "undefined",
  "null",
  "code",
  "none",
  "plain",
  "plaintext",
  "text",
  "nohighlight",
  "highlight",
  "block",
  "wrapper",
  "default",
]);

function languageIn({ attributes }: Element): string | undefined {
  const said = attributes["data-lang"] ?? attributes["data-language"] ?? attributes["data-code-language"];
  const names = attributes["class"] ?? "";
  const found =
    said ??
    LANGUAGE.exec(names)?.[1] ??
    names
      .toLowerCase()
      .split(/\s+/)
      .find((name) => BARE_LANGUAGES.has(name));
  const language = found?.toLowerCase();
  return language && !NOT_A_LANGUAGE.has(language) && /^[\w+#.-]+$/.test(language) ? language : undefined;
}

/** How many elements inside a program, and around it, may name its language. */
const NAMED_INSIDE = 3;
const NAMED_AROUND = 2;

/** The language of a program, by the first that names one: its element, the first ones inside it, those around it. "" where none does. */
function languageOf(pre: Element, around: readonly Element[]): string {
  for (const element of [pre, ...walkElements(pre).take(NAMED_INSIDE), ...around]) {
    const language = languageIn(element);
    if (language) return language;
  }
  return "";
}

/** A program's text as it stands, with all its blanks. Lines end with a newline, a `br`, or the end of an element. `typeset`: see {@link isTypeset}. */
function codeOf(element: Element, typeset = false): string {
  let text = "";
  const isApart = hasRows(element) || hasLines(element);
  const write = (words: string) => (isApart ? words.trim() : typeset ? words.replace(/[ \t\n\r]+/g, " ") : words);
  for (const child of element.children) {
    if (typeof child === "string") text += write(child);
    else if (child.name === "br") text += "\n";
    else if (!isBeside(child)) {
      const inner = codeOf(child, typeset);
      const isLine = /^(?:div|p|li|tr)$/.test(child.name);
      text += isLine && text !== "" && !text.endsWith("\n") ? `\n${inner}` : inner;
      if (isLine && !text.endsWith("\n")) text += "\n";
    }
  }
  return text;
}

/** `code` between fences that are longer than any it holds. */
export function fence(code: string, language: string): string {
  const ticks = "`".repeat(Math.max(2, longestRun(code, /^ {0,3}(`{3,})/gm)) + 1);
  return `${ticks}${language}\n${code}\n${ticks}`;
}

/** A program as a fenced block; "" for an empty one. `around`: elements that may name its language. */
function writeCode(element: Element, around: readonly Element[]): string {
  const typeset = isTypeset(element);
  const code = codeOf(element, typeset)
    .replace(typeset ? /^ +| *\n */g : /\r\n?/g, "\n")
    .replaceAll("\u00a0", " ")
    .replace(/^(?:[^\S\n]*\n)+/, "")
    .trimEnd();
  return code === "" ? "" : fence(code, languageOf(element, around));
}

const isLong = (code: Element): boolean => codeOf(code).trimEnd().includes("\n");

/** Whether the `code` elements of a `pre` are programs of their own. Some highlighters make one of every line: together these are one program. */
function areSeveral(programs: readonly Element[], pre: Element): boolean {
  // What else says something makes them parts of one: DocBook writes what a program says as `code`, and what is typed as `strong` around another one.
  const isMore = (child: Element) =>
    child.name === "br" || (child.name !== "code" && !isBeside(child) && codeOf(child).trim() !== "");
  const hasText = pre.children.some((child) => (typeof child === "string" ? child.trim() !== "" : isMore(child)));
  if (programs.length < 2 || hasText) return false;
  if (programs.some(isLong)) return true;
  // Forms of a program in one line each, such as `cjs` and `mjs` in Node.js' manual, would run into each other.
  const nameOf = ({ attributes }: Element) => attributes["class"];
  return !isLong(pre) && programs.some((program) => nameOf(program) !== nameOf(programs[0]!));
}

/**
 * A `pre` element as fenced blocks: one, or one for each of several programs in it, which pages show one at a time. `around`: the elements
 * it stands in, the nearest first.
 */
export function writePre(pre: Element, around: readonly Element[]): string[] {
  const programs = [...elementsOf(pre)].filter(({ name }) => name === "code");
  if (areSeveral(programs, pre)) return programs.map((program) => writeCode(program, [pre]));
  return [writeCode(pre, around.slice(0, NAMED_AROUND))];
}
