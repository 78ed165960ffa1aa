import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createLog } from "../../src/observe/log.ts";
import type { SearchEngineId } from "../../src/web/search/engine.ts";
import type { Recency, SearchQuery } from "../../src/web/search/query.ts";
import { ENGINES, WebSearch } from "../../src/web/search/search.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { type Call, json, startUpstream, type Upstream } from "../support/upstream.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const NEVER = new AbortController().signal;

let upstream: Upstream;
let clock: ManualClock;
beforeEach(() => {
  upstream = startUpstream();
  clock = manualClock(NOW);
});
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.close();
});

const QUERY: SearchQuery = {
  query: "solar cells",
  maxResults: 5,
  include: [],
  exclude: [],
  recency: undefined,
  country: undefined,
};

/** What an engine's own documentation calls its path, and an answer as it gives one, with a page that comes twice. */
const WIRES: Record<Exclude<SearchEngineId, "fixture">, { path: string; answer: unknown }> = {
  brave: {
    path: "/web/search",
    answer: {
      type: "search",
      query: { original: "solar cells" },
      web: {
        type: "search",
        results: [
          {
            title: "Solar <strong>cells</strong> &amp; more",
            url: "https://www.example.com/a?utm_source=x",
            description: "All about <strong>cells</strong>.",
            page_age: "2026-11-20T08:00:00",
            age: "1 day ago",
          },
          { title: "Again", url: "http://example.com/a/", description: "" },
          { title: "No date", url: "https://b.example.org/", description: "B &#x27;quoted&#39;", age: "3 days ago" },
        ],
      },
    },
  },
  tavily: {
    path: "/search",
    answer: {
      query: "solar cells",
      answer: null,
      results: [
        {
          title: "Solar cells & more",
          url: "https://www.example.com/a?utm_source=x",
          content: "All about cells.",
          score: 0.9,
          published_date: "Fri, 20 Nov 2026 08:00:00 GMT",
        },
        { title: "Again", url: "http://example.com/a/", content: "" },
        { title: "No date", url: "https://b.example.org/", content: "B 'quoted'", published_date: "2026-11-18" },
      ],
    },
  },
  exa: {
    path: "/search",
    answer: {
      requestId: "1",
      results: [
        {
          title: "Solar cells & more",
          url: "https://www.example.com/a?utm_source=x",
          highlights: ["All about cells."],
          publishedDate: "2026-11-20T08:00:00.000Z",
        },
        { title: null, url: "http://example.com/a/" },
        { title: "No date", url: "https://b.example.org/", text: "B 'quoted'", publishedDate: "2026-11-18" },
      ],
      costDollars: { total: 0.005 },
    },
  },
  perplexity: {
    path: "/search",
    answer: {
      id: "1",
      results: [
        {
          title: "Solar cells & more",
          url: "https://www.example.com/a?utm_source=x",
          snippet: "All about cells.",
          date: "2026-11-20T08:00:00Z",
          last_updated: "2026-11-21",
        },
        { title: "Again", url: "http://example.com/a/", snippet: "" },
        {
          title: "No date",
          url: "https://b.example.org/",
          snippet: "B 'quoted'",
          date: null,
          last_updated: "2026-11-18",
        },
      ],
    },
  },
  serper: {
    path: "/search",
    answer: {
      searchParameters: { q: "solar cells" },
      organic: [
        {
          title: "Solar cells & more",
          link: "https://www.example.com/a?utm_source=x",
          snippet: "All about cells.",
          date: "28 hours ago",
          position: 1,
        },
        { title: "Again", link: "http://example.com/a/", snippet: "" },
        { title: "No date", link: "https://b.example.org/", snippet: "B 'quoted'", date: "Nov 18, 2026" },
      ],
    },
  },
  searxng: {
    path: "/search",
    answer: {
      query: "solar cells",
      number_of_results: 0,
      results: [
        {
          title: "Solar cells & more",
          url: "https://www.example.com/a?utm_source=x",
          content: "All about cells.",
          publishedDate: "2026-11-20T08:00:00",
        },
        { title: "Again", url: "http://example.com/a/", content: "" },
        { title: "No date", url: "https://b.example.org/", content: "B 'quoted'", publishedDate: "2026-11-18" },
      ],
    },
  },
};

const NAMES = Object.keys(WIRES) as (keyof typeof WIRES)[];

function searchWith(engine: SearchEngineId, apiKey?: string) {
  const log = createLog({ level: "silent" });
  const sources = [{ engine, baseUrl: upstream.url, ...(apiKey && { apiKey }) }];
  return new WebSearch({ clock, log, userAgent: "sluice/test", sources });
}

/** Searches with an engine, and gives what reached it beside what it came to. */
async function ask(engine: keyof typeof WIRES, changes: Partial<SearchQuery> = {}, apiKey = "the-key") {
  upstream.answer(WIRES[engine].path, json(WIRES[engine].answer));
  const answer = await searchWith(engine, apiKey).search({ ...QUERY, ...changes }, NEVER);
  const call = upstream.calls.at(-1) as Call;
  return {
    call,
    answer,
    sent: call.method === "GET" ? Object.fromEntries(new URLSearchParams(call.query)) : call.json,
  };
}

describe("each engine's results", () => {
  test("every engine of the network has a fake here", () => {
    expect(ENGINES.map(({ id }) => id as string).sort()).toEqual([...NAMES].sort());
  });

  test.each(NAMES)("%s: title, URL, snippet, source and date; each page once", async (engine) => {
    const { answer } = await ask(engine);
    expect(answer).toEqual({
      engine,
      attempts: 1,
      cached: false,
      notes: [],
      results: [
        {
          rank: 1,
          title: "Solar cells & more",
          url: "https://www.example.com/a?utm_source=x",
          snippet: "All about cells.",
          source: "example.com",
          date: "2026-11-20T08:00:00.000Z",
        },
        {
          rank: 2,
          title: "No date",
          url: "https://b.example.org/",
          snippet: "B 'quoted'",
          source: "b.example.org",
          date: "2026-11-18",
        },
      ],
    });
  });

  test.each(NAMES)("%s: filters are applied again on this side", async (engine) => {
    const urls = async (changes: Partial<SearchQuery>) => {
      const { answer } = await ask(engine, changes);
      return answer.results.map(({ url }) => new URL(url).hostname);
    };
    expect(await urls({ include: ["example.org"] })).toEqual(["b.example.org"]);
    expect(await urls({ exclude: ["example.org"] })).toEqual(["www.example.com"]);
    expect(await urls({ include: ["ample.com"] })).toEqual([]);
    expect(await urls({ recency: "day" })).toEqual([]);
    expect(await urls({ recency: "week" })).toEqual(["www.example.com", "b.example.org"]);
    expect(await urls({ maxResults: 1 })).toEqual(["www.example.com"]);
  });

  test.each(NAMES)("%s: whatever else its list holds is no result", async (engine) => {
    const list = [null, 1, {}, { url: "javascript:1", link: 4 }];
    for (const results of [[], list]) {
      upstream.answer(WIRES[engine].path, json({ results, web: { results }, organic: results }));
      expect((await searchWith(engine, "the-key").search(QUERY, NEVER)).results).toEqual([]);
    }
  });

  test.each(NAMES)("%s: an answer without a list does not say that there is nothing", async (engine) => {
    for (const answer of [{}, { error: "no" }, { results: 5, web: null, organic: {} }, { web: { results: {} } }]) {
      upstream.answer(WIRES[engine].path, json(answer));
      const work = searchWith(engine, "the-key").search(QUERY, NEVER);
      await expect(work).rejects.toMatchObject({ code: "upstream_error" });
    }
  });

  test.each([
    ["brave", { type: "search", query: { original: "solar cells" }, mixed: {} }],
    ["serper", { searchParameters: { q: "solar cells" }, credits: 1 }],
  ] as const)("%s leaves its list out where nothing was found", async (engine, answer) => {
    upstream.answer(WIRES[engine].path, json(answer));
    expect((await searchWith(engine, "the-key").search(QUERY, NEVER)).results).toEqual([]);
  });
});

describe("each engine is told the five arguments in its own words", () => {
  const all = { include: ["a.example", "b.example"], recency: "week", country: "DE" } as const;
  const BASE = "content-type user-agent accept authorization x-api-key x-subscription-token x-tavily-access-mode".split(
    " ",
  );
  const told = (call: Call) =>
    Object.fromEntries(BASE.flatMap((name) => (call.headers[name] ? [[name, call.headers[name]]] : [])));
  const POSTED = { "content-type": "application/json", "user-agent": "sluice/test", accept: "application/json" };

  test("brave", async () => {
    const plain = await ask("brave");
    expect(plain.call.method).toBe("GET");
    expect(told(plain.call)).toEqual({
      "user-agent": "sluice/test",
      accept: "application/json",
      "x-subscription-token": "the-key",
    });
    expect(plain.sent).toEqual({ q: "solar cells", count: "5", text_decorations: "false", result_filter: "web" });
    expect((await ask("brave", all)).sent).toMatchObject({
      ...{ q: "solar cells (site:a.example OR site:b.example)", count: "10", freshness: "pw", country: "DE" },
    });
    expect((await ask("brave", { exclude: ["a.example"], maxResults: 20 })).sent).toMatchObject({
      ...{ q: "solar cells -site:a.example", count: "20" },
    });
    // More than is wanted, as some will be taken out again.
    expect((await ask("brave", { exclude: ["a.example"] })).sent).toMatchObject({ count: "10" });
    expect((await ask("brave", { include: ["a.example"] })).sent).toMatchObject({ q: "solar cells site:a.example" });
    const unmet = await ask("brave", { recency: "hour", country: "ZW", query: "w ".repeat(60).trim() });
    expect(unmet.sent).toMatchObject({ freshness: "pd", q: "w ".repeat(50).trim() });
    expect(unmet.sent).not.toHaveProperty("country");
    expect(unmet.answer.notes).toHaveLength(3);
    const halved = await ask("brave", { query: `${"w".repeat(399)}😀` });
    expect(halved.sent).toMatchObject({ q: "w".repeat(399) });
  });

  test("tavily", async () => {
    const plain = await ask("tavily");
    expect(told(plain.call)).toEqual({ ...POSTED, authorization: "Bearer the-key" });
    expect(plain.sent).toEqual({ query: "solar cells", max_results: 5 });
    expect((await ask("tavily", all)).sent).toEqual({
      ...{ query: "solar cells", max_results: 10, include_domains: ["a.example", "b.example"], time_range: "week" },
      country: "germany",
    });
    expect((await ask("tavily", { exclude: ["a.example"], recency: "hour", country: "CZ" })).sent).toEqual({
      ...{ query: "solar cells", max_results: 10, exclude_domains: ["a.example"], max_hours: 1 },
      country: "czech republic",
    });
    const unmet = await ask("tavily", { country: "AQ" });
    expect([unmet.sent, unmet.answer.notes.length]).toEqual([{ query: "solar cells", max_results: 5 }, 1]);
  });

  test("tavily without a key", async () => {
    const { call } = await ask("tavily", {}, "");
    expect(told(call)).toEqual({ ...POSTED, "x-tavily-access-mode": "keyless" });
  });

  test("exa", async () => {
    const contents = { highlights: { maxCharacters: 600 } };
    const plain = await ask("exa");
    expect(told(plain.call)).toEqual({ ...POSTED, "x-api-key": "the-key" });
    expect(plain.sent).toEqual({ query: "solar cells", type: "auto", numResults: 5, contents });
    expect((await ask("exa", all)).sent).toEqual({
      ...{ query: "solar cells", type: "auto", numResults: 10, includeDomains: ["a.example", "b.example"] },
      ...{ startPublishedDate: "2026-11-14T12:00:00.000Z", userLocation: "DE", contents },
    });
    expect((await ask("exa", { exclude: ["a.example"] })).sent).toMatchObject({ excludeDomains: ["a.example"] });
  });

  test("perplexity", async () => {
    const plain = await ask("perplexity");
    expect(told(plain.call)).toEqual({ ...POSTED, authorization: "Bearer the-key" });
    expect(plain.sent).toEqual({ query: "solar cells", max_results: 5 });
    expect((await ask("perplexity", all)).sent).toEqual({
      ...{ query: "solar cells", max_results: 10, search_domain_filter: ["a.example", "b.example"] },
      ...{ search_recency_filter: "week", country: "DE" },
    });
    expect((await ask("perplexity", { exclude: ["a.example"] })).sent).toMatchObject({
      search_domain_filter: ["-a.example"],
    });
  });

  test("serper", async () => {
    const plain = await ask("serper");
    expect(told(plain.call)).toEqual({ ...POSTED, "x-api-key": "the-key" });
    expect(plain.sent).toEqual({ q: "solar cells", num: 5 });
    expect((await ask("serper", all)).sent).toEqual({
      ...{ q: "solar cells (site:a.example OR site:b.example)", num: 10, tbs: "qdr:w", gl: "de" },
    });
    expect((await ask("serper", { exclude: ["a.example", "b.example"] })).sent).toMatchObject({
      q: "solar cells -site:a.example -site:b.example",
    });
  });

  test("searxng", async () => {
    const plain = await ask("searxng");
    expect(told(plain.call)).toEqual({ "user-agent": "sluice/test", accept: "application/json" });
    expect(plain.sent).toEqual({ q: "solar cells", format: "json" });
    const filtered = await ask("searxng", all);
    expect(filtered.sent).toEqual({
      ...{
        q: "solar cells (site:a.example OR site:b.example)",
        format: "json",
        time_range: "month",
        language: "de-DE",
      },
    });
    expect(filtered.answer.notes).toHaveLength(2);
  });

  test.each([
    ["brave", "freshness", { hour: "pd", day: "pd", week: "pw", month: "pm", year: "py" }],
    ["tavily", "time_range", { hour: undefined, day: "day", week: "week", month: "month", year: "year" }],
    ["perplexity", "search_recency_filter", { hour: "hour", day: "day", week: "week", month: "month", year: "year" }],
    ["serper", "tbs", { hour: "qdr:h", day: "qdr:d", week: "qdr:w", month: "qdr:m", year: "qdr:y" }],
    ["searxng", "time_range", { hour: "day", day: "day", week: "month", month: "month", year: "year" }],
  ] as const)("%s: every recency", async (engine, field, words) => {
    for (const [recency, word] of Object.entries(words)) {
      const { sent } = await ask(engine, { recency: recency as Recency });
      expect((sent as Record<string, unknown>)[field]).toBe(word as string);
    }
  });
});
