import { stringOf } from "../../lib/json.ts";
import { firstText, keyHeader, resultsOf, type SearchEngine, withDate } from "./engine.ts";
import { RECENCY_MS } from "./query.ts";

/** Characters of each page that are asked for as its snippet. */
const SNIPPET = 600;

function snippetOf(each: Record<string, unknown>): string {
  const highlights = Array.isArray(each["highlights"])
    ? each["highlights"].filter((one) => typeof one === "string")
    : [];
  return firstText(highlights.join(" … "), each["summary"], each["text"]);
}

/** Exa's search (web-and-mcp.md B1, B2). */
export const exa: SearchEngine = {
  id: "exa",
  baseUrl: "https://api.exa.ai",
  env: "EXA_API_KEY",
  keys: "key",
  most: 100,
  toCall({ query, include, exclude, recency, country }, { baseUrl, apiKey, count, now }) {
    return {
      method: "POST",
      url: `${baseUrl}/search`,
      headers: keyHeader("x-api-key", apiKey),
      body: {
        query,
        type: "auto",
        numResults: count,
        ...(include.length > 0 && { includeDomains: include }),
        ...(exclude.length > 0 && { excludeDomains: exclude }),
        ...(recency && { startPublishedDate: new Date(now - RECENCY_MS[recency]).toISOString() }),
        ...(country && { userLocation: country }),
        contents: { highlights: { maxCharacters: SNIPPET } },
      },
      unmet: [],
    };
  },
  read(answer) {
    return resultsOf(answer["results"])?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["url"]),
      snippet: snippetOf(each),
      ...withDate(stringOf(each["publishedDate"])),
    }));
  },
  /** A query against Exa's content policy has the status of a key without rights: that says nothing about the key. */
  kindOf(answer) {
    return answer["tag"] === "PROHIBITED_CONTENT" ? "refused" : undefined;
  },
};
