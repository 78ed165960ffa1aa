import {
  type Element,
  elementsOf,
  findElement,
  isFile,
  isMain,
  isMostlyLinks,
  squeeze,
  textOf,
  walkElements,
} from "../page-tree.ts";

/** Elements that hold nothing to read. */
const SILENT = new Set([
  "script",
  "style",
  "noscript",
  "noframes",
  "template",
  "svg",
  "canvas",
  "iframe",
  "object",
  "embed",
  "video",
  "audio",
  "button",
  "input",
  "select",
  "textarea",
  "datalist",
  "dialog",
  "head",
  "title",
  "link",
  "meta",
  "base",
  "map",
]);
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

/** Words of a class or an id that name a part of the site. They count as whole words, between dashes, underscores and blanks. */
const JUNK = new Set(
  "ad ads advert advertisement adsbygoogle banner breadcrumb breadcrumbs consent cookie cookies disqus editsection feedback footer gdpr interlanguage masthead menu modal nav navbar navfooter navheader navigation newsletter outbrain pagination pager paywall popup prevnext promo promoted recommended related respond share sharing sidebar sidenav skip skiplink social sponsor sponsored subscribe taboola toc topbar".split(
    " ",
  ),
);
/** Those of them that name ways to other pages, or to other places on this one: lists of links. */
const WAYS = new Set(
  "breadcrumb breadcrumbs interlanguage menu nav navbar navfooter navheader navigation pager pagination prevnext sidenav skip skiplink toc topbar".split(
    " ",
  ),
);
/**
 * A class or an id that begins with this word names a part of the site. Not one that ends with it: page builders call every part of the page so
 * (`elementor-widget`).
 */
const WIDGET = /(?:^|\s)widget(?:$|[\s_-])/;
/** Elements that are never junk, whatever their class says: they hold the page itself. */
const NEVER_JUNK = new Set([
  "html",
  "body",
  "main",
  "article",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "pre",
  "code",
  "table",
  "tbody",
  "tr",
  "td",
  "th",
]);

/** Whether a button is all that a heading holds. Its words are the heading's then, and it opens what follows, such as the answer to a question. */
const isHeading = (button: Element, parent: Element) =>
  /^(?:h[1-6]|dt|summary)$/.test(parent.name) &&
  parent.children.every((child) => child === button || (typeof child === "string" && child.trim() === ""));

/** Most that stands in an element which is there for a program: its buttons, its language, the numbers of its lines, and blanks. */
const BESIDE_PROGRAM = 24;

/** Whether an element only repeats the language of the program beside it, as VitePress has it in the program's corner. */
const isLanguageName = ({ name, attributes }: Element, parent: Element) =>
  name === "span" &&
  attributes["class"] === "lang" &&
  parent.children.length <= BESIDE_PROGRAM &&
  parent.children.some((child) => typeof child !== "string" && child.name === "pre");

/**
 * Whether an element holds nothing to read: the name of a program's language beside it, or one of {@link SILENT}, but not the checkbox of a list of tasks,
 * nor a button that is all of a heading, nor a template that browsers show as its parent's content (declarative shadow DOM).
 */
const isSilent = (element: Element, parent: Element) => {
  const { name, attributes } = element;
  if (!SILENT.has(name)) return isLanguageName(element, parent);
  return (
    !(name === "input" && attributes["type"] === "checkbox") &&
    !(name === "button" && isHeading(element, parent)) &&
    !(name === "template" && attributes["shadowrootmode"] !== undefined)
  );
};

const wordsOf = ({ attributes }: Element) => `${attributes["class"] ?? ""} ${attributes["id"] ?? ""}`.toLowerCase();

/** Characters of a heading beside what it says: the sign of a link that points at it. */
const SIGN = 2;

/** Elements whose id may name a part of the site. Any other element has one for links to lead to, as a glossary's term does. */
const NAMED_PARTS = /^(?:div|section|ul|ol|form|a)$/;
/** How many elements of a section are searched for its heading: in GNU's manuals the ways to other sections stand before it. */
const HEADING_WITHIN = 12;
/** A text's letters and digits in small letters, accents apart: they are the same for a heading and for an id that was made of it. */
const bare = (text: string) =>
  text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "");

/** Whether a section's id was made of its heading, as in `<section id="pagination"><h2>Pagination</h2>`: it is about that, and no part of the site. */
function isNamedByHeading(element: Element): boolean {
  const { name, attributes } = element;
  if (name !== "section" && !/\bsection\b/.test(attributes["class"] ?? "")) return false;
  let seen = 0;
  for (const each of walkElements(element)) {
    if (/^h[1-6]$/.test(each.name)) {
      const heading = bare(textOf(each).replace(/^[\s\d.]+/, ""));
      return heading !== "" && bare(attributes["id"] ?? "").endsWith(heading);
    }
    if (++seen === HEADING_WITHIN) break;
  }
  return false;
}

/** Whether readers open an element on the page itself: the panel of a tab, or of an accordion, which is a region that names its button (WAI-ARIA practices). */
const canBeOpened = ({ attributes }: Element): boolean =>
  attributes["role"] === "tabpanel" || (attributes["role"] === "region" && attributes["aria-labelledby"] !== undefined);

function isHidden(element: Element): boolean {
  const { attributes, name } = element;
  if (canBeOpened(element)) return false;
  if (attributes["hidden"] !== undefined && attributes["hidden"] !== "until-found") return true;
  if (attributes["aria-hidden"] === "true" && name !== "math" && name !== "img" && !isFile(element)) return true;
  return /(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)/i.test(attributes["style"] ?? "");
}

/** Links to other pages that a table of contents must have to be the way to them. */
const WAYS_ON = 2;

/**
 * Whether a table of contents leads to other pages, as that of a book or a chapter does (PostgreSQL's and Debian's manuals, DocBook). One of the page itself
 * only repeats its headings.
 */
function leadsOn(element: Element): boolean {
  if (!/^(?:div|ul|ol|dl)$/.test(element.name) || element.attributes["class"]?.trim() !== "toc") return false;
  let ways = 0;
  for (const { name, attributes } of walkElements(element)) {
    const { href } = attributes;
    if (name === "a" && href && !href.includes("#") && ++ways === WAYS_ON) return true;
  }
  return false;
}

/** What a class or an id says of its element, in small letters: that it is a list of ways, a part of the site, or nothing. */
function kindOfName(words: string): "way" | "junk" | undefined {
  const named = words.split(/[\s_-]+/).filter((word) => JUNK.has(word));
  if (WIDGET.test(words) || named.some((word) => !WAYS.has(word))) return "junk";
  return named.length > 0 ? "way" : undefined;
}

/** Whether an element is a wiki's table of links to the articles of a series, which stands beside the text of each of them. */
const isSeries = (element: Element): boolean =>
  element.name === "table" &&
  /(?:^|[\s-])(?:sidebar|navbox)(?:$|[\s-])/.test(element.attributes["class"] ?? "") &&
  isMostlyLinks(element);

/** `weight`, `linked`: how many characters there are in the element outside of links, and in them. */
function hasJunkName(element: Element, { weight, linked }: Pick<Weighed, "weight" | "linked">): boolean {
  const saysJunk = (words: string) => {
    const kind = kindOfName(words);
    // A list of ways has little beside its links.
    return kind === "junk" || (kind === "way" && (weight < LITTLE || linked > weight));
  };
  const { name, attributes } = element;
  const { class: classes, id } = attributes;
  if (isSeries(element)) return true;
  if (NEVER_JUNK.has(name) || (!classes && !id)) return false;
  // DocBook begins all parts of a text so, also its boxes, which it calls `sidebar`: in Debian's handbook they are half of it.
  const first = elementsOf(element).find((child) => child.name !== "a");
  if (first?.attributes["class"] === "titlepage") return false;
  // A remark on the page itself: Wikipedia gives it the class `navigation-not-searchable`.
  if (attributes["role"] === "note") return false;
  if (/\b(?:content|article|post-body)\b/.test(wordsOf(element))) return false;
  if (classes && saysJunk(classes.toLowerCase())) return true;
  return id !== undefined && NAMED_PARTS.test(name) && saysJunk(id.toLowerCase()) && !isNamedByHeading(element);
}

/** Most of a text, as a share of it: an element with more than this of a page's text does not stand beside the page. */
const MOST = 0.6;
/** Characters of a text that is too short for shares of it to tell anything. */
const LITTLE = 200;

/** An element with a name of junk. `article`: the nearest one that it stands in. */
type Named = { element: Element; weight: number; inMain: boolean; article: { weight: number } | undefined };

/**
 * What is below an element. `weight`, `linked`: characters to read outside of links, and in them; `named`: those of `weight` inside elements with a name of
 * junk. Whether there is: the main part (`main`), an `h1` or a file (`heading`), an `h1` or `h2` (`titled`).
 */
type Weighed = { weight: number; linked: number; named: number; main: boolean; heading: boolean; titled: boolean };

/**
 * The elements below `body` that are junk by their class or id. Such names do not count on:
 * - what holds the main part or, where no part is the main one, most of the text outside of links: frames around everything are named for what stands beside
 *   the page in them (`wy-grid-for-nav`, `has-sidebar`);
 * - what holds most of the text of the article that it stands in (`c-fixed-sidebar-layout`; `entry share`, as Hueman has it, a theme of WordPress's);
 * - what has more to say than a list of ways has (`tab-menu--product`, in which shops of Shopware describe what they sell);
 * - what holds the heading (`hero-banner`) or a file (`highlighted-line-menu-positioner`) inside the main part, and anything in a main part of which most has
 *   such names (a restaurant's `menu-section`);
 * - what stands in a paragraph: manuals mark words such as a program's `menu`;
 * - what holds all that a heading says, as the link back to the table of contents that Sphinx and PEPs make of each does (`toc-backref`);
 * - a table of contents below a heading that leads to other pages.
 */
function findJunk(body: Element): Set<Element> {
  const found: Named[] = [];
  const headings = new Set<Element>();
  let mainWeight = 0;
  let mainNamed = 0;
  const weigh = (
    element: Element,
    inMain: boolean,
    around: boolean,
    below: boolean,
    article: Named["article"],
  ): Weighed => {
    const { name } = element;
    const own = isArticle(element) ? { weight: 0 } : undefined;
    const isTop = !inMain && isMain(element);
    const inText = around || (below && leadsOn(element));
    // The introduction to a part of a book stands below the part's heading, and the way to its chapters at the introduction's end.
    const inPart = below && element.attributes["class"] === "partintro";
    const all = {
      weight: 0,
      linked: 0,
      named: 0,
      main: isMain(element),
      heading: name === "h1" || isFile(element),
      titled: /^h[12]$/.test(name),
    };
    const said = { all: 0, most: 0, by: element };
    for (const child of element.children) {
      if (typeof child === "string") {
        const { length } = squeeze(child);
        all.weight += length;
        said.all += length;
      } else if (!isSilent(child, element) && !isHidden(child)) {
        const { weight, linked, named, main, heading, titled } = weigh(
          child,
          inMain || isTop,
          inText || name === "p",
          all.titled || inPart,
          own ?? article,
        );
        said.all += weight;
        if (weight > said.most) Object.assign(said, { most: weight, by: child });
        all.linked += linked;
        if (child.name === "a") all.linked += weight;
        else {
          all.weight += weight;
          all.named += named;
        }
        all.main ||= main;
        all.heading ||= heading;
        all.titled ||= titled;
      }
    }
    if (/^h[1-6]$/.test(name) && said.all - said.most <= SIGN) headings.add(said.by);
    if (own) own.weight = all.weight;
    if (isTop) {
      mainWeight += all.weight;
      mainNamed += all.named;
    }
    if (!all.main && !inText && !(inMain && all.heading) && hasJunkName(element, all)) {
      found.push({ element, weight: all.weight, inMain, article });
      all.named = all.weight;
    }
    return all;
  };
  const { weight: whole, main } = weigh(body, false, false, false, undefined);
  const isMainNamed = mainNamed >= LITTLE && mainNamed > mainWeight * MOST;
  const isBeside = ({ weight, inMain, article }: Named) => {
    if (article && weight >= LITTLE && weight > article.weight * MOST) return false;
    return inMain ? !isMainNamed : main || weight < LITTLE || weight <= whole * MOST;
  };
  const junk = found.filter((each) => isBeside(each) && !headings.has(each.element));
  return new Set(junk.map(({ element }) => element));
}

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

const isArticle = (element: Element) =>
  element.name === "article" ||
  element.attributes["itemprop"] === "articleBody" ||
  /(?:^|\s)(?:post|entry|article)-(?:body|content)\b/.test(wordsOf(element));

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
