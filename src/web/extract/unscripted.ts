import { type Element, elementsOf, isMain, isMostlyLinks, squeeze, textOf, walkElements } from "../page-tree.ts";

/** Characters from which on what a page shows without programs is more than a notice that it wants them. */
const MORE_THAN_A_NOTICE = 500;
/** A page with no more characters than this, its title included, is there for the pages in its frames. */
const HARDLY_ANYTHING = 200;
/** Most late parts that are put in their places; pages have a few dozen. */
const MAX_PLACED = 200;

/** How React, and what is built on it, has its pages say which late part belongs where: `$RC("B:0","S:0")`, `$RS("S:1","P:1")`. */
const PLACING = /\$R([CRS])\("([^"\\]{1,60})","([^"\\]{1,60})"/g;

/**
 * Parts of a page that its server sent late, hidden at its end. `homes`: the templates that stand in their places, by id; `parts`: hidden elements, by id; `pairs`:
 * which part belongs in which home.
 */
type Late = { homes: Map<string, Element>; parts: Map<string, Element>; pairs: Pair[] };
type Pair = { home: string; part: string };

function readPairs(script: string): Pair[] {
  return [...script.matchAll(PLACING)].map(([, kind, first = "", second = ""]) =>
    kind === "S" ? { home: second, part: first } : { home: first, part: second },
  );
}

/** Elements of a formula that a program is to draw: Sphinx's and pandoc's, Stack Exchange's, MkDocs'. */
const FORMULA = /(?:^|\s)(?:math|math-container|arithmatex)(?:$|\s)/;
/** TeX between the marks by which such a program knows it. */
const MARKED = /^\s*(?:\\\((.*)\\\)|\\\[(.*)\\\]|\$\$(.*)\$\$|\$(.*)\$)\s*$/s;

/**
 * The TeX of an element that is a formula: for MathJax 2 a script which is no program, `<script type="math/tex; mode=display">`. Sphinx writes a formula's number
 * into it, as an element: that is TeX's `\tag`.
 */
function formulaOf(element: Element): string | undefined {
  const { name, attributes } = element;
  if (name === "script") return /^math\/tex\b/i.test(attributes["type"] ?? "") ? textOf(element) : undefined;
  if (!FORMULA.test(attributes["class"] ?? "")) return undefined;
  const [number, ...others] = elementsOf(element);
  if (others.length > 0 || (number && number.attributes["class"] !== "eqno")) return undefined;
  const written = textOf({ ...element, children: element.children.filter((child) => child !== number) });
  const tex = MARKED.exec(written)
    ?.slice(1)
    .find((found) => found !== undefined);
  const [, named] = /\(([\w.-]{1,20})\)/.exec(number ? textOf(number) : "") ?? [];
  return tex !== undefined && named ? `${tex} \\tag{${named}}` : tex;
}

/** A button that says that it opens something. */
const isOpener = ({ name, attributes }: Element): boolean =>
  name === "button" &&
  (attributes["aria-expanded"] !== undefined || /\b(?:accordion|collapsible|faq)/i.test(attributes["class"] ?? ""));

/** The button that opens what follows an element: the element itself, or all that it holds where it is a heading. */
function openerOf(element: Element): Element | undefined {
  if (!/^h[1-6]$/.test(element.name)) return isOpener(element) ? element : undefined;
  const [button, ...more] = element.children.filter((child) => typeof child !== "string" || child.trim() !== "");
  return more.length === 0 && typeof button === "object" && isOpener(button) ? button : undefined;
}

/**
 * Makes a summary, as HTML has it, of a button that opens the element right behind it, as that of a question does, and shows that element, which readers
 * open on the page itself. Not where it is a menu, mostly links. `weight`: its characters of text.
 */
function nameSummary(opener: Element, opened: Element, weight: number): void {
  if (weight === 0 || opened.name === "button" || isMostlyLinks(opened)) return;
  opener.name = "summary";
  if (opener.attributes["aria-expanded"] !== undefined) show(opened);
}

/** Takes away what an element is hidden by. */
function show(element: Element): void {
  const { hidden: _hidden, style: _style, "aria-hidden": _unsaid, ...shown } = element.attributes;
  element.attributes = shown;
}

/** An element of a page's own that makes tabs of what is in it, which is hidden until it does (`<awsdocs-tabs><dl style="display: none">`). */
const isTabs = ({ name }: Element): boolean => name.endsWith("-tabs");

/**
 * A field of a form that is filled with several lines, as programs are that can be changed and run (pkg.go.dev's examples). What cannot be changed is
 * a copy of what is shown (GitHub's files).
 */
const isFilledIn = (element: Element): boolean =>
  element.name === "textarea" &&
  element.attributes["aria-readonly"] !== "true" &&
  textOf(element).trim().includes("\n");

/**
 * The name of a link that has nothing in it since it lies over what it leads to (the Guardian's cards); undefined for any other. A link to a place on a page
 * does not count: it stands beside a heading.
 */
function overlayName({ name, attributes, children }: Element): string | undefined {
  const isEmpty = children.every((child) => typeof child === "string" && child.trim() === "");
  return name === "a" && isEmpty && !attributes["href"]?.includes("#") ? attributes["aria-label"] : undefined;
}

/**
 * Makes all changes below `element` but those of {@link nameFrames} and {@link placeParts}, and collects what the latter needs in `late`. Returns how many characters
 * of text there are below it, and whether the page's main part is.
 */
function reveal(element: Element, late: Late): { weight: number; main: boolean } {
  const all = { weight: 0, main: isMain(element) };
  let opener: Element | undefined;
  for (const child of element.children) {
    if (typeof child === "string") {
      all.weight += squeeze(child).length;
      continue;
    }
    const { id, hidden } = child.attributes;
    const formula = formulaOf(child);
    if (formula !== undefined) {
      const math: Element = { name: "math", attributes: { alttext: formula }, children: [] };
      // Formulas in lines of their own stay apart from each other.
      Object.assign(child, child.name === "div" ? { attributes: {}, children: [math] } : math);
      continue;
    }
    if (child.name === "script") {
      late.pairs.push(...readPairs(textOf(child)));
      continue;
    }
    if (child.name === "style") continue;
    if (isFilledIn(child)) child.name = "pre";
    const overlay = overlayName(child);
    if (overlay) child.children = [overlay];
    if (isTabs(element)) show(child);
    if (id && child.name === "template") late.homes.set(id, child);
    else if (id && hidden !== undefined) late.parts.set(id, child);
    const { weight, main } = reveal(child, late);
    if (opener) nameSummary(opener, child, weight);
    opener = openerOf(child);
    if (child.name === "noscript" && (main || weight >= MORE_THAN_A_NOTICE)) child.name = "div";
    all.weight += weight;
    all.main ||= main;
  }
  return all;
}

/** Puts late parts where they belong. One that would come to stand in itself is outside of the page then, and as hidden as it was before. */
function placeParts({ homes, parts, pairs }: Late): void {
  for (const { home: homeId, part: partId } of pairs.slice(0, MAX_PLACED)) {
    const home = homes.get(homeId);
    const part = parts.get(partId);
    if (!home || !part) continue;
    home.name = "div";
    home.children = part.children;
    part.children = [];
    homes.delete(homeId);
    parts.delete(partId);
  }
}

/** Makes a `frame` of every `iframe`, which becomes a link to the page in it. Not of one that cannot be seen: it counts visitors. */
function nameFrames(root: Element): void {
  for (const element of walkElements(root)) {
    const { src, width, height } = element.attributes;
    const isSeen = !/^[01](?:px)?$/.test(width ?? "") && !/^[01](?:px)?$/.test(height ?? "");
    if (element.name === "iframe" && src && isSeen) element.name = "frame";
  }
}

/**
 * Does what a page's programs would do for its readers, as far as that is certain. Changes `root`:
 * - a `noscript` with the page in it is shown (forums have their threads there), and so are tabs and answers that open;
 * - formulas that a program would draw become `math`, buttons that open answers `summary`, fields filled with programs `pre`;
 * - links that lie over something get their names as text;
 * - parts that came late, hidden at the end, are put where the page says;
 * - a page in a frame becomes a link where there is hardly anything else.
 */
export function unscript(root: Element): void {
  const late: Late = { homes: new Map(), parts: new Map(), pairs: [] };
  const { weight } = reveal(root, late);
  if (weight <= HARDLY_ANYTHING) nameFrames(root);
  placeParts(late);
}
