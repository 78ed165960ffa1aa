import { stringOf } from "../../lib/json.ts";
import { resultsOf, type SearchEngine, withDate } from "./engine.ts";
import { type Recency, withSites } from "./query.ts";

const BOUNDS = { maxCharacters: 2_048, maxWords: 200 };

/** The documented three. A shorter time is asked for as the next longer one, and the rest is done by dates. */
const TIME_RANGE: Readonly<Record<Recency, string>> = {
  ...{ hour: "day", day: "day", week: "month", month: "month", year: "year" },
};

/** The language most of a country's pages are in, as the tables of the languages have it; undefined where they have none. */
function languageOf(country: string): string | undefined {
  try {
    const { language, region } = new Intl.Locale(`und-${country}`).maximize();
    // Unknown countries come out as the table's default.
    return language === "und" || region !== country ? undefined : `${language}-${country}`;
  } catch {
    return undefined;
  }
}

/**
 * A SearXNG of the operator's own (web-and-mcp.md B1, B2). It asks many engines, not all of which know times, sites or regions: that is why the
 * filters count as not said exactly.
 */
export const searxng: SearchEngine = {
  id: "searxng",
  baseUrl: undefined,
  env: "SEARXNG_URL",
  keys: "none",
  most: 100,
  toCall(query, { baseUrl }) {
    const { recency, country } = query;
    const language = country && languageOf(country);
    const parameters = new URLSearchParams({
      q: withSites(query, BOUNDS),
      format: "json",
      ...(recency && { time_range: TIME_RANGE[recency] }),
      ...(language && { language }),
    });
    return {
      method: "GET",
      url: `${baseUrl}/search?${parameters}`,
      headers: {},
      unmet: [...(recency ? (["recency"] as const) : []), ...(country ? (["country"] as const) : [])],
    };
  },
  read(answer) {
    return resultsOf(answer["results"])?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["url"]),
      snippet: stringOf(each["content"]),
      ...withDate(stringOf(each["publishedDate"])),
    }));
  },
  isPartial(answer) {
    const silent = answer["unresponsive_engines"];
    return Array.isArray(silent) && silent.length > 0;
  },
};
