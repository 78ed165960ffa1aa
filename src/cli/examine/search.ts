import type { Config } from "../../config/load.ts";
import { type Finding, note, ok } from "../findings.ts";

const CHECK = "web search";
const ADVICE = "set the key of a search engine, such as BRAVE_API_KEY, or SEARXNG_URL";

/** Which engines `web_search` asks, in order. None of them is asked here: a search costs. */
export function examineSearch({ search }: Pick<Config, "search">): Finding {
  const [first] = search;
  if (!first) return note(CHECK, "no engine is on", ADVICE);
  const names = search.map(({ engine, apiKey }) => (engine === "tavily" && !apiKey ? "tavily without a key" : engine));
  if (first.engine === "fixture") return note(CHECK, "its results are made up (engine: fixture)");
  if (search.length === 1 && first.engine === "tavily" && !first.apiKey) {
    return note(
      CHECK,
      "tavily without a key, for trying out: all users of this network address share its limit",
      ADVICE,
    );
  }
  return ok(CHECK, names.join(", then "));
}
