import { cutText } from "../../lib/cut-text.ts";
import { DAY_MS, HOUR_MS } from "../../lib/spans.ts";
import type { RECENCIES } from "../../wire/web.ts";

export type Recency = (typeof RECENCIES)[number];

/** How far back each reaches, milliseconds; a month is its longest, and so is a year. */
export const RECENCY_MS: Readonly<Record<Recency, number>> = {
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 31 * DAY_MS,
  year: 366 * DAY_MS,
};

/** A search's arguments, checked and in one form. */
export type SearchQuery = {
  query: string;
  /** 1 to 20. */
  maxResults: number;
  /** Hosts, small letters, without `www.`: results come from these and what lies below them. Empty: from anywhere. */
  include: readonly string[];
  /** Hosts that no result comes from. Never beside `include`. */
  exclude: readonly string[];
  recency: Recency | undefined;
  /** ISO 3166, two capital letters. */
  country: string | undefined;
};

/** A result as an engine gave it, its texts unchanged. */
export type RawResult = {
  title: string;
  url: string;
  snippet: string;
  /** The publisher's own name, where the engine tells it. */
  source?: string;
  date?: string;
};

/** A result as it is shown. `date`: ISO 8601, of the day or of the moment. */
export type SearchResult = {
  rank: number;
  title: string;
  url: string;
  snippet: string;
  source: string;
  date: string | null;
};

const HOST = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9-]{2,63}$/;

/** One entry of a domain filter as a host: `https://www.Example.com/` is `example.com`, `.gov` is `gov`; undefined for anything else. */
function toHost(written: string): string | undefined {
  const bare = written
    .trim()
    .replace(/^https?:\/\//i, "")
    .replace(/\/$/, "")
    .replace(/^\*?\./, "");
  // A path, port or user is refused: it would have no effect.
  if (bare === "" || bare.length > 253 || /[/:@?#\s\\]/.test(bare)) return undefined;
  const host = URL.parse(`http://${bare}/`)
    ?.hostname.replace(/\.$/, "")
    .replace(/^www\./, "");
  return host !== undefined && HOST.test(host) ? host : undefined;
}

/**
 * A domain filter taken apart: hosts to search in, or, with a `-` before them, hosts to leave out. Returns a sentence where it is not valid: an entry
 * is no host, or both kinds stand together (web-and-mcp.md A3).
 */
export function parseDomains(entries: readonly string[]): { include: string[]; exclude: string[] } | string {
  const include = new Set<string>();
  const exclude = new Set<string>();
  for (const entry of entries) {
    const denies = entry.trim().startsWith("-");
    const host = toHost(denies ? entry.trim().slice(1) : entry);
    if (host === undefined)
      return "each entry must be a host name such as example.com, or -example.com to leave it out";
    (denies ? exclude : include).add(host);
  }
  if (include.size > 0 && exclude.size > 0) return "hosts to keep to and hosts to leave out cannot be mixed";
  return { include: [...include], exclude: [...exclude] };
}

/** Whether `host` is `domain` or lies below it. Both in small letters. */
export const isBelow = (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`);

/**
 * The query with `site:` operators, for engines that take domains in no other way (web-and-mcp.md B1). Operators that do not fit the
 * engine's bounds are left out: the filter is applied to the results again.
 */
export function withSites(
  { query, include, exclude }: SearchQuery,
  { maxCharacters, maxWords }: { maxCharacters: number; maxWords: number },
): string {
  const fits = (text: string) => text.length <= maxCharacters && text.split(/\s+/).length <= maxWords;
  const own = cutText(query.split(/\s+/).slice(0, maxWords).join(" "), maxCharacters);
  const group = include.map((host) => `site:${host}`).join(" OR ");
  if (group !== "") {
    const whole = `${own} ${include.length > 1 ? `(${group})` : group}`;
    return fits(whole) ? whole : own;
  }
  let text = own;
  for (const host of exclude) if (fits(`${text} -site:${host}`)) text += ` -site:${host}`;
  return text;
}
