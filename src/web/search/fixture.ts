import { MINUTE_MS, startOf } from "../../lib/spans.ts";
import type { RawResult, SearchQuery } from "./query.ts";

/** Hosts of the made-up results; nobody can own them (RFC 2606). */
const HOSTS = ["docs.example.com", "news.example.org", "blog.example.net", "www.example.com", "wiki.example.org"];
/** Results that it has for every query. */
const RESULTS = 25;

const slugOf = (query: string) =>
  encodeURIComponent(query.toLowerCase().replace(/\s+/g, "-").slice(0, 60).toWellFormed());

/** How old the result at a place is: the first ones are of this hour, the last ones years old; every fifth has no date. */
function ageOf(at: number): number | undefined {
  if (at % 5 === 4) return undefined;
  return at === 0 ? 10 * MINUTE_MS : Math.floor(60 * 2 ** (at * 0.7)) * MINUTE_MS;
}

/**
 * The engine without a network: the same results for the same query, for tests and for trying out. Their dates count back
 * from `now` (Unix ms), in whole minutes. Domains that are asked for have results too; one result comes twice, so that it can be seen
 * that it is shown once.
 */
export function answerFixture({ query, include }: SearchQuery, now: number): RawResult[] {
  const hosts = include.length > 0 ? include : HOSTS;
  const today = startOf(now, MINUTE_MS);
  const results: RawResult[] = [];
  for (let at = 0; at < RESULTS; at++) {
    const age = ageOf(at);
    results.push({
      title: `${query}: result ${at + 1}`,
      url: `https://${hosts[at % hosts.length]}/${slugOf(query)}/${at + 1}`,
      snippet: `Made-up text number ${at + 1} about ${query}. It comes from the built-in test engine.`,
      ...(age !== undefined && { date: new Date(today - age).toISOString() }),
    });
    if (at === 1) results.push({ ...results[0]!, url: `${results[0]!.url}/?utm_source=twice#again` });
  }
  return results;
}
