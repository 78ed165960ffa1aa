import { isObject, stringOf } from "../../lib/json.ts";
import { keyHeader, resultsOf, type SearchEngine, withDate } from "./engine.ts";
import { type Recency, withSites } from "./query.ts";

const BOUNDS = { maxCharacters: 2_048, maxWords: 200 };

const QDR: Readonly<Record<Recency, string>> = { hour: "h", day: "d", week: "w", month: "m", year: "y" };

/** Serper, which asks Google (web-and-mcp.md B1, B2). */
export const serper: SearchEngine = {
  id: "serper",
  baseUrl: "https://google.serper.dev",
  env: "SERPER_API_KEY",
  keys: "key",
  most: 20,
  toCall(query, { baseUrl, apiKey, count }) {
    const { recency, country } = query;
    return {
      method: "POST",
      url: `${baseUrl}/search`,
      headers: keyHeader("x-api-key", apiKey),
      body: {
        q: withSites(query, BOUNDS),
        num: count,
        ...(recency && { tbs: `qdr:${QDR[recency]}` }),
        ...(country && { gl: country.toLowerCase() }),
      },
      unmet: [],
    };
  },
  read(answer) {
    // Where nothing was found there may be no list (assafelovic/gpt-researcher #1373), but the answer repeats what was asked for.
    const { organic = isObject(answer["searchParameters"]) ? [] : undefined } = answer;
    return resultsOf(organic)?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["link"]),
      snippet: stringOf(each["snippet"]),
      ...withDate(stringOf(each["date"])),
    }));
  },
  /** Where an account is used up, the status is that of a bad query: `{"message":"Not enough credits","statusCode":400}`. */
  kindOf(answer) {
    return /\bcredits\b/i.test(stringOf(answer["message"])) ? "busy" : undefined;
  },
};
