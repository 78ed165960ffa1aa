import { cutText } from "../../lib/cut-text.ts";
import { type Element, findElement, squeeze, textOf, walkElements } from "../page-tree.ts";
import { linkedThings } from "./linked-data.ts";

/** What a page says of itself. `next`: the address to which it leads on by itself, as it is written. */
export type Metadata = {
  title?: string;
  description?: string;
  published?: string;
  language?: string;
  base?: string;
  next?: string;
};

/** A page that leads on to another later than this is there to be read, seconds. */
const MAX_STAY = 5;
/** `0; url=next.html`, in all the ways in which it is written (HTML, "shared declarative refresh steps"). */
const REFRESH = /^\s*(\d{1,4})(?:\.[\d.]*)?\s*[;,]\s*(?:url\s*=\s*)?(["']?)(.+?)\2\s*$/is;

/** Longer ones are not read, characters: {@link REFRESH} takes a time that grows with the square of their blanks. */
const MAX_REFRESH = 4_096;

/** Characters of a document's title. */
export const MAX_TITLE = 300;
/** Characters of what a document says it is about. */
const MAX_DESCRIPTION = 2_000;
/** Characters of the longest date. */
const MAX_DATE = 60;
/** Characters of a language's tag that are read (RFC 5646, 4.4.1). */
const MAX_LANGUAGE = 35;

/** Names of a page's date, the surest first. The last one is also said of works that a page refers to (Springer's articles). */
const DATES = [
  "article:published_time",
  "og:article:published_time",
  "date",
  "dc.date",
  "dc.date.issued",
  "dcterms.created",
  "pubdate",
  "citation_publication_date",
  "sailthru.date",
  "datepublished",
];

const HAS_TIME = /\d:\d{2}/;
/** A time that says of which zone it is: `Z`, `+02:00`, `EST`, perhaps with the zone's name in brackets behind it. */
const ZONED = /\d:\d{2}.*(?:z|[a-z]{3,4}|[+-]\d{2}:?\d{2})\s*(?:\([^()]*\))?$/i;

/** A date or time for the runtime's parser. Where it names no zone it gets UTC: the parser would take this machine's. */
function inZone(text: string): string {
  if (ZONED.test(text)) return text;
  return /T[\d:.]+$/i.test(text) ? `${text}Z` : `${text} UTC`;
}

/** `01.03.2026`: with dots the day comes first, where the runtime's parser would read the month. */
const DOTTED = /^(\d{1,2})\.\s?(0?[1-9]|1[0-2])\.\s?(\d{4})(?!\d)/;
const isoOrder = (_all: string, day: string, month: string, year: string) =>
  `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;

/**
 * `10/05/2026`: with strokes the day comes first in languages that write dates so. Where a language has dots or dashes, strokes are a program's, which has learnt
 * them in the United States.
 */
const STROKED = /^(\d{1,2})\/(0?[1-9]|1[0-2])\/(\d{4})(?!\d)/;
const DAY_FIRST = /^(?:(?:ca|el|es|fr|gl|it|pt|vi)\b|en[-_](?:au|gb|ie|in|nz|za)$)/i;

/**
 * A date as ISO 8601: a day where only a day was said. Undefined for what is no date. `language`: that of what says it, as a tag; absent where it is not known,
 * and the month is taken to come first.
 */
export function isoDate(text: string | undefined, language = ""): string | undefined {
  const written = (text?.trim() ?? "").replace(DOTTED, isoOrder);
  const trimmed = DAY_FIRST.test(language) ? written.replace(STROKED, isoOrder) : written;
  if (trimmed.length > MAX_DATE || !/\d{4}/.test(trimmed)) return undefined;
  const day = /^(\d{4})[-/](\d{2})[-/](\d{2})$/.exec(trimmed);
  const at = Date.parse(day ? `${day[1]}-${day[2]}-${day[3]}T00:00:00Z` : inZone(trimmed));
  if (Number.isNaN(at)) return undefined;
  const iso = new Date(at).toISOString();
  return HAS_TIME.test(trimmed) ? iso.replace(".000Z", "Z") : iso.slice(0, 10);
}

/** Names and values of the page's meta elements, the first of each name. */
function readMeta(root: Element): Map<string, string> {
  const meta = new Map<string, string>();
  for (const { name, attributes } of walkElements(root)) {
    if (name !== "meta") continue;
    const key = (attributes["property"] ?? attributes["name"] ?? attributes["itemprop"] ?? "").toLowerCase();
    const content = attributes["content"];
    if (key !== "" && content && !meta.has(key)) meta.set(key, content);
  }
  return meta;
}

/** Where a page leads on by itself, at once or after a moment. */
function readNext(root: Element): string | undefined {
  for (const { name, attributes } of walkElements(root)) {
    if (name !== "meta" || attributes["http-equiv"]?.trim().toLowerCase() !== "refresh") continue;
    const content = attributes["content"] ?? "";
    const [, stay, , next] = content.length > MAX_REFRESH ? [] : (REFRESH.exec(content) ?? []);
    if (next !== undefined && Number(stay) <= MAX_STAY) return next;
  }
  return undefined;
}

/** The address of the first `base` element that has one (HTML standard); others say in which window links open. */
function readBase(root: Element): string | undefined {
  for (const { name, attributes } of walkElements(root)) {
    if (name === "base" && attributes["href"] !== undefined) return attributes["href"];
  }
  return undefined;
}

/** The date in a page's structured data. */
function linkedDate(root: Element, language: string | undefined): string | undefined {
  for (const { datePublished: date } of linkedThings(root)) {
    const found = typeof date === "string" ? isoDate(date, language) : undefined;
    if (found) return found;
  }
  return undefined;
}

function timeElement(root: Element): string | undefined {
  for (const { name, attributes } of walkElements(root)) {
    if (name === "time" && (attributes["pubdate"] !== undefined || attributes["itemprop"] === "datePublished")) {
      return isoDate(attributes["datetime"]);
    }
  }
  return undefined;
}

/** Title, description, date, language and base address of a page, from wherever it names them. */
export function readMetadata(root: Element): Metadata {
  const meta = readMeta(root);
  const own = findElement(root, "title");
  const title = cutText(squeeze(meta.get("og:title") ?? (own ? textOf(own) : "")), MAX_TITLE);
  const description = cutText(squeeze(meta.get("description") ?? meta.get("og:description") ?? ""), MAX_DESCRIPTION);
  const language = findElement(root, "html")?.attributes["lang"]?.slice(0, MAX_LANGUAGE);
  const dated = DATES.map((name) => isoDate(meta.get(name), language)).find((date) => date !== undefined);
  const published = dated ?? linkedDate(root, language) ?? timeElement(root);
  const base = readBase(root);
  const next = readNext(root);
  return {
    ...(title !== "" && { title }),
    ...(description !== "" && { description }),
    ...(published && { published }),
    ...(language && { language }),
    ...(base && { base }),
    ...(next && { next }),
  };
}
