import { GatewayError } from "../../canon/errors.ts";
import type { Config } from "../../config/load.ts";
import { userAgentOf } from "../../lib/user-agent.ts";
import { fetchUpstream } from "../../vendors/fetch-upstream.ts";
import { type Finding, fault, note, ok } from "../findings.ts";
import { VERSION } from "../version.ts";
import { ANSWER_MS, diagnoseUnreached } from "./vendors.ts";

const CHECK = "web search";
const ADVICE = "set the key of a search engine, such as BRAVE_API_KEY, or SEARXNG_URL";
const SEARXNG_ADVICE = "check SEARXNG_URL, or web.search.engines.searxng.base_url in the configuration file";
/** What a search without words is answered with where one with words would be answered: refused, taken all the same, or asked too often just now. */
const FINE: ReadonlySet<number> = new Set([400, 200, 429]);

/**
 * What keeps a SearXNG of the operator's own from being searched; undefined where nothing does. It is asked for a search without words, which it refuses
 * (400) before it asks anybody, but only where JSON is among its formats: as it is installed that is not so, and every search is a 403.
 */
async function examineSearxng(baseUrl: string): Promise<Finding | undefined> {
  const place = `searxng at ${new URL(baseUrl).host}`;
  try {
    const url = `${baseUrl}/search?format=json`;
    const headers = { "user-agent": userAgentOf(VERSION), accept: "application/json" };
    const { status } = await fetchUpstream("GET", { url, headers, body: "", signal: AbortSignal.timeout(ANSWER_MS) });
    if (status === 403) {
      return fault(
        CHECK,
        `${place} answers, but not in JSON (403)`,
        "put json among search.formats in its settings.yml",
      );
    }
    return FINE.has(status) ? undefined : fault(CHECK, `${place} answered ${status}`, SEARXNG_ADVICE);
  } catch (error) {
    if (!(error instanceof GatewayError)) return fault(CHECK, `${place} does not answer`, SEARXNG_ADVICE);
    if (error.code === "upstream_unreachable") return diagnoseUnreached(CHECK, place, error);
    return fault(CHECK, `${place}: ${error.message}`, SEARXNG_ADVICE);
  }
}

/** Which engines `web_search` asks, in order, and whether a SearXNG can be. None of the others is asked here: a search costs. */
export async function examineSearch({ search }: Pick<Config, "search">): Promise<Finding> {
  const [first] = search;
  if (!first) return note(CHECK, "no engine is on", ADVICE);
  if (first.engine === "fixture") return note(CHECK, "its results are made up (engine: fixture)");
  if (search.length === 1 && first.engine === "tavily" && !first.apiKey) {
    const detail = "tavily without a key, for trying out: all users of this network address share its limit";
    return note(CHECK, detail, ADVICE);
  }
  const names = search.map(({ engine, apiKey }) => (engine === "tavily" && !apiKey ? "tavily without a key" : engine));
  const searxng = search.find(({ engine }) => engine === "searxng")?.baseUrl;
  const trouble = searxng === undefined ? undefined : await examineSearxng(searxng);
  return trouble ?? ok(CHECK, names.join(", then "));
}
