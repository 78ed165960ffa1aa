import { isObject, objectsOf, stringOf } from "../../lib/json.ts";
import { firstText, keyHeader, resultsOf, type SearchEngine, withDate } from "./engine.ts";
import { type Recency, withSites } from "./query.ts";

/** The longest query that Brave takes. */
const BOUNDS = { maxCharacters: 400, maxWords: 50 };

/** Its shortest time is a day. */
const FRESHNESS: Readonly<Record<Recency, string>> = { hour: "pd", day: "pd", week: "pw", month: "pm", year: "py" };

/** Countries that Brave takes; any other is refused with 422. */
const COUNTRIES = new Set(
  "AR AU AT BE BR CA CL DK FI FR DE GR HK IN ID IT JP KR MY MX NL NZ NO CN PL PT PH RU SA ZA ES SE CH TW TR GB US".split(
    " ",
  ),
);

/** Stands for `web`, which an answer lacks where nothing was found (osovv/vv-opencode 1.3.8). It repeats what was asked for all the same. */
const NOTHING = { results: [] };

/** Brave's web search (web-and-mcp.md B1, B2). */
export const brave: SearchEngine = {
  id: "brave",
  baseUrl: "https://api.search.brave.com/res/v1",
  env: "BRAVE_API_KEY",
  keys: "key",
  most: 20,
  toCall(query, { baseUrl, apiKey, count }) {
    const { recency, country } = query;
    const served = country !== undefined && COUNTRIES.has(country);
    const parameters = new URLSearchParams({
      q: withSites(query, BOUNDS),
      count: String(count),
      text_decorations: "false",
      result_filter: "web",
      ...(recency && { freshness: FRESHNESS[recency] }),
      ...(served && { country }),
    });
    const long = query.query.split(/\s+/).length > BOUNDS.maxWords;
    return {
      method: "GET",
      url: `${baseUrl}/web/search?${parameters}`,
      headers: keyHeader("x-subscription-token", apiKey),
      unmet: [
        ...(recency === "hour" ? (["recency"] as const) : []),
        ...(country !== undefined && !served ? (["country"] as const) : []),
        ...(long ? (["length"] as const) : []),
      ],
    };
  },
  read(answer) {
    const { web = isObject(answer["query"]) ? NOTHING : undefined } = answer;
    return resultsOf(isObject(web) ? web["results"] : undefined)?.map((each) => ({
      title: stringOf(each["title"]),
      url: stringOf(each["url"]),
      snippet: stringOf(each["description"]),
      ...withDate(firstText(each["page_age"], each["age"])),
    }));
  },
  /** A key that is not valid has the status of a query that is not (422, as Brave's reference has it): the code, in `error` or a list of `errors`, tells. */
  kindOf(answer) {
    const { error, errors } = answer;
    const codes = objectsOf([error, ...objectsOf(errors)]).map(({ code }) => stringOf(code));
    return codes.some((code) => code.startsWith("SUBSCRIPTION_TOKEN_")) ? "auth" : undefined;
  },
};
