import { stringOf } from "../../lib/json.ts";
import { firstText, keyHeader, resultsOf, type SearchEngine, withDate } from "./engine.ts";

/** Perplexity's search: its arguments have the interface's own names (web-and-mcp.md B1, B2). */
export const perplexity: SearchEngine = {
  id: "perplexity",
  baseUrl: "https://api.perplexity.ai",
  env: "PERPLEXITY_API_KEY",
  keys: "key",
  most: 20,
  toCall({ query, include, exclude, recency, country }, { baseUrl, apiKey, count }) {
    const domains = [...include, ...exclude.map((host) => `-${host}`)];
    return {
      method: "POST",
      url: `${baseUrl}/search`,
      headers: keyHeader("authorization", apiKey, "Bearer "),
      body: {
        query,
        max_results: count,
        ...(domains.length > 0 && { search_domain_filter: domains }),
        ...(recency && { search_recency_filter: recency }),
        ...(country && { country }),
      },
      unmet: [],
    };
  },
  read(answer) {
    return resultsOf(answer["results"])?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["url"]),
      snippet: stringOf(each["snippet"]),
      ...withDate(firstText(each["date"], each["last_updated"])),
    }));
  },
};
