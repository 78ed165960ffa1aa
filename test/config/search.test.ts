import { afterEach, describe, expect, test } from "bun:test";
import { chooseSearch } from "../../src/config/search.ts";
import { load, makeFolder, removeFolders, writeIn } from "./support.ts";

afterEach(removeFolders);

const keyOf = (engine: string) => ({ engine, apiKey: `${engine}-key` });
const KEYS = { BRAVE_API_KEY: "brave-key", EXA_API_KEY: " exa-key\n", SEARXNG_URL: "http://searx.example/s/" };
const SEARXNG = { engine: "searxng", baseUrl: "http://searx.example/s" };
const TAVILY = { engine: "tavily" };

describe("which search engines are on (contract 9)", () => {
  test.each([
    ["nothing: Tavily without a key", {}, {}, [TAVILY]],
    ["auto takes all that have their key, in order", {}, KEYS, [keyOf("brave"), keyOf("exa"), SEARXNG]],
    ["a name comes first", { engine: "exa" }, KEYS, [keyOf("exa"), keyOf("brave"), SEARXNG]],
    ["a name that needs no key", { engine: "tavily" }, KEYS, [TAVILY, keyOf("brave"), keyOf("exa"), SEARXNG]],
    ["a key may end in a slash, as base64 does", {}, { EXA_API_KEY: "a+b//" }, [{ engine: "exa", apiKey: "a+b//" }]],
    ["a list is exactly that", { engine: ["searxng", "tavily"] }, KEYS, [SEARXNG, TAVILY]],
    ["the engine without a network, alone", { engine: "fixture" }, KEYS, [{ engine: "fixture" }]],
    ["none", { engine: "none" }, KEYS, []],
    [
      "a key and an address of the file come before the environment's",
      { engine: ["brave"], engines: { brave: { api_key: "own", base_url: "http://127.0.0.1:1/x/" } } },
      KEYS,
      [{ engine: "brave", apiKey: "own", baseUrl: "http://127.0.0.1:1/x" }],
    ],
  ] as const)("%s", (_name, search, environment, sources) => {
    const choice = chooseSearch({ search } as Parameters<typeof chooseSearch>[0], environment);
    expect(choice).toEqual({ sources: sources as unknown as typeof choice.sources, warnings: [] });
  });

  test("a named engine without its key stays off and says so", () => {
    expect(chooseSearch({ search: { engine: "serper" } }, { BRAVE_API_KEY: "brave-key" })).toEqual({
      sources: [{ engine: "brave", apiKey: "brave-key" }],
      warnings: [
        "Search engine serper stays off: it needs web.search.engines.serper.api_key or the variable SERPER_API_KEY.",
      ],
    });
    expect(chooseSearch({ search: { engine: "serper" } }, {}).sources).toEqual([]);
    const { sources, warnings } = chooseSearch({ search: { engine: ["searxng"] } }, { BRAVE_API_KEY: "a b" });
    expect([sources, warnings]).toEqual([
      [],
      ["Search engine searxng stays off: it needs web.search.engines.searxng.base_url or the variable SEARXNG_URL."],
    ]);
  });

  test("a variable that cannot be used is told, and counts as none", () => {
    const environment = { SEARXNG_URL: "search.lan:8888", BRAVE_API_KEY: "a b" };
    const warnings = [
      "Of the variable BRAVE_API_KEY, for the search engine brave, expected printable characters without spaces and without quotes around them, found another text.",
      "Of the variable SEARXNG_URL, for the search engine searxng, expected a URL beginning with http:// or https://, without user name, query or fragment, found another text.",
    ];
    expect(chooseSearch({}, environment)).toEqual({ sources: [{ engine: "tavily" }], warnings });
    const named = chooseSearch({ search: { engine: ["searxng", "searxng"] } }, environment);
    expect(named.sources).toEqual([]);
    expect(named.warnings.filter((line) => line.includes("SEARXNG_URL, for"))).toEqual(warnings.slice(1));
  });

  test("a variable that nobody needs, since the file gives what it would, is not looked at", () => {
    const environment = { SEARXNG_URL: "search.lan:8888", BRAVE_API_KEY: "a b" };
    const engines = { brave: { api_key: "own" }, searxng: { base_url: "http://searx.example/s" } };
    const sources = [{ engine: "brave" as const, apiKey: "own" }, SEARXNG as { engine: "searxng"; baseUrl: string }];
    expect(chooseSearch({ search: { engines } }, environment)).toEqual({ sources, warnings: [] });
    expect(chooseSearch({ search: { engine: ["brave", "searxng"], engines } }, environment)).toEqual({
      sources,
      warnings: [],
    });
    const { warnings } = chooseSearch({ search: { engines: { ...engines, searxng: {} } } }, environment);
    expect(warnings.map((line) => line.slice(0, 27))).toEqual(["Of the variable SEARXNG_URL"]);
  });

  test("in a file: read, filled in and checked", () => {
    const folder = makeFolder();
    writeIn(
      folder,
      "sluice.yaml",
      "web: { search: { engine: [brave], engines: { brave: { api_key: sk-plain-key } } } }",
      0o600,
    );
    expect(load(folder).search).toEqual([{ engine: "brave", apiKey: "sk-plain-key" }]);
    const bad = makeFolder();
    writeIn(bad, "sluice.yaml", "web: { search: { engines: { brave: { base_url: 'ftp://x.example' } } } }", 0o600);
    expect(() => load(bad)).toThrow("web.search.engines.brave.base_url");
    const unknown = makeFolder();
    writeIn(unknown, "sluice.yaml", "web: { search: { engine: google } }", 0o600);
    expect(() => load(unknown)).toThrow('web.search.engine: expected one of "auto", "brave"');
  });
});
