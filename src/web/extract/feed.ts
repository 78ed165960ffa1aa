import { cutText } from "../../lib/cut-text.ts";
import { fence } from "../markdown/code.ts";
import { absolute, escapeText, spacedText } from "../markdown/inline.ts";
import { type Element, elementsOf, findElement, parseTree, squeeze, textOf } from "../page-tree.ts";
import { isoDate } from "./metadata.ts";

/** Entries of a feed that are listed, and characters of an entry's summary. */
const MAX_ENTRIES = 100;
const MAX_SUMMARY = 600;

/** What an XML document says, as blocks of Markdown. `cut`: it went on, but was not read further. */
export type Feed = { title?: string; published?: string; blocks: string[]; cut?: boolean };

const isEntry = ({ name }: Element) => /(?:^|:)(?:item|entry)$/i.test(name);
const plain = (name: string) => name.replace(/^.*:/, "").toLowerCase();

/**
 * The text of the first child of one of these names that has any, the names in order: a picture is called `media:content`, and some feeds have an empty
 * description beside the whole text.
 */
function field(element: Element, ...names: string[]): string {
  for (const name of names) {
    for (const child of elementsOf(element)) {
      const text = plain(child.name) === name ? squeeze(spacedText(child)) : "";
      if (text !== "") return text;
    }
  }
  return "";
}

/** An entity in what was read from XML, whose own entities are decoded by then: the feed has HTML as text there. */
const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]\w{1,30});/i;

/** The text that readers see of one that may hold HTML. */
const unmarked = (written: string): string => squeeze(spacedText(parseTree(written).root));

/** A title without markup. Only Atom says that a title is HTML; in others `<T>` may be part of the words, and entities alone are decoded. */
function titleOf(element: Element): string {
  for (const child of elementsOf(element)) {
    if (plain(child.name) !== "title") continue;
    const written = squeeze(textOf(child));
    const isMarkup = child.attributes["type"] === "html";
    if (!isMarkup && !ENTITY.test(written)) return written;
    return unmarked(isMarkup ? written : written.replaceAll("<", "&lt;"));
  }
  return "";
}

/** What links below an element are relative to: the element's own `xml:base` (XML Base, which Atom has), else `base`. */
function baseIn({ attributes }: Element, base: string): string {
  const own = URL.parse(attributes["xml:base"] ?? "", base);
  return own && /^https?:$/.test(own.protocol) ? own.href : base;
}

/** An entry's address, which RSS has as text and Atom as an attribute; undefined where it has none. `around`: what it is relative to. */
function linkOf(entry: Element, around: string): string | undefined {
  const base = baseIn(entry, around);
  const links = [...elementsOf(entry)].filter(({ name }) => plain(name) === "link");
  const best = links.find(({ attributes }) => (attributes["rel"] ?? "alternate") === "alternate") ?? links[0];
  const href = best ? (best.attributes["href"] ?? textOf(best)) : undefined;
  const guid = field(entry, "guid");
  return absolute(href, { base }) ?? (/^https?:/i.test(guid) ? absolute(guid, { base }) : undefined);
}

/** The beginning of a long summary: to the end of a word, where its writing has blanks. */
function cutSummary(text: string): string {
  const blank = text.lastIndexOf(" ", MAX_SUMMARY);
  return cutText(text, blank > MAX_SUMMARY / 2 ? blank : MAX_SUMMARY);
}

/** The text of a description, of which HTML is read as such. */
const readMarked = (written: string) => (written.includes("<") || ENTITY.test(written) ? unmarked(written) : written);

/** What an entry says of itself: in its own fields, or inside a `media:group` as in YouTube's feeds. */
function summaryOf(entry: Element): string {
  const group = [...elementsOf(entry)].find(({ name }) => plain(name) === "group");
  const own = field(entry, "description", "summary", "content", "encoded");
  const text = readMarked(own || (group ? field(group, "description") : ""));
  return text.length > MAX_SUMMARY ? `${cutSummary(text)}…` : text;
}

function writeEntry(entry: Element, base: string): string {
  const title = escapeText(titleOf(entry) || "Untitled");
  const link = linkOf(entry, base);
  const date = isoDate(field(entry, "pubdate", "published", "updated", "date"));
  const head = `- ${link ? `[${title}](${link})` : title}${date ? ` (${date})` : ""}`;
  const summary = escapeText(summaryOf(entry));
  return summary === "" || summary === title ? head : `${head}\n  ${summary}`;
}

/** An RSS, Atom or RDF feed as a list of its entries; undefined for any other XML. */
function readFeed(root: Element, base: string): Feed | undefined {
  const top = [...elementsOf(root)].find(({ name }) => /^(?:rss|feed|rdf)$/.test(plain(name)));
  if (!top) return undefined;
  const channel = findElement(top, "channel") ?? top;
  const entries = [...elementsOf(channel), ...(channel === top ? [] : elementsOf(top))].filter(isEntry);
  const title = titleOf(channel);
  const about = escapeText(readMarked(field(channel, "description", "subtitle")));
  const listed = entries.slice(0, MAX_ENTRIES).map((entry) => writeEntry(entry, baseIn(top, base)));
  const more = entries.length > MAX_ENTRIES ? [`(${entries.length - MAX_ENTRIES} more entries)`] : [];
  const published = isoDate(field(channel, "lastbuilddate", "pubdate", "updated"));
  const blocks = [title === "" ? "" : `# ${escapeText(title)}`, about, ...listed, ...more].filter(
    (block) => block !== "",
  );
  return { ...(title !== "" && { title }), ...(published && { published }), blocks };
}

/** An XML document as blocks: a feed as the list of its entries, anything else as it is. `base`: the address its links are relative to. */
export function readXml(text: string, base: string): Feed {
  const { root, cut } = parseTree(text, { xml: true });
  const feed = readFeed(root, base);
  return feed ? { ...feed, cut } : { blocks: [fence(text.trim(), "xml")] };
}
