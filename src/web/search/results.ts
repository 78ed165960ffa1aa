import { cutText } from "../../lib/cut-text.ts";
import { parseDate } from "./dates.ts";
import { isBelow, type RawResult, RECENCY_MS, type SearchQuery, type SearchResult } from "./query.ts";

/** How much of a result is shown, characters (web-and-mcp.md B2). */
const MAX_TITLE = 300;
const MAX_SNIPPET = 600;
const MAX_SOURCE = 100;
const MAX_URL = 2_048;
/** How much of an engine's text is read, characters. */
const MAX_READ = 20_000;
/** How many of an engine's results are read. */
const MAX_RAW = 200;

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " ", hellip: "…", mdash: "—", ndash: "–" },
  ...{ lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", middot: "·", bull: "•" },
};

function decodeEntity(whole: string, name: string): string {
  if (!name.startsWith("#")) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name]! : whole;
  const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
}

/** Markup in engines' texts, which they write in small letters. Anything else in such brackets may be a program's, as in `Vec<T>`. */
const TAG =
  /<\/?(?:a|abbr|b|big|blockquote|br|cite|code|del|dd|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|kbd|li|mark|ol|p|pre|q|s|samp|script|small|span|strike|strong|style|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var|wbr)(?:\s[^<>]{0,500})?\/?>/g;

/** Controls, and marks that are not seen and turn or hide the text around them. Not those that part and join letters, which Persian is spelt with, and emoji. */
const UNSEEN = /[\p{Cc}\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** An engine's text in one line, without markup and without what cannot be seen, at most `most` characters. */
export function cleanText(written: string, most: number): string {
  const text = cutText(written, MAX_READ)
    .replace(TAG, "")
    .replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]{2,8});/gi, decodeEntity)
    .replace(/\s+/g, " ")
    .replace(UNSEEN, "")
    .trim();
  const cut = text.length > most ? `${cutText(text, most - 1).trimEnd()}…` : text;
  return cut.toWellFormed();
}

/** Query parameters that say where a reader came from, and nothing about the page. */
const TRACKING = /^(?:utm_[a-z_]+|gclid|fbclid|msclkid|mc_cid|mc_eid|igshid|srsltid)$/i;

/** A key that is the same for addresses of the same page (web-and-mcp.md B2). */
export function pageName(url: URL): string {
  const host = url.hostname.replace(/^www\./, "");
  const parameters = [...url.searchParams].filter(([name]) => !TRACKING.test(name));
  const query = parameters.map(([name, value]) => `${name}=${value}`).join("&");
  return `${host}:${url.port}${url.pathname.replace(/\/+$/, "")}?${query}`;
}

function readUrl(written: string): URL | undefined {
  const url = written.length <= MAX_URL ? URL.parse(written) : null;
  return url && (url.protocol === "https:" || url.protocol === "http:") && url.hostname !== "" ? url : undefined;
}

function isWanted(host: string, { include, exclude }: SearchQuery): boolean {
  if (exclude.some((domain) => isBelow(host, domain))) return false;
  return include.length === 0 || include.some((domain) => isBelow(host, domain));
}

/**
 * An engine's results as they are shown: the filters are applied again, whether or not the engine did, each page comes once, and texts are cleaned. A
 * result without a date is kept: it is not known how old it is. `now`: Unix ms.
 */
export function refineResults(raw: readonly RawResult[], query: SearchQuery, now: number): SearchResult[] {
  const results: SearchResult[] = [];
  const seen = new Set<string>();
  const since = query.recency && now - RECENCY_MS[query.recency];
  for (const each of raw.slice(0, MAX_RAW)) {
    if (results.length === query.maxResults) break;
    const url = readUrl(each.url);
    if (!url || !isWanted(url.hostname, query)) continue;
    const name = pageName(url);
    if (seen.has(name)) continue;
    seen.add(name);
    const date = parseDate(each.date, now);
    if (since !== undefined && date && date.untilMs < since) continue;
    const host = url.hostname.replace(/^www\./, "");
    results.push({
      rank: results.length + 1,
      title: cleanText(each.title, MAX_TITLE) || host,
      url: url.href,
      snippet: cleanText(each.snippet, MAX_SNIPPET),
      source: cleanText(each.source ?? "", MAX_SOURCE) || host,
      date: date?.iso ?? null,
    });
  }
  return results;
}
