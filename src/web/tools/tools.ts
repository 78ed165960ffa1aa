import { isObject } from "../../lib/json.ts";
import { errorFields } from "../../observe/log.ts";
import { checker, type Fault } from "../../wire/open.ts";
import { DEFAULT_RESULTS, FetchArguments, RECENCIES, SearchArguments } from "../../wire/web.ts";
import { ReaderPool } from "../extract/pool.ts";
import { fetchPages, pageOf } from "../fetch/pages.ts";
import type { PageResult } from "../fetch/results.ts";
import { PageShelf } from "../fetch/shelf.ts";
import type { SafeFetch } from "../safe-fetch/safe-fetch.ts";
import { parseDomains, type SearchQuery } from "../search/query.ts";
import { type SearchAnswer, type SearchSource, WebSearch } from "../search/search.ts";
import { type MeterParts, type WebCall, WebMeter, type WebUsage } from "./meter.ts";

export type WebToolParts = MeterParts & {
  safeFetch: SafeFetch;
  userAgent: string;
  /** Search engines that are on, in order. */
  sources: readonly SearchSource[];
};

/** A search's results; `query` is the text that was searched for. */
export type Searched = SearchAnswer & { query: string };

/** The vendor of fetched pages in the usage rows: this gateway itself. */
const OWN_VENDOR = "sluice";

const checkSearch = checker(SearchArguments);
const checkFetch = checker(FetchArguments);

/** Sentences about arguments for which the schema's own would be hard to read. */
const EXPECTED: ReadonlyMap<string, string> = new Map([
  ["search_recency_filter", `search_recency_filter must be one of ${RECENCIES.join(", ")}`],
  ["country", "country must be two letters, such as US"],
]);

const readable = (fault: Fault): Fault => ({ ...fault, message: EXPECTED.get(fault.param) ?? fault.message });

/** Arguments without those that are null: many models, and programs that build them from classes (CrewAI, LibreChat), write null for what they leave out. */
const withoutNulls = (body: unknown) =>
  isObject(body) ? Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null)) : body;

/** A list that is written as JSON inside a string. */
function readList(text: string): unknown[] | undefined {
  if (!text.trimStart().startsWith("[")) return undefined;
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : undefined;
  } catch {
    // It is no list: it is taken as one URL, which is then refused.
    return undefined;
  }
}

/** Arguments whose `urls` is a string, as a list: models often give one URL without a list (web-and-mcp.md A3), and some put the list into a string. */
function withList(body: unknown): unknown {
  if (!isObject(body) || typeof body["urls"] !== "string") return body;
  return { ...body, urls: readList(body["urls"]) ?? [body["urls"]] };
}

/**
 * `web_search` and `web_fetch`, which the MCP server, the standalone endpoints and a model's loop call alike: they share engines, allowance and meter
 * (interface 8).
 */
export class WebTools {
  readonly #meter: WebMeter;
  readonly #search: WebSearch;
  readonly #reader: ReaderPool;
  readonly #shelf: PageShelf;

  constructor(private readonly parts: WebToolParts) {
    const { clock, log, userAgent, sources } = parts;
    this.#meter = new WebMeter(parts);
    this.#search = new WebSearch({ clock, log, userAgent, sources });
    this.#reader = new ReaderPool(clock);
    this.#shelf = new PageShelf(clock);
  }

  /** Searches the web: one call of the allowance. Throws GatewayError as `WebMeter.run` and `WebSearch.search` do, and the signal's reason. */
  search(query: SearchQuery, call: WebCall): Promise<Searched> {
    return this.#meter.run(call, "web_search", 1, async () => {
      const answer = await this.#search.search(query, call.signal);
      const upstreamModel = answer.cached ? "cache" : "search";
      const { engine: vendor, attempts } = answer;
      return { used: 1, vendor, upstreamModel, attempts, value: { ...answer, query: query.query } };
    });
  }

  /**
   * Reads pages, one result for each URL, in order. Each page that is read counts as one call of the allowance, equal URLs as one together, and a
   * page that could not be read as none. Throws GatewayError as `WebMeter.run` does, and the signal's reason.
   */
  fetch(urls: readonly string[], maxContentTokens: number | undefined, call: WebCall): Promise<PageResult[]> {
    const units = new Set(urls.map(pageOf)).size;
    const { clock, safeFetch, log } = this.parts;
    return this.#meter.run(call, "web_fetch", units, async () => {
      const services = {
        ...{ clock, safeFetch, reader: this.#reader, shelf: this.#shelf },
        onFault: (thrown: unknown) => log.error("web-fetch", errorFields(thrown)),
      };
      const options = { signal: call.signal, ...(maxContentTokens !== undefined && { maxContentTokens }) };
      const value = await fetchPages(urls, options, services);
      const read = new Set(value.filter(({ status }) => status === "ok").map(({ url }) => pageOf(url)));
      return { used: read.size, vendor: OWN_VENDOR, upstreamModel: "fetch", attempts: 1, value };
    });
  }

  /** See `WebMeter.usage`. */
  usage(caller: WebCall["caller"]): WebUsage {
    return this.#meter.usage(caller);
  }

  /** See `WebMeter.recover`. */
  recover(): Promise<void> {
    return this.#meter.recover();
  }

  /** Ends the threads that read pages. */
  stop(): void {
    this.#reader.stop();
  }
}

/** The country's code in ISO 3166. Many write `UK`, which it keeps free, for `GB`; engines know only the latter. */
const countryOf = (code: string) => (code === "UK" ? "GB" : code);

/** The arguments of `web_search` as a query, or the first fault. An argument that is null counts as absent; an unknown one is a fault. */
export function readSearchArguments(body: unknown): SearchQuery | Fault {
  const given = withoutNulls(body);
  const fault = checkSearch(given);
  if (fault) return readable(fault);
  const { query, max_results, search_domain_filter, search_recency_filter, country } = given as SearchArguments;
  const text = query
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .toWellFormed();
  if (text === "") return { param: "query", message: "query must have something in it" };
  const domains = parseDomains(search_domain_filter ?? []);
  if (typeof domains === "string")
    return { param: "search_domain_filter", message: `search_domain_filter: ${domains}` };
  return {
    query: text,
    maxResults: max_results ?? DEFAULT_RESULTS,
    ...domains,
    recency: search_recency_filter,
    country: country && countryOf(country.toUpperCase()),
  };
}

/** The arguments of `web_fetch`, or the first fault. An argument that is null counts as absent; an unknown one is a fault. */
export function readFetchArguments(body: unknown): FetchArguments | Fault {
  const listed = withList(withoutNulls(body));
  return checkFetch(listed) ?? (listed as FetchArguments);
}

/** Whether what was read of arguments is a fault. */
export const isFault = (read: object): read is Fault => "message" in read && "param" in read;
