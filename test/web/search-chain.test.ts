import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLog } from "../../src/observe/log.ts";
import { ENGINE_DEADLINE_MS } from "../../src/web/search/ask.ts";
import { Breaker, FAILURES, FIRST_PAUSE_MS, LONGEST_PAUSE_MS } from "../../src/web/search/breaker.ts";
import { parseDate } from "../../src/web/search/dates.ts";
import { isBelow, parseDomains, RECENCY_MS, type SearchQuery, withSites } from "../../src/web/search/query.ts";
import { cleanText, pageName, refineResults } from "../../src/web/search/results.ts";
import { SEARCH_DEADLINE_MS, type SearchSource, WebSearch } from "../../src/web/search/search.ts";
import { HOUR_SHELF_MS, MAX_SHELF, SearchShelf, SHELF_MS } from "../../src/web/search/shelf.ts";
import { RECENCIES } from "../../src/wire/web.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { rejectionOf } from "../support/fault.ts";
import {
  html,
  json,
  neverAnswer,
  redirect,
  reset,
  startUpstream,
  truncatedJson,
  type Upstream,
} from "../support/upstream.ts";
import { countWork } from "../support/wait.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const NEVER = new AbortController().signal;
const QUERY: SearchQuery = {
  ...{ query: "solar cells", maxResults: 5, include: [], exclude: [], recency: undefined, country: undefined },
};

let first: Upstream;
let second: Upstream;
let clock: ManualClock;
let lines: Record<string, unknown>[];
beforeEach(() => {
  first = startUpstream();
  second = startUpstream();
  clock = manualClock(NOW);
  lines = [];
});
afterEach(() => {
  expect([first.unexpected, second.unexpected]).toEqual([[], []]);
  first.close();
  second.close();
});

const search = (sources: readonly SearchSource[]) =>
  new WebSearch({
    clock,
    log: createLog({ level: "info", write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    userAgent: "sluice/test",
    sources,
  });

const both = () =>
  search([
    { engine: "serper", apiKey: "first-key", baseUrl: first.url },
    { engine: "exa", apiKey: "second-key", baseUrl: second.url },
  ]);

const ORGANIC = json({ organic: [{ title: "One", link: "https://one.example/", snippet: "1" }] });
const RESULTS = json({ results: [{ title: "Two", url: "https://two.example/", text: "2" }] });

describe("the chain", () => {
  test.each([
    ["an error", html(500)],
    ["too many", json({}, { status: 429 })],
    ["a bad key", json({ error: "the key first-key is bad" }, { status: 401 })],
    ["a query it does not like", json({}, { status: 422 })],
    ["a page instead of JSON", html(200)],
    ["JSON that stops", truncatedJson({ organic: [1, 2, 3] })],
    ["a list instead of an object", json([])],
    ["a redirect", redirect("http://127.0.0.1:1/")],
    ["a connection torn down", reset()],
  ])("goes on to the next engine after %s", async (_name, answer) => {
    first.answer("/search", answer);
    second.answer("/search", RESULTS);
    const found = await both().search(QUERY, NEVER);
    expect(found).toMatchObject({ engine: "exa", attempts: 2, cached: false });
    expect(found.results.map(({ title }) => title)).toEqual(["Two"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ level: "warn", event: "web-search", engine: "serper" });
    expect(JSON.stringify(lines)).not.toContain("first-key");
  });

  test("goes on where an engine found nothing because nobody answered it; else says so, and keeps it for nobody", async () => {
    const silent = json({ results: [], unresponsive_engines: [["google", "CAPTCHA"]] });
    const searxng: SearchSource = { engine: "searxng", baseUrl: first.url };
    first.answer("/search", silent);
    second.answer("/search", RESULTS);
    const chain = search([searxng, { engine: "exa", apiKey: "second-key", baseUrl: second.url }]);
    expect(await chain.search(QUERY, NEVER)).toMatchObject({ engine: "exa", attempts: 2, notes: [] });
    const alone = search([searxng]);
    for (let times = 0; times < 2; times++) {
      first.answer("/search", silent);
      const found = await alone.search(QUERY, NEVER);
      expect(found).toMatchObject({ engine: "searxng", results: [], attempts: 1, cached: false });
      expect(found.notes).toEqual([expect.stringContaining("Some of the services")]);
    }
    first.answer("/search", json({ results: [], unresponsive_engines: [] }));
    expect(await alone.search(QUERY, NEVER)).toMatchObject({ results: [], notes: [], cached: false });
    expect(await alone.search(QUERY, NEVER)).toMatchObject({ results: [], cached: true });
  });

  test("goes on after silence, and does not wait for ever in all", async () => {
    first.answer("/search", neverAnswer());
    second.answer("/search", neverAnswer());
    const work = rejectionOf(both().search(QUERY, NEVER));
    await first.called();
    await clock.advance(ENGINE_DEADLINE_MS);
    await second.called();
    await clock.advance(SEARCH_DEADLINE_MS - ENGINE_DEADLINE_MS);
    expect((await work).code).toBe("upstream_error");
    expect(clock.pending).toBe(0);
  });

  test("a caller who leaves ends the call, and is held against nobody", async () => {
    first.answer("/search", neverAnswer());
    const leave = new AbortController();
    const work = both().search(QUERY, leave.signal);
    const call = await first.called();
    leave.abort(new Error("left"));
    await expect(work).rejects.toThrow("left");
    await call.whenAborted;
    await work.catch(() => undefined);
    expect([second.calls, lines]).toEqual([[], []]);
  });

  test("without engines, and with none that answers, says what is the matter and nothing else", async () => {
    expect(await rejectionOf(search([]).search(QUERY, NEVER))).toMatchObject({ code: "vendor_not_configured" });
    first.answer("/search", html(500, "secret upstream text"));
    second.answer("/search", html(503));
    const broken = await rejectionOf(both().search(QUERY, NEVER));
    expect(broken).toMatchObject({ code: "upstream_error", message: "The search engine did not answer. Try again." });
    first.answer("/search", json({}, { status: 400 }));
    second.answer("/search", json({}, { status: 422 }));
    expect(await rejectionOf(both().search(QUERY, NEVER))).toMatchObject({ code: "invalid_request", param: "query" });
  });

  test.each([() => "40", () => new Date(clock.now() + 40_000).toUTCString()])(
    "an engine that has had enough is left alone for as long as it says, in header or body: %#",
    async (wait) => {
      const chain = both();
      first.answer("/search", json({}, { status: 429, headers: { "retry-after": wait() } }));
      const tavilys = { detail: { error: { code: "keyless_limit", retry_after_seconds: 90 } } };
      second.answer("/search", json(tavilys, { status: 432 }));
      const refused = await rejectionOf(chain.search(QUERY, NEVER));
      expect(refused).toMatchObject({ code: "upstream_overloaded", retryAfterSeconds: 40 });
      expect((await rejectionOf(chain.search(QUERY, NEVER))).code).toBe("upstream_overloaded");
      await clock.advance(39_999);
      await rejectionOf(chain.search(QUERY, NEVER));
      expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
      await clock.advance(1);
      first.answer("/search", ORGANIC);
      expect((await chain.search(QUERY, NEVER)).engine).toBe("serper");
      expect(second.calls).toHaveLength(1);
    },
  );

  test.each([
    ["at its top", { retry_after_seconds: 90 }],
    ["deep in it, behind others", { detail: { error: { meta: {}, next: { retry_after_seconds: 90 } } } }],
  ])(
    "an engine that says only in its body how long it has had enough is left alone for so long: %s",
    async (_where, body) => {
      const chain = search([{ engine: "tavily", apiKey: undefined, baseUrl: first.url }]);
      first.answer("/search", json(body, { status: 432 }));
      expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({ retryAfterSeconds: 90 });
      await clock.advance(89_999);
      await rejectionOf(chain.search(QUERY, NEVER));
      expect(first.calls).toHaveLength(1);
      await clock.advance(1);
      first.answer("/search", RESULTS);
      expect((await chain.search(QUERY, NEVER)).engine).toBe("tavily");
    },
  );

  test("an engine that is down and says for how long is left alone at once", async () => {
    const chain = both();
    first.answer("/search", json({}, { status: 503, headers: { "retry-after": "120" } }));
    second.always("/search", RESULTS);
    for (const query of ["a", "b"]) await chain.search({ ...QUERY, query }, NEVER);
    expect([first.calls.length, second.calls.length]).toEqual([1, 2]);
  });

  test("a query that one engine does not like is told as such, though the next one is down", async () => {
    first.answer("/search", json({}, { status: 422 }));
    second.answer("/search", html(500));
    expect(await rejectionOf(both().search(QUERY, NEVER))).toMatchObject({ code: "invalid_request", param: "query" });
  });

  test("an engine that keeps failing is left alone, and tried again by one search at a time", async () => {
    const chain = both();
    first.always("/search", html(500));
    second.always("/search", RESULTS);
    const queries = Array.from({ length: FAILURES + 3 }, (_, at) => ({ ...QUERY, query: `number ${at}` }));
    for (const query of queries) expect((await chain.search(query, NEVER)).engine).toBe("exa");
    expect(first.calls).toHaveLength(FAILURES);
    await clock.advance(FIRST_PAUSE_MS);
    first.always("/search", ORGANIC);
    const again = ["x", "y"].map((query) => chain.search({ ...QUERY, query }, NEVER));
    expect((await Promise.all(again)).map(({ engine }) => engine).sort()).toEqual(["exa", "serper"]);
    expect((await chain.search({ ...QUERY, query: "z" }, NEVER)).engine).toBe("serper");
  });
});

describe("what only an engine's own words tell", () => {
  const brave = () => search([{ engine: "brave", apiKey: "brave-key", baseUrl: first.url }]);
  const FOUND = json({ web: { results: [{ title: "One", url: "https://one.example/", description: "1" }] } });

  test.each([
    {
      error: { code: "SUBSCRIPTION_TOKEN_INVALID", status: 422, detail: "The provided subscription token is invalid." },
    },
    { errors: [{ code: "SUBSCRIPTION_TOKEN_INVALID", status: 422, meta: { component: "authentication" } }] },
  ])("Brave's 422 for a bad key is the operator's matter, not the query's: %j", async (body) => {
    first.answer("/web/search", json(body, { status: 422 }));
    const chain = brave();
    expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({ code: "upstream_overloaded" });
    expect(lines).toMatchObject([{ engine: "brave", kind: "auth" }]);
    await rejectionOf(chain.search(QUERY, NEVER));
    expect(first.calls).toHaveLength(1);
    first.answer("/web/search", json({ error: { code: "VALIDATION", status: 422 } }, { status: 422 }));
    expect(await rejectionOf(brave().search(QUERY, NEVER))).toMatchObject({ code: "invalid_request", param: "query" });
  });

  test("Serper's 400 for an account that is used up is no bad query", async () => {
    first.answer("/search", json({ message: "Not enough credits", statusCode: 400 }, { status: 400 }));
    const chain = search([{ engine: "serper", apiKey: "first-key", baseUrl: first.url }]);
    expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({ code: "upstream_overloaded" });
    expect(lines).toMatchObject([{ engine: "serper", kind: "busy" }]);
  });

  test("a query that Exa's policy forbids does not take the engine from everybody else", async () => {
    const chain = search([{ engine: "exa", apiKey: "second-key", baseUrl: second.url }]);
    // However often it is asked: agents send a refused query again.
    for (let times = 0; times < FAILURES; times++) {
      second.answer("/search", json({ requestId: "1", error: "no", tag: "PROHIBITED_CONTENT" }, { status: 403 }));
      expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({ code: "invalid_request" });
    }
    second.answer("/search", RESULTS);
    expect(await chain.search({ ...QUERY, query: "another" }, NEVER)).toMatchObject({ engine: "exa" });
    second.answer("/search", json({ tag: "TEAM_BLOCKED" }, { status: 403 }));
    expect(await rejectionOf(chain.search({ ...QUERY, query: "third" }, NEVER))).toMatchObject({
      code: "upstream_overloaded",
    });
  });

  /** One call a second, as Brave's smallest plan has it. */
  const SECOND = {
    "x-ratelimit-limit": "1, 2000",
    "x-ratelimit-remaining": "0, 1985",
    "x-ratelimit-reset": "1, 1419704",
  };

  test("two searches at once on one call a second: the second one waits for its turn", async () => {
    first.answer("/web/search", FOUND);
    first.answer("/web/search", json({}, { status: 429, headers: SECOND }));
    first.answer("/web/search", json({}, { status: 429, headers: SECOND }));
    const chain = brave();
    const works = ["a", "b", "c"].map((query) => chain.search({ ...QUERY, query }, NEVER));
    await first.called(2);
    await Promise.any(works);
    first.answer("/web/search", FOUND);
    first.answer("/web/search", FOUND);
    await clock.armed(1_000, 2);
    await clock.advance(1_000);
    const found = await Promise.all(works);
    expect(found.map(({ attempts }) => attempts).sort()).toEqual([1, 2, 2]);
    expect(clock.pending).toBe(0);
  });

  test("an engine whose rest was over before the next one failed is asked again", async () => {
    first.answer("/web/search", json({}, { status: 429, headers: SECOND }));
    second.answer("/search", neverAnswer());
    const chain = search([
      { engine: "brave", apiKey: "brave-key", baseUrl: first.url },
      { engine: "exa", apiKey: "second-key", baseUrl: second.url },
    ]);
    const work = chain.search(QUERY, NEVER);
    await second.called();
    first.answer("/web/search", FOUND);
    await clock.advance(ENGINE_DEADLINE_MS);
    expect(await work).toMatchObject({ engine: "brave", attempts: 3 });
    expect(clock.pending).toBe(0);
  });

  test("an engine that is never free in its turn is given up, and a month that is used up is not waited for", async () => {
    first.always("/web/search", json({}, { status: 429, headers: SECOND }));
    const work = rejectionOf(brave().search(QUERY, NEVER));
    for (let turn = 0; turn < 5; turn++) {
      await first.called(turn);
      if (turn === 4) break;
      await clock.armed(1_000);
      await clock.advance(1_000);
    }
    expect(await work).toMatchObject({ code: "upstream_overloaded", retryAfterSeconds: 1 });
    const used = { ...SECOND, "x-ratelimit-remaining": "1, 0" };
    first.always("/web/search", json({}, { status: 429, headers: used }));
    expect(await rejectionOf(brave().search(QUERY, NEVER))).toMatchObject({
      code: "upstream_overloaded",
      retryAfterSeconds: 3_600,
    });
    expect([first.calls.length, clock.pending]).toEqual([6, 0]);
  });

  test("a caller who leaves while an engine rests is not kept", async () => {
    first.answer("/web/search", json({}, { status: 429, headers: SECOND }));
    const leave = new AbortController();
    const work = brave().search(QUERY, leave.signal);
    await first.called();
    await clock.armed(1_000);
    leave.abort(new Error("left"));
    await expect(work).rejects.toThrow("left");
    expect([first.calls.length, clock.pending]).toEqual([1, 0]);
  });
});

test("a trial that its caller gives up is free for the next search", async () => {
  const chain = search([{ engine: "serper", apiKey: "first-key", baseUrl: first.url }]);
  first.always("/search", html(500));
  for (let at = 0; at < FAILURES; at++) await rejectionOf(chain.search(QUERY, NEVER));
  await clock.advance(FIRST_PAUSE_MS);
  first.always("/search", neverAnswer());
  const leave = new AbortController();
  const work = chain.search(QUERY, leave.signal).catch((thrown: unknown) => thrown);
  await first.called(FAILURES);
  leave.abort("left");
  expect(await work).toBe("left");
  first.always("/search", ORGANIC);
  expect((await chain.search(QUERY, NEVER)).engine).toBe("serper");
});

test("a refusal whose words break off is what its status says, for as long as it asks", async () => {
  const chain = search([{ engine: "serper", apiKey: "first-key", baseUrl: first.url }]);
  const busy = json({}, { status: 429, headers: { "retry-after": "40" } });
  first.answer("/search", { ...busy, framing: "chunked", finish: "cut" });
  expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({
    code: "upstream_overloaded",
    retryAfterSeconds: 40,
  });
  expect(lines[0]).toMatchObject({ engine: "serper", kind: "busy" });
});

test("a pause that an engine asked for holds, though a search that was begun before it is given up", async () => {
  const chain = search([{ engine: "serper", apiKey: "first-key", baseUrl: first.url }]);
  first.answer("/search", neverAnswer());
  const leave = new AbortController();
  const left = chain.search(QUERY, leave.signal).catch((thrown: unknown) => thrown);
  await first.called();
  first.answer("/search", json({}, { status: 429, headers: { "retry-after": "40" } }));
  await rejectionOf(chain.search({ ...QUERY, query: "another" }, NEVER));
  leave.abort("left");
  expect(await left).toBe("left");
  expect(await rejectionOf(chain.search(QUERY, NEVER))).toMatchObject({ retryAfterSeconds: 40 });
  expect(first.calls).toHaveLength(2);
});

describe("the shelf", () => {
  test("an answer is given again for a while, a shorter one about the last hour", async () => {
    first.always("/search", ORGANIC);
    const chain = both();
    const ask = async (changes: Partial<SearchQuery> = {}) =>
      (await chain.search({ ...QUERY, ...changes }, NEVER)).cached;
    expect([await ask(), await ask(), await ask({ maxResults: 4 }), await ask({ country: "DE" })]).toEqual([
      ...[false, true, false, false],
    ]);
    expect([await ask({ recency: "hour" }), await ask({ recency: "hour" })]).toEqual([false, true]);
    await clock.advance(HOUR_SHELF_MS);
    expect([await ask({ recency: "hour" }), await ask()]).toEqual([false, true]);
    await clock.advance(SHELF_MS);
    expect(await ask()).toBe(false);
    expect(second.calls).toEqual([]);
  });

  test("is bounded, and a failure is not kept", () => {
    const shelf = new SearchShelf<number>(clock);
    for (let at = 0; at <= MAX_SHELF; at++) shelf.put({ ...QUERY, query: String(at) }, at);
    expect([shelf.get({ ...QUERY, query: "0" }), shelf.get({ ...QUERY, query: "1" })]).toEqual([undefined, 1]);
  });
});

describe("the breaker", () => {
  test("a rest during which its engine is told to be used up, by another search, is none that anybody waits for", () => {
    const breaker = new Breaker(clock);
    breaker.rests("one", 1_000);
    expect(breaker.restOf("one")).toBe(1_000);
    breaker.failed("one", 3_600_000);
    expect([breaker.restOf("one"), breaker.waitOf("one")]).toEqual([0, 3_600_000]);
  });

  test("pauses double up to the longest, and one success forgets them", () => {
    const breaker = new Breaker(clock);
    const pauses: number[] = [];
    for (let round = 0; round < 8; round++) {
      for (let at = 0; at < FAILURES; at++) breaker.failed("x");
      pauses.push(breaker.waitOf("x"));
    }
    expect(pauses[0]).toBe(FIRST_PAUSE_MS);
    expect(Math.max(...pauses)).toBe(LONGEST_PAUSE_MS);
    expect(breaker.admits("x")).toBe(false);
    expect(breaker.admits("y")).toBe(true);
    breaker.succeeded("x");
    expect([breaker.admits("x"), breaker.waitOf("x")]).toEqual([true, 0]);
  });
});

describe("the engine without a network", () => {
  const fixture = () => search([{ engine: "fixture" }]);

  test("gives the same for the same, each page once, and what filters ask for", async () => {
    const one = await fixture().search({ ...QUERY, maxResults: 20 }, NEVER);
    expect(await fixture().search({ ...QUERY, maxResults: 20 }, NEVER)).toEqual(one);
    expect(one.results).toHaveLength(20);
    expect(new Set(one.results.map(({ url }) => url)).size).toBe(20);
    const hosts = async (changes: Partial<SearchQuery>) =>
      new Set(
        (await fixture().search({ ...QUERY, maxResults: 20, ...changes }, NEVER)).results.map(({ source }) => source),
      );
    expect(await hosts({ include: ["a.example", "b.example"] })).toEqual(new Set(["a.example", "b.example"]));
    expect(await hosts({ exclude: ["example.com"] })).toEqual(
      new Set(["news.example.org", "blog.example.net", "wiki.example.org"]),
    );
  });

  test("has something of every age", async () => {
    const counts: number[] = [];
    for (const recency of RECENCIES) {
      const { results } = await fixture().search({ ...QUERY, maxResults: 20, recency }, NEVER);
      const dated = results.filter(({ date }) => date !== null);
      expect(dated.every(({ date }) => NOW - Date.parse(date!) <= RECENCY_MS[recency])).toBe(true);
      counts.push(dated.length);
    }
    expect(counts[0]).toBeGreaterThan(0);
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
  });
});

describe("what comes from engines is made clean", () => {
  test.each([
    ["a <b>bold</b> &amp; <i class=x>odd</i> text", "a bold & odd text"],
    ["1 < 2 and 3 > 2", "1 < 2 and 3 > 2"],
    [
      "<b>Vec</b><T, A>, std::vector<int>, Map<K, V> and Option<A><br/>",
      "Vec<T, A>, std::vector<int>, Map<K, V> and Option<A>",
    ],
    ["کتاب\u200cها \u{1f468}\u200d\u{1f469}\u200d\u{1f467}", "کتاب\u200cها \u{1f468}\u200d\u{1f469}\u200d\u{1f467}"],
    ["&lt;script&gt; &#x27;&#39; &nope; &#0; &#x110000;", "<script> '' &nope; &#0; &#x110000;"],
    ["a\u202eb\u200bc\u0000d\u{e0041}e\n\tf", "abcde f"],
    ["\ud800x", "\ufffdx"],
    [`${"a".repeat(98)}\u{1f600}bcd`, `${"a".repeat(98)}…`],
  ])("%j", (written, text) => expect(cleanText(written, 100)).toBe(text));

  test("is never longer than asked, and never fails", () => {
    const parts = fc.constantFrom("<", ">", "&", ";", "&amp;", "<b", "a", " ", "\ud83d", "\u202e", "日");
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (written, most) => {
        const text = cleanText(written.join(""), most);
        expect(text.length).toBeLessThanOrEqual(most);
        expect(text.isWellFormed()).toBe(true);
        expect(text).not.toMatch(/[\u202e\n]/);
      }),
    );
    const work = countWork();
    cleanText("<a ".repeat(300_000), 100);
    cleanText("<".repeat(1_000_000), 100);
    expect(work()).toBeLessThan(1_000);
  });

  test.each([
    ["https://www.example.com/a/?utm_source=x&b=1#f", "http://example.com/a?b=1", true],
    ["https://example.com/", "https://example.com", true],
    ["https://example.com/a?gclid=1", "https://example.com/a", true],
    ["https://example.com/a?id=1", "https://example.com/a?id=2", false],
    ["https://example.com:8080/", "https://example.com/", false],
    ["https://example.com/A", "https://example.com/a", false],
  ])("%s and %s: one page? %p", (one, other, same) => {
    expect(pageName(new URL(one)) === pageName(new URL(other))).toBe(same);
  });

  test("only pages of the web are results", () => {
    const urls = ["ftp://x.example/", "javascript:alert(1)", "/x", "", `https://x.example/${"a".repeat(2_100)}`];
    const raw = urls.map((url) => ({ title: "t", url, snippet: "" }));
    expect(refineResults(raw, QUERY, NOW)).toEqual([]);
  });

  test("a page that is told of twice is judged by its first date", () => {
    const old = { title: "t", url: "https://x.example/", snippet: "", date: "2020-01-01" };
    const raw = [old, { title: "t", url: "https://x.example/#again", snippet: "" }];
    expect(refineResults(raw, { ...QUERY, recency: "year" }, NOW)).toEqual([]);
  });
});

describe("dates", () => {
  test.each([
    ["2026-11-20", "2026-11-20"],
    ["2026-11-20T08:00:00Z", "2026-11-20T08:00:00.000Z"],
    ["2026-11-20T08:00:00", "2026-11-20T08:00:00.000Z"],
    ["2026-11-20 08:00", "2026-11-20T08:00:00.000Z"],
    ["2026-11-20T08:00:00.123+02:00", "2026-11-20T06:00:00.123Z"],
    ["Nov 20, 2026", "2026-11-20"],
    ["20 November 2026", "2026-11-20"],
    ["Fri, 20 Nov 2026 08:00:00 GMT", "2026-11-20T08:00:00.000Z"],
    ["3 hours ago", "2026-11-21T09:00:00.000Z"],
    ["a day ago", "2026-11-20"],
    ["2 weeks ago", "2026-11-07"],
    ["yesterday", "2026-11-20"],
    ["", undefined],
    ["soon", undefined],
    ["2026-13-45", undefined],
    ["20 Nonsense 2026", undefined],
    ["9999 years ago", undefined],
  ])("%s", (written, iso) => expect(parseDate(written, NOW)?.iso).toBe(iso));

  test("nothing makes it fail, and what it gives is a date", () => {
    const part = fc.constantFrom("2026-01-01", "T", "12:00", "Z", "3", " days ago", "Nov ", "20, 2026", "+99:99", "-");
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const found = parseDate(parts.join(""), NOW);
        if (found) expect(Number.isFinite(Date.parse(found.iso))).toBe(true);
      }),
    );
  });
});

describe("domain filters", () => {
  test.each([
    [["example.com"], { include: ["example.com"], exclude: [] }],
    [[" https://www.Example.com/ ", "b.example"], { include: ["example.com", "b.example"], exclude: [] }],
    [["-example.com", "-*.b.example"], { include: [], exclude: ["example.com", "b.example"] }],
    [[".gov"], { include: ["gov"], exclude: [] }],
    [["bücher.example"], { include: ["xn--bcher-kva.example"], exclude: [] }],
    [[], { include: [], exclude: [] }],
  ])("%j", (entries, expected) => expect(parseDomains(entries)).toEqual(expected));

  test.each([
    [["a.example", "-b.example"]],
    [["a.example/path"]],
    [[""]],
    [["-"]],
    [["a b"]],
    [["a.example:80"]],
    [["u@a.example"]],
    [["a".repeat(300)]],
  ])("%j is refused with a sentence", (entries) => expect(typeof parseDomains(entries)).toBe("string"));

  test("below means below, not beside", () => {
    expect(isBelow("docs.example.com", "example.com")).toBe(true);
    expect(isBelow("badexample.com", "example.com")).toBe(false);
    expect(isBelow("example.com.evil.example", "example.com")).toBe(false);
  });

  test("operators are left out where they do not fit, the query never", () => {
    const include = Array.from({ length: 20 }, (_, at) => `a-rather-long-name-${at}.example`);
    expect(withSites({ ...QUERY, include }, { maxCharacters: 400, maxWords: 50 })).toBe("solar cells");
    const exclude = include;
    const text = withSites({ ...QUERY, exclude }, { maxCharacters: 400, maxWords: 50 });
    expect(text).toStartWith("solar cells -site:a-rather-long-name-0.example");
    expect(text.length).toBeLessThanOrEqual(400);
  });
});
