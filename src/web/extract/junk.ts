import {
  type Element,
  elementsOf,
  isArticle,
  isFile,
  isMain,
  isMostlyLinks,
  squeeze,
  textOf,
  walkElements,
  wordsOf,
} from "../page-tree.ts";
import { isHidden, isSilent } from "./unseen.ts";

/** Words of a class or an id that name a part of the site. They count as whole words, between dashes, underscores and blanks. */
const PARTS = new Set(
  "ad ads advert advertisement adsbygoogle banner consent cookie cookies disqus editsection feedback footer gdpr masthead modal newsletter outbrain paywall popup promo promoted recommended related respond share sharing sidebar social sponsor sponsored subscribe taboola".split(
    " ",
  ),
);
/** Those that name ways to other pages, or to other places on this one: lists of links. */
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
  const named = words.split(/[\s_-]+/);
  if (WIDGET.test(words) || named.some((word) => PARTS.has(word))) return "junk";
  return named.some((word) => WAYS.has(word)) ? "way" : undefined;
}

/** Whether an element is a wiki's table of links to the articles of a series, which stands beside the text of each of them. */
const isSeries = (element: Element): boolean =>
  element.name === "table" &&
  /(?:^|[\s-])(?:sidebar|navbox)(?:$|[\s-])/.test(element.attributes["class"] ?? "") &&
  isMostlyLinks(element);

/** Most of a text, as a share of it: an element with more than this of a page's text does not stand beside the page. */
const MOST = 0.6;
/** Characters of a text that is too short for shares of it to tell anything. */
export const LITTLE = 200;

/** An element with a name of junk. `article`: the nearest one that it stands in. */
type Named = { element: Element; weight: number; inMain: boolean; article: { weight: number } | undefined };

/**
 * What is below an element. `weight`, `linked`: characters to read outside of links, and in them; `named`: those of `weight` inside elements with a name of
 * junk. Whether there is: the main part (`main`), an `h1` or a file (`heading`), an `h1` or `h2` (`titled`).
 */
type Weighed = { weight: number; linked: number; named: number; main: boolean; heading: boolean; titled: boolean };

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
export function findJunk(body: Element): Set<Element> {
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
