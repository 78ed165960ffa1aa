import { type Element, elementsOf, isMain, isMostlyLinks, squeeze, textOf, walkElements } from "../page-tree.ts";

/** Characters from which on what a page shows without programs is more than a notice that it wants them. */
const MORE_THAN_A_NOTICE = 500;
/** Characters up to which a page says so little, its title included, that the pages in its frames are what it is for. */
const HARDLY_ANYTHING = 200;
/** Parts that are put in their places; a page has a few dozen at the most. */
const MAX_PLACED = 200;

/** How React, and what is built on it, has its pages say which late part belongs where: `$RC("B:0","S:0")`, `$RS("S:1","P:1")`. */
const PLACING = /\$R([CRS])\("([^"\\]{1,60})","([^"\\]{1,60})"/g;

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

/** The TeX of an element that is a formula: for MathJax 2 a script which is no program, `<script type="math/tex; mode=display">`. */
function formulaOf(element: Element): string | undefined {
  const { name, attributes } = element;
  if (name === "script") return /^math\/tex\b/i.test(attributes["type"] ?? "") ? textOf(element) : undefined;
  if (!FORMULA.test(attributes["class"] ?? "") || [...elementsOf(element)].length > 0) return undefined;
  return MARKED.exec(textOf(element))
    ?.slice(1)
    .find((tex) => tex !== undefined);
}

/** A button that says that it opens something. */
const isOpener = ({ name, attributes }: Element): boolean =>
  name === "button" &&
  (attributes["aria-expanded"] !== undefined || /\b(?:accordion|collapsible|faq)/i.test(attributes["class"] ?? ""));

/** The button that an element is, or that a heading is as a whole. */
function openerOf(element: Element): Element | undefined {
  if (!/^h[1-6]$/.test(element.name)) return isOpener(element) ? element : undefined;
  const [button, ...more] = element.children.filter((child) => typeof child !== "string" || child.trim() !== "");
  return more.length === 0 && typeof button === "object" && isOpener(button) ? button : undefined;
}

/**
 * A question that is a button, with its answer right behind it, is what HTML calls a summary, and the answer is shown: a reader opens it on the page
 * itself. What opens a menu is none.
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

/** The name of a link that lies over what it leads to, with nothing in it (the Guardian's cards). One to a place of the page is beside its heading. */
function overlayName({ name, attributes, children }: Element): string | undefined {
  const isEmpty = children.every((child) => typeof child === "string" && child.trim() === "");
  return name === "a" && isEmpty && !attributes["href"]?.includes("#") ? attributes["aria-label"] : undefined;
}

/** Collects what {@link placeParts} needs, names questions that are buttons, and opens every `noscript` that holds the page. Returns the characters of text below `element`. */
function look(element: Element, late: Late): { weight: number; main: boolean } {
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
      child.attributes = { alttext: formula };
      child.name = "math";
      child.children = [];
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
    const { weight, main } = look(child, late);
    if (opener) nameSummary(opener, child, weight);
    opener = openerOf(child);
    if (child.name === "noscript" && (main || weight >= MORE_THAN_A_NOTICE)) child.name = "div";
    all.weight += weight;
    all.main ||= main;
  }
  return all;
}

/** Whether `element` is `other` or stands in it, late parts being where they were put. */
function isInside(element: Element, other: Element, around: ReadonlyMap<Element, Element>): boolean {
  for (let at: Element | undefined = element; at; at = around.get(at)) if (at === other) return true;
  return false;
}

/** What each element below `root` stands in. */
function parentsIn(root: Element): Map<Element, Element> {
  const around = new Map<Element, Element>();
  for (const child of elementsOf(root)) around.set(child, root);
  for (const each of walkElements(root)) for (const child of elementsOf(each)) around.set(child, each);
  return around;
}

/** Puts late parts where they belong. One that would come to stand in itself stays where it is. */
function placeParts(root: Element, { homes, parts, pairs }: Late): void {
  // Few pages have any.
  if (pairs.length === 0) return;
  const around = parentsIn(root);
  for (const { home: homeId, part: partId } of pairs.slice(0, MAX_PLACED)) {
    const home = homes.get(homeId);
    const part = parts.get(partId);
    if (!home || !part || isInside(home, part, around)) continue;
    home.name = "div";
    home.children = part.children;
    part.children = [];
    around.set(part, home);
    homes.delete(homeId);
    parts.delete(partId);
  }
}

/** A page around another one is the way to it, as one that is made of frames is. What cannot be seen counts visitors. */
function nameFrames(root: Element): void {
  for (const element of walkElements(root)) {
    const { src, width, height } = element.attributes;
    const isSeen = !/^[01](?:px)?$/.test(width ?? "") && !/^[01](?:px)?$/.test(height ?? "");
    if (element.name === "iframe" && src && isSeen) element.name = "frame";
  }
}

/**
 * Makes of a page what it shows to a reader that runs no programs, as far as that is certain. A `noscript` with the page in it is shown (forums have
 * their threads there), formulas that a program would draw become formulas, questions that are buttons summaries, links that lie over something named, a page in a frame a link where there is hardly anything else, and parts that came late, hidden at the end, are put where the page says.
 * Changes `root`.
 */
export function unscript(root: Element): void {
  const late: Late = { homes: new Map(), parts: new Map(), pairs: [] };
  const { weight } = look(root, late);
  if (weight <= HARDLY_ANYTHING) nameFrames(root);
  placeParts(root, late);
}
