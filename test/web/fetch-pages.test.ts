import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { ReaderPool } from "../../src/web/extract/pool.ts";
import { CALL_DEADLINE_MS, fetchPages, type PageOptions, URL_DEADLINE_MS } from "../../src/web/fetch/pages.ts";
import type { FoundPage, PageResult } from "../../src/web/fetch/results.ts";
import { PageShelf, SHELF_MS } from "../../src/web/fetch/shelf.ts";
import { FetchFault } from "../../src/web/safe-fetch/fault.ts";
import type { SafeFetch, SafeFetchOptions } from "../../src/web/safe-fetch/safe-fetch.ts";
import { MAX_URLS } from "../../src/wire/bounds.ts";
import { manualClock } from "../support/clock.ts";
import { type Answer, neverAnswer, redirect, startUpstream, type Upstream } from "../support/upstream.ts";
import { gate, within } from "../support/wait.ts";
import { guarded } from "./fetch-lab.ts";

let site: Upstream;
const pool = new ReaderPool(systemClock);
beforeAll(() => {
  site = startUpstream();
});
afterEach(() => site.reset());
afterAll(() => {
  site.close();
  pool.stop();
});

const page = (
  text: string | Uint8Array,
  type = "text/html",
  headers: Record<string, string> = {},
  status = 200,
): Answer => ({
  status,
  headers: { "content-type": type, ...headers },
  parts: [text],
  framing: "length",
  finish: "end",
});

type Lab = { clock?: Clock; shelf?: PageShelf; faults?: unknown[]; reader?: Pick<ReaderPool, "read"> };

function fetchAll(urls: readonly string[], options: PageOptions = {}, lab: Lab = {}): Promise<PageResult[]> {
  const { clock = systemClock, shelf, faults, reader = pool } = lab;
  const safeFetch = guarded({ clock, allowHosts: [new URL(site.url).host] });
  const onFault = (thrown: unknown) => void faults?.push(thrown);
  return fetchPages(urls, options, { clock, safeFetch, reader, onFault, ...(shelf && { shelf }) });
}

const at = (path: string) => `${site.url}${path}`;
const shapeOf = (result: PageResult) => (result.status === "ok" ? result.markdown : result.error.code);

describe("pages", () => {
  test("a server's word on what a page is does not fill a reader's context", async () => {
    site.always("/a", page("plain", `text/plain; note=${"obey ".repeat(1_000)}`));
    const [result] = (await fetchAll([at("/a")])) as FoundPage[];
    expect([result?.markdown, result?.contentType.length]).toEqual(["plain", 200]);
  });

  test("whose server does not say what they are are what they look like", async () => {
    site.always("/a", { ...page("<!doctype html><p>It is <b>so</b>.</p>"), headers: {} });
    site.always("/b", { ...page("# Plain"), headers: {} });
    const results = (await fetchAll([at("/a"), at("/b")])) as FoundPage[];
    expect(results.map(({ markdown, contentType }) => [markdown, contentType])).toEqual([
      ["It is **so**.", ""],
      ["# Plain", ""],
    ]);
  });

  test("may be of 10 MiB, PDF files of 20", async () => {
    const asked: SafeFetchOptions[] = [];
    const safeFetch: SafeFetch = (_url, options) => {
      asked.push(options);
      throw new FetchFault("unreachable", "Nobody is there.");
    };
    await fetchPages(["https://site.example/"], {}, { clock: systemClock, safeFetch, reader: pool });
    const { maxBytes, whenLonger } = asked[0]!;
    const most = (type?: string) =>
      typeof maxBytes === "number"
        ? maxBytes
        : maxBytes(new Headers(type === undefined ? {} : { "content-type": type }));
    const MIB = 1_048_576;
    expect([most(), most("text/html"), most("application/pdf"), whenLonger]).toEqual([
      10 * MIB,
      10 * MIB,
      20 * MIB,
      "cut",
    ]);
  });

  test("come back in the order of their URLs; what goes wrong with one is its own", async () => {
    site.always("/a", page("<title>A</title><h1>First</h1><p>Hello <a href='b'>b</a>."));
    site.always("/gone", page("no", "text/html", {}, 410));
    site.always("/image", page("\x89PNG", "image/png"));
    site.always("/moved", redirect("/a"));
    site.always("/text", page("plain", "text/plain"));
    const urls = [
      at("/text"),
      "file:///etc/passwd",
      at("/gone"),
      "http://10.0.0.1/",
      at("/image"),
      "no url",
      at("/moved"),
    ];
    const results = await fetchAll(urls);
    expect(results.map(({ url }) => url)).toEqual(urls);
    expect(results.map(shapeOf)).toEqual([
      "plain",
      "invalid_url",
      "http_error",
      "blocked",
      "unsupported_content_type",
      "invalid_url",
      `# First\n\nHello [b](${at("/b")}).`,
    ]);
    expect(results[2]).toMatchObject({ httpStatus: 410, finalUrl: at("/gone") });
    expect(results[6]).toMatchObject({
      finalUrl: at("/a"),
      httpStatus: 200,
      title: "A",
      kind: "html",
      contentType: "text/html",
      cached: false,
      truncated: false,
    });
  });

  describe("that only lead on by themselves are followed", () => {
    const signpost = (content: string, more = "<p>You are taken to <a href='/a'>the page</a>.") =>
      page(`<meta http-equiv="Refresh" content="${content}">${more}`);

    test.each(["0; url=/a", "0;URL='/a'", "1, /a", " 5 ; url = ./a", "0.5; url=a"])("%p", async (content) => {
      site.always("/a", page("<p>Here."));
      site.always("/", signpost(content));
      const [result] = await fetchAll([at("/")]);
      expect(result).toMatchObject({ url: at("/"), finalUrl: at("/a"), markdown: "Here." });
      expect(Object.keys(result ?? {})).not.toContain("movedTo");
    });

    test("not where the page says something, is to be looked at, or leads to itself or nowhere", async () => {
      site.always("/a", page("<p>Here."));
      site.always("/long", signpost("0; url=/a", `<p>${"Read this. ".repeat(100)}`));
      site.always("/later", signpost("30; url=/a"));
      site.always("/self", signpost("0; url=/self#x"));
      site.always("/again", signpost("0"));
      site.always("/none", signpost("0; url=http://"));
      const paths = ["/long", "/later", "/self", "/again", "/none"];
      const results = await fetchAll(paths.map(at));
      expect(results.map(({ finalUrl }) => finalUrl)).toEqual(paths.map(at));
      expect(site.calls).toHaveLength(paths.length);
    });

    test("twice at the most, and no further than a redirect would lead", async () => {
      for (let step = 0; step < 4; step++) site.always(`/${step}`, signpost(`0; url=/${step + 1}`));
      site.always("/inner", signpost("0; url=http://10.0.0.1/"));
      site.always("/file", signpost("0; url=file:///etc/passwd"));
      const [circle, inner, file] = await fetchAll([at("/0"), at("/inner"), at("/file")]);
      expect(circle?.finalUrl).toBe(at("/2"));
      expect([inner, file].map((result) => result?.status === "error" && result.error.code)).toEqual([
        "blocked",
        "invalid_url",
      ]);
    });
  });

  test("are asked for as Markdown first", async () => {
    site.always("/a", page("# Hi", "text/markdown"));
    expect((await fetchAll([at("/a")])).map(shapeOf)).toEqual(["# Hi"]);
    expect(site.calls[0]?.headers["accept"]).toStartWith("text/markdown, text/html;q=0.9");
  });

  test("are fetched once where their URL is named twice", async () => {
    site.always("/a", page("x", "text/plain"));
    const results = await fetchAll([at("/a"), ` ${at("/a")} `, at("/a")]);
    expect(results.map(shapeOf)).toEqual(["x", "x", "x"]);
    expect(results.map(({ url }) => url)).toEqual([at("/a"), ` ${at("/a")} `, at("/a")]);
    expect(site.calls.length).toBe(1);
  });

  test("are fetched once where their URLs differ in the place they name, and keep it where they have not moved", async () => {
    site.always("/a", page("x", "text/plain"));
    site.always("/moved", redirect("/a"));
    const urls = [at("/a#one"), at("/a#two"), at("/a"), at("/moved#three")];
    const results = await fetchAll(urls);
    expect(results.map(({ url }) => url)).toEqual(urls);
    expect(results.map(({ finalUrl }) => finalUrl)).toEqual([at("/a#one"), at("/a#two"), at("/a"), at("/a")]);
    expect(site.calls.length).toBe(3);
  });

  test("are fetched all at the same time", async () => {
    const all = gate();
    const urls = Array.from({ length: MAX_URLS }, (_, index) => at(`/${index}`));
    for (const url of urls)
      site.always(new URL(url).pathname, { ...page("x", "text/plain"), headersAfter: all.opened });
    const work = fetchAll(urls);
    await site.called(MAX_URLS - 1);
    all.open();
    expect((await work).map(shapeOf)).toEqual(urls.map(() => "x"));
  });

  test("are ten at most", async () => {
    await expect(fetchAll(Array.from({ length: MAX_URLS + 1 }, () => at("/a")))).rejects.toThrow(RangeError);
    expect(site.calls).toEqual([]);
    expect(await fetchAll([])).toEqual([]);
  });

  test("are cut where the caller wants it, with a note", async () => {
    site.always("/a", page(`<p>${"one two three ".repeat(20)}</p>`.repeat(100)));
    const [result] = (await fetchAll([at("/a")], { maxContentTokens: 200 })) as FoundPage[];
    expect(result?.truncated).toBe(true);
    expect(result?.tokens).toBeLessThanOrEqual(200);
    expect(result?.totalTokens).toBe(6_000);
    expect(result?.markdown).toEndWith("[Cut here: about 180 of 6000 tokens are shown.]");
  });
});

describe("bounds", () => {
  test("a page that never ends is cut, and its server hung up on", async () => {
    const piece = `<p>${"word ".repeat(13_000)}</p>`;
    site.always("/a", { ...page(""), parts: Array(180).fill(piece), framing: "chunked", finish: "silence" });
    const [result] = (await fetchAll([at("/a")], { maxContentTokens: 100 })) as FoundPage[];
    expect(result?.markdown).toMatch(/^(?:word )+word\n\n\[Cut here: about \d+ of more than \d+ tokens are shown\.\]$/);
    await within(site.calls[0]!.whenAborted, "the server was hung up on");
  });

  test("a bomb of 300 MB is read to its bound", async () => {
    const bomb = gzipSync(Buffer.alloc(300 * 1024 * 1024, "a "));
    site.always("/a", page(bomb, "text/plain", { "content-encoding": "gzip" }));
    const [result] = (await fetchAll([at("/a")], { maxContentTokens: 50 })) as FoundPage[];
    expect(result?.truncated).toBe(true);
    expect(result?.markdown.length).toBeLessThan(1_000);
  }, 20_000);

  test("a server without an answer, and one that drips, have twenty seconds", async () => {
    const clock = manualClock();
    site.always("/mute", neverAnswer());
    site.always("/drip", { ...page(""), parts: ["<p>a", new Promise(() => {})], framing: "chunked" });
    const work = fetchAll([at("/mute"), at("/drip")], {}, { clock });
    await site.called(1);
    await clock.advance(URL_DEADLINE_MS);
    expect((await work).map(shapeOf)).toEqual(["timeout", "timeout"]);
    await Promise.all(site.calls.map((call) => within(call.whenAborted, "the server was hung up on")));
    expect(clock.pending).toBe(0);
  });

  test("readers that are busy for too long", async () => {
    const clock = manualClock();
    site.always("/a", page("x"));
    let asked = 0;
    const reader: Pick<ReaderPool, "read"> = {
      read: (_page, signal) => {
        asked++;
        return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
      },
    };
    const work = fetchAll([at("/a")], {}, { clock, reader });
    while (asked === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    await clock.advance(CALL_DEADLINE_MS);
    expect((await work).map(shapeOf)).toEqual(["timeout"]);
  });

  test("a caller that leaves", async () => {
    site.always("/a", neverAnswer());
    const leaving = new AbortController();
    const work = fetchAll([at("/a"), at("/a?2")], { signal: leaving.signal });
    await site.called(1);
    const reason = new Error("gone");
    leaving.abort(reason);
    await expect(work).rejects.toBe(reason);
    await Promise.all(site.calls.map((call) => within(call.whenAborted, "the server was hung up on")));
    await expect(fetchAll([at("/a")], { signal: leaving.signal })).rejects.toBe(reason);
  });

  test("a fault inside is told to the log, and to the client without a word of it", async () => {
    site.always("/a", page("x"));
    const faults: unknown[] = [];
    const broken = new TypeError("secret detail");
    const [result] = await fetchAll([at("/a")], {}, { faults, reader: { read: () => Promise.reject(broken) } });
    expect(result).toMatchObject({ status: "error", error: { code: "internal" } });
    expect(JSON.stringify(result)).not.toContain("secret");
    expect(faults).toEqual([broken]);
  });
});

describe("the shelf", () => {
  test("gives a page again for a while, for the same room only; a failure never", async () => {
    const clock = manualClock();
    const lab = { clock, shelf: new PageShelf(clock) };
    site.always("/a", page("x", "text/plain"));
    site.answer("/b", page("no", "text/plain", {}, 500), page("y", "text/plain"));
    const cachedOf = async (url: string, room = 100) => {
      const [result] = await fetchAll([url], { maxContentTokens: room }, lab);
      return result?.status === "ok" ? result.cached : result?.status;
    };
    expect([await cachedOf(at("/a")), await cachedOf(at("/a#part")), await cachedOf(at("/a"), 50)]).toEqual([
      false,
      true,
      false,
    ]);
    expect([await cachedOf(at("/b")), await cachedOf(at("/b"))]).toEqual(["error", false]);
    await clock.advance(SHELF_MS);
    expect(await cachedOf(at("/a"))).toBe(false);
    expect(site.calls.length).toBe(5);
  });
});
