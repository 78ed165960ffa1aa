import { stringOf } from "../../lib/json.ts";
import { countryName } from "./countries.ts";
import { keyHeader, resultsOf, type SearchEngine, withDate } from "./engine.ts";
import type { Recency } from "./query.ts";

/** It has an argument of its own for hours. */
const RECENCY: Readonly<Record<Recency, Record<string, unknown>>> = {
  hour: { max_hours: 1 },
  day: { time_range: "day" },
  week: { time_range: "week" },
  month: { time_range: "month" },
  year: { time_range: "year" },
};

const KEYLESS: Record<string, string> = { "x-tavily-access-mode": "keyless" };

/** Tavily's search; without a key its keyless mode, which is meant for trying out (web-and-mcp.md B1, B4). */
export const tavily: SearchEngine = {
  id: "tavily",
  baseUrl: "https://api.tavily.com",
  env: "TAVILY_API_KEY",
  keys: "optional",
  most: 20,
  toCall({ query, include, exclude, recency, country }, { baseUrl, apiKey, count }) {
    const name = country && countryName(country);
    return {
      method: "POST",
      url: `${baseUrl}/search`,
      headers: apiKey ? keyHeader("authorization", apiKey, "Bearer ") : KEYLESS,
      body: {
        query,
        max_results: count,
        ...(include.length > 0 && { include_domains: include }),
        ...(exclude.length > 0 && { exclude_domains: exclude }),
        ...(recency && RECENCY[recency]),
        ...(name && { country: name }),
      },
      unmet: country && !name ? ["country"] : [],
    };
  },
  read(answer) {
    return resultsOf(answer["results"])?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["url"]),
      snippet: stringOf(each["content"]),
      ...withDate(stringOf(each["published_date"])),
    }));
  },
};
