import {
  type Element,
  elementsOf,
  findElement,
  isArticle,
  isMain,
  isMostlyLinks,
  squeeze,
  textOf,
  walkElements,
  wordsOf,
} from "../page-tree.ts";
import { findJunk, LITTLE } from "./junk.ts";
import { isHidden, isSilent } from "./unseen.ts";

/** Elements that belong to the site, not to the page. */
const FRAME = new Set(["nav", "aside", "footer", "menu"]);
const FRAME_ROLES = new Set([
  "navigation",
  "banner",
  "contentinfo",
  "complementary",
  "search",
  "dialog",
  "alertdialog",
  "menu",
  "menubar",
  "toolbar",
  "tablist",
  "tooltip",
]);

/** Whether an `aside` right inside this element belongs to the text: between paragraphs or programs it does, and inside another `aside`. */
const holdsText = (element: Element): boolean =>
  element.name === "aside" ||
  element.children.some((child) => typeof child !== "string" && /^(?:p|pre)$/.test(child.name));

/** Whether an element is a footnote. It is part of the page even where it is nothing but a link. */
const isFootnote = (element: Element): boolean =>
  (element.attributes["role"] ?? "").startsWith("doc-") || /\bfootnote/.test(wordsOf(element));

/**
 * Whether an element inside `parent` belongs to the site rather than to the page. A `header` inside the article is the page's own, and a quotation's `footer`
 * names who said it. An `aside` in running text (`inText`) belongs to that, unless it is a list of links: manuals write tips, warnings, examples and footnotes so
 * (Starlight, Google's, W3C's, Sphinx), and forums what they quote.
 */
function isFrame(element: Element, parent: Element, inArticle: boolean, inText: boolean): boolean {
  const { name, attributes } = element;
  const { role = "" } = attributes;
  if (FRAME_ROLES.has(role) && !(role === "tablist" && holdsPanels(element))) return true;
  if (name === "aside") return !inText || (isMostlyLinks(element) && !isFootnote(element));
  if (name === "footer" && parent.name === "blockquote") return false;
  return FRAME.has(name) || (name === "header" && !inArticle);
}

/** Whether a list of tabs has in it what they open: Bootstrap called an accordion so, with its panels (its documentation of version 3, "Collapse"). */
function holdsPanels(list: Element): boolean {
  for (const { attributes } of walkElements(list)) if (attributes["role"] === "tabpanel") return true;
  return false;
}

/** A copy of `element` without what is hidden, silent, or of the site rather than the page. */
function dropFrame(element: Element, junk: ReadonlySet<Element>, inArticle = false): Element {
  const inside = inArticle || element.name === "article" || isMain(element);
  const inText = holdsText(element);
  const children: Element["children"] = [];
  for (const child of element.children) {
    if (typeof child === "string") children.push(child);
    else if (
      !isSilent(child, element) &&
      !isHidden(child) &&
      !isFrame(child, element, inside, inText) &&
      !junk.has(child)
    ) {
      children.push(dropFrame(child, junk, inside));
    }
  }
  return { ...element, children };
}

/** A copy of `element` without what is silent; nothing else is left out. */
function dropSilent(element: Element): Element {
  const children = element.children
    .filter((child) => typeof child === "string" || !isSilent(child, element))
    .map((child) => (typeof child === "string" ? child : dropSilent(child)));
  return { ...element, children };
}

/**
 * Share of the page's text that a part must hold to be taken for the page; an article that is one of several, or inside the main part; and the one of several
 * main parts that has the title.
 */
const ENOUGH = 0.3;
const ENOUGH_AMONG_MANY = 0.6;
const ENOUGH_WITH_TITLE = 0.1;

type Candidate = { element: Element; weight: number; inMain: boolean };

/** Finds the parts that may be the page, and how much there is to read in each. */
class Scale {
  readonly mains: Candidate[] = [];
  readonly articles: Candidate[] = [];

  /** Characters to read below `element`. Those in links count a quarter: a list of links is no page. */
  weigh(element: Element, inMain = false): number {
    const main = isMain(element);
    let weight = 0;
    for (const child of element.children) {
      if (typeof child === "string") weight += squeeze(child).length;
      else weight += this.weigh(child, inMain || main) / (child.name === "a" ? 4 : 1);
    }
    if (main) this.mains.push({ element, weight, inMain });
    else if (isArticle(element)) this.articles.push({ element, weight, inMain });
    return weight;
  }
}

function heaviest(candidates: readonly Candidate[], least: number): Element | undefined {
  let best: Candidate | undefined;
  for (const each of candidates) if (!best || each.weight > best.weight) best = each;
  return best && best.weight >= least ? best.element : undefined;
}

/** The element that holds the page proper; the whole where none does (web-and-mcp.md C5). */
function choose(body: Element): Element {
  const scale = new Scale();
  const all = scale.weigh(body);
  // Of several main parts the one with the title is the page, though its readers may have written more below it (taz.de's).
  const titled = scale.mains.length > 1 ? scale.mains.filter(({ element }) => holdsTitle(element)) : [];
  const main = heaviest(titled, all * ENOUGH_WITH_TITLE) ?? heaviest(scale.mains, all * ENOUGH);
  const articles = main ? scale.articles.filter(({ inMain }) => inMain) : scale.articles;
  const share = main || articles.length > 1 ? ENOUGH_AMONG_MANY : ENOUGH;
  const article = heaviest(articles, all * share);
  return article ? withLead(article, main ?? body) : (main ?? body);
}

/** What stands right before an article is its title and its lead where it is no more than this share of the article's characters. */
const LEAD = 0.5;

/** The elements that `element` stands in, the nearest first, up to `root`; none where it is not below that. */
function ancestorsOf(element: Element, root: Element): Element[] {
  for (const child of elementsOf(root)) {
    if (child === element) return [root];
    const found = ancestorsOf(element, child);
    if (found.length > 0) return [...found, root];
  }
  return [];
}

/** Whether a page's title stands in an element. */
function holdsTitle(element: Element | string): boolean {
  if (typeof element === "string") return false;
  const isTitle = ({ name, attributes }: Element) => name === "h1" || attributes["itemprop"] === "headline";
  if (isTitle(element)) return true;
  for (const each of walkElements(element)) if (isTitle(each)) return true;
  return false;
}

/**
 * An article without a title, with the one that stands before it below `root`, and with what stands between: its lead, which is no part of the element that
 * pages of TYPO3's and others call the article's text.
 */
function withLead(article: Element, root: Element): Element {
  if (holdsTitle(article)) return article;
  const scale = new Scale();
  const lead: Element = { name: "div", attributes: {}, children: [article] };
  let left = scale.weigh(article) * LEAD;
  let inner = article;
  for (const outer of ancestorsOf(article, root)) {
    const before = outer.children.slice(0, outer.children.indexOf(inner));
    const title = before.findLastIndex(holdsTitle);
    const taken = before.slice(Math.max(0, title));
    left -= scale.weigh({ ...lead, children: taken });
    if (left < 0) return article;
    lead.children.unshift(...taken);
    if (title >= 0) return lead;
    inner = outer;
  }
  return article;
}

/** A page of which less than this is left without its furniture, as a share of its text, stands inside the furniture. */
const LEAST_LEFT = 0.1;

/**
 * The part of a page that people come for: without navigation, menus, banners and other furniture, where that leaves something to read.
 * `root` is not changed.
 */
export function findMain(root: Element): Element {
  const body = bodyOf(root);
  const bare = dropFrame(body, findJunk(body));
  const before = squeeze(textOf(dropSilent(body))).length;
  const left = squeeze(textOf(bare)).length;
  // Some pages stand inside what looks like furniture: better to show all of it than nothing.
  if (left < before * LEAST_LEFT && left < LITTLE) return dropSilent(body);
  return choose(bare);
}

function bodyOf(root: Element): Element {
  return findElement(root, "body") ?? [...elementsOf(root)].find(({ name }) => name === "html") ?? root;
}
