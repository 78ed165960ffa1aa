import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import fc from "fast-check";
import { examineClock, examineLimits, examinePort, examineRoom } from "../../src/cli/examine/machine.ts";
import { examineSearch } from "../../src/cli/examine/search.ts";
import { formatFirstLines, type Start } from "../../src/cli/first-lines.ts";
import { showsColour } from "../../src/cli/output.ts";
import { choosePort, explainPort, PORTS_TRIED, readListenFault, tryPort } from "../../src/cli/port.ts";
import { readSince } from "../../src/cli/since.ts";
import { formatTable } from "../../src/cli/table.ts";
import type { Config } from "../../src/config/load.ts";
import { nearest } from "../../src/config/nearest.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { registry } from "../../src/vendors/registry.ts";

describe("tables", () => {
  test("columns are aligned by what a terminal shows, numbers to the right, no blanks at line ends", () => {
    const lines = formatTable(
      [{ title: "id" }, { title: "count", align: "right" }, { title: "name" }],
      [
        ["a", "1", "x"],
        ["日本", "12,345,678", ""],
      ],
    );
    expect(lines).toEqual(["id         count  name", "a              1  x", "日本  12,345,678"]);
  });

  test("control characters of a cell do not reach the terminal", () => {
    expect(formatTable([{ title: "t" }], [["a\x1b[31m\nb\u009b"]])).toEqual(["t", "a?[31m?b?"]);
    expect(formatTable([{ title: "t" }], [["lab/\u202egnp\u200b.x\ufeff \u05d0\u6c49"]])).toEqual([
      "t",
      "lab/?gnp?.x? \u05d0\u6c49",
    ]);
  });

  test("no colour where output is no terminal", () => {
    expect(showsColour()).toBe(process.stdout.isTTY === true && !process.env["NO_COLOR"]);
  });
});

test("a long text waits for who reads it, and is not all held in memory meanwhile", async () => {
  const written = 150_000_000;
  const script = `
    const { printPieces } = await import(${JSON.stringify(join(import.meta.dir, "../../src/cli/output.ts"))});
    const piece = "x".repeat(50_000);
    await printPieces((function* () { for (let at = 0; at < ${written / 50_000}; at++) yield piece; })());
    process.stderr.write(String(process.memoryUsage.rss()));
  `;
  const slowly = '"$0" -e "$1" | { sleep 0.5; wc -c; }';
  const child = Bun.spawn(["sh", "-c", slowly, process.execPath, script], { stdout: "pipe", stderr: "pipe" });
  const [read, memory] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect(Number(read)).toBe(written);
  expect(Number(memory)).toBeLessThan(120_000_000);
});

describe("nearest word", () => {
  test("one slip in a word of four letters or more is always found", () => {
    const words = ["serve", "models", "doctor", "version", "base_url", "api_key"];
    const slip = fc.record({
      word: fc.constantFrom(...words),
      at: fc.nat(3),
      how: fc.constantFrom("drop", "double", "swap"),
    });
    fc.assert(
      fc.property(slip, ({ word, at, how }) => {
        const letter = word[at]!;
        const rest = word.slice(at + 1);
        const swapped = word.slice(0, at) + (rest[0] ?? "") + letter + rest.slice(1);
        const typed = {
          drop: word.slice(0, at) + rest,
          double: word.slice(0, at) + letter + letter + rest,
          swap: swapped,
        };
        expect(nearest(typed[how], words)).toBe(word);
      }),
    );
  });

  test("a word far from all has none", () => {
    expect(nearest("zzzzzz", ["serve", "models"])).toBeUndefined();
    expect(nearest("x".repeat(10_000), ["serve"])).toBeUndefined();
  });
});

describe("since", () => {
  const now = Date.UTC(2026, 10, 21, 12);
  test.each([
    ["30m", now - 30 * 60_000],
    ["24h", now - 86_400_000],
    ["7d", now - 7 * 86_400_000],
    ["4w", now - 28 * 86_400_000],
    ["999999w", 0],
    ["2026-01-31", Date.UTC(2026, 0, 31)],
    ["2026-01-31T10:00:00Z", Date.UTC(2026, 0, 31, 10)],
  ])("%s", (text, at) => {
    expect(readSince(text, now)).toBe(at);
  });
  test.each(["", "7", "d", "-7d", "7 d", "1e3d", "2026-13-01", "2026-02-31", "yesterday", "2026-1-1"])(
    "not %j",
    (text) => {
      expect(() => readSince(text, now)).toThrow(/--since: expected a span/);
    },
  );
});

describe("ports", () => {
  const servers: { stop(force: boolean): unknown }[] = [];
  const hold = (port: number) => {
    const server = Bun.serve({ port, hostname: "127.0.0.1", reusePort: false, fetch: () => new Response("") });
    servers.push(server);
    return server.port!;
  };
  afterEach(() => {
    for (const server of servers.splice(0)) server.stop(true);
  });

  test("the wanted one when free, the next free one when taken, none when somebody chose it", () => {
    const port = hold(0);
    expect(tryPort("127.0.0.1", port)).toBe("taken");
    const chosen = choosePort("127.0.0.1", port, false);
    expect("port" in chosen && chosen.port > port && chosen.port <= port + PORTS_TRIED).toBe(true);
    expect(choosePort("127.0.0.1", port, true)).toEqual({
      fault: `port ${port} of 127.0.0.1 is taken by another program; choose another with --port`,
    });
    if ("port" in chosen) expect(choosePort("127.0.0.1", chosen.port, true)).toEqual({ port: chosen.port });
    expect(choosePort("127.0.0.1", 0, true)).toEqual({ port: 0 });
  });

  test("none beyond the last one there is", () => {
    // Where another program has it, it is taken as well.
    if (tryPort("127.0.0.1", 65_535) === "free") hold(65_535);
    const fault = "the ports 65535 to 65535 of 127.0.0.1 are all taken; choose one with --port";
    expect(choosePort("127.0.0.1", 65_535, false)).toEqual({ fault });
  });

  test("what doctor says of a port", () => {
    const port = hold(0);
    const of = (running: boolean, portWasGiven: boolean) => {
      const { state, detail } = examinePort({ host: "127.0.0.1", port, portWasGiven } as Config["server"], running);
      return `${state}: ${detail}`;
    };
    expect(of(true, true)).toBe(`ok: ${port} of 127.0.0.1 is in use, and a Sluice server runs on this data folder`);
    expect(of(false, false)).toBe(`note: ${port} of 127.0.0.1 is taken; \`serve\` takes the next free one`);
    const taken = `port ${port} of 127.0.0.1 is taken by another program; choose another with --port`;
    expect(of(false, true)).toBe(`fault: ${taken}`);
    servers.splice(0)[0]?.stop(true);
    expect(of(false, true)).toBe(`ok: ${port} of 127.0.0.1 is free`);
    const elsewhere = { host: "192.0.2.1", port, portWasGiven: false } as Config["server"];
    expect(examinePort(elsewhere, true).state).toBe("fault");
  });

  test.each([
    ["EADDRINUSE", "taken", "port 80 of ::1 is taken by another program; choose another with --port"],
    ["EACCES", "no-permission", "this user may not listen on port 80; choose one above 1023 with --port"],
    ["EPERM", "no-permission", "this user may not listen on port 80; choose one above 1023 with --port"],
    ["EADDRNOTAVAIL", "no-address", "this machine has no address ::1 to listen on; choose another with --host"],
    ["EINVAL", "no-address", "this machine has no address ::1 to listen on; choose another with --host"],
    ["ENOTFOUND", "no-address", "this machine has no address ::1 to listen on; choose another with --host"],
    ["EMFILE", undefined, ""],
  ] as const)("%s: %p", (code, state, sentence) => {
    expect(readListenFault(Object.assign(new Error("Failed to listen"), { code }))).toBe(state);
    if (state) expect(explainPort(state, "::1", 80)).toBe(sentence);
  });

  test("an address this machine does not have is no matter of ports", () => {
    const fault = "this machine has no address 192.0.2.1 to listen on; choose another with --host";
    expect(choosePort("192.0.2.1", 4600, false)).toEqual({ fault });
    expect(choosePort("no-such-host.invalid", 4600, false)).toHaveProperty("fault");
  });
});

describe("the first lines", () => {
  const start: Start = {
    version: "1.2.3",
    url: "http://127.0.0.1:4600",
    askUrl: "http://127.0.0.1:4600",
    key: "sk-sluice-KEY",
    vendors: [],
    servers: [],
    configFile: "/d/sluice.yaml",
    dataFlag: undefined,
    isExecutable: true,
    platform: "linux",
  };

  test("at the first start, with nothing found", () => {
    expect(formatFirstLines(start)).toEqual([
      "Sluice 1.2.3 listening on http://127.0.0.1:4600",
      "API key (shown once): sk-sluice-KEY",
      "Found: no vendor keys and no local model servers. Set a key, such as OPENAI_API_KEY, and start again; or list vendors in /d/sluice.yaml",
      `Try: curl -N http://127.0.0.1:4600/v1/chat/completions -H 'Authorization: Bearer sk-sluice-KEY' -H 'Content-Type: application/json' -d '{"model":"sluice/echo","stream":true,"messages":[{"role":"user","content":"Hello from Sluice"}]}'`,
    ]);
  });

  test("later: no key, a variable in its place; vendors, servers and their counts, never a key", () => {
    const vendors = fromEnvironment({ OPENAI_API_KEY: "sk-canary-1", ANTHROPIC_API_KEY: "sk-canary-2" });
    const ollama = { ...registry.find((row) => row.local)!, apiKey: "sk-canary-3" };
    const servers = [
      { vendor: ollama, models: ["a", "b"] },
      { vendor: { ...ollama, name: "Other", baseUrl: "http://127.0.0.1:1/v1" }, models: ["a"] },
    ];
    const lines = formatFirstLines({ ...start, key: undefined, vendors, servers });
    expect(lines[1]).toBe("API key: shown once, when it was made; `sluice keys create` makes another");
    expect(lines[2]).toBe(
      "Found: OpenAI (OPENAI_API_KEY), Anthropic (ANTHROPIC_API_KEY), Ollama at 127.0.0.1:11434 (2 models), Other at 127.0.0.1:1 (1 model)",
    );
    expect(lines[3]).toContain('-H "Authorization: Bearer $SLUICE_API_KEY"');
    expect(lines.join("\n")).not.toContain("canary");
    expect(lines).toHaveLength(4);
  });

  test("of many vendors a dozen are named", () => {
    const vendors = registry.slice(0, 13);
    expect(vendors).toHaveLength(13);
    const found = (count: number) => formatFirstLines({ ...start, vendors: vendors.slice(0, count) })[2]?.split(", ");
    expect(found(1)).toEqual([expect.stringMatching(/^Found: \w+ \(\w+_API_KEY\)$/)]);
    expect([found(12)?.length, found(12)?.at(-1)]).toEqual([12, found(13)?.at(11)]);
    expect(found(13)?.slice(12)).toEqual(["1 more"]);
  });

  test.each([
    ["/srv/sluice", "linux", "/srv/sluice"],
    ["/srv/Ann's data", "linux", "'/srv/Ann'\\''s data'"],
    ["C:\\data", "win32", "C:\\data"],
    ["C:\\my data", "win32", '"C:\\my data"'],
  ] as const)(
    "the command for another key names the folder that --data named: %p on %s",
    (dataFlag, platform, word) => {
      const line = formatFirstLines({ ...start, key: undefined, dataFlag, platform })[1];
      expect(line).toBe(`API key: shown once, when it was made; \`sluice keys create --data ${word}\` makes another`);
    },
  );

  test("the address of IPv6 is quoted, whose brackets zsh takes for a pattern", () => {
    const line = formatFirstLines({ ...start, askUrl: "http://[::1]:4600" })[3];
    expect(line).toStartWith("Try: curl -N 'http://[::1]:4600/v1/chat/completions' -H ");
  });

  test("from its source the program is called by npm", () => {
    const source = { ...start, key: undefined, isExecutable: false };
    expect(formatFirstLines(source)[1]).toContain("; `npm start -- keys create` makes another");
    expect(formatFirstLines({ ...source, dataFlag: "/d" })[1]).toContain("`npm start -- keys create --data /d`");
  });

  // How a C program reads its command line there: `\\"` is a quote within quotes.
  const wordsOf = (line: string) =>
    [...line.matchAll(/(?:[^\s"]|"(?:\\"|[^"])*")+/g)].map(([word]) =>
      word.replace(/"((?:\\"|[^"])*)"/g, "$1").replaceAll('\\"', '"'),
    );
  const WINDOWS = formatFirstLines({ ...start, platform: "win32" })[3]!.replace("Try: ", "");

  test.each([
    ["cmd", WINDOWS],
    ["PowerShell, which reads what is before its stop-parsing word and takes that away", WINDOWS.replace("--% ", "")],
  ])("on Windows the curl is one for both shells: %s", (_shell, line) => {
    expect(WINDOWS.split(" --% ")[0]).not.toMatch(/["'$@(){}]/);
    expect(line).not.toContain("'");
    const [program, ...words] = wordsOf(line);
    const agent = words.splice(words.indexOf("-A"), 2);
    expect(agent).toHaveLength(2);
    expect([program, words[0]]).toEqual(["curl.exe", "-N"]);
    const [url, ...rest] = words.filter((word) => word !== "-N");
    expect(url).toBe(`${start.askUrl}/v1/chat/completions`);
    expect(rest.filter((_, at) => at % 2 === 0)).toEqual(["-H", "-H", "-d"]);
    expect(JSON.parse(rest.at(-1)!)).toMatchObject({ model: "sluice/echo", stream: true });
  });
});

describe("what doctor says of web search", () => {
  const tavily = { engine: "tavily" } as const;
  const brave = { engine: "brave", apiKey: "k" } as const;
  test.each([
    [[], "note: no engine is on"],
    [[tavily], "note: tavily without a key, for trying out: all users of this network address share its limit"],
    [[{ ...tavily, apiKey: "k" }], "ok: tavily"],
    [[brave, tavily], "ok: brave, then tavily without a key"],
    [[tavily, brave], "ok: tavily without a key, then brave"],
    [[{ engine: "fixture" }], "note: its results are made up (engine: fixture)"],
  ] as const)("%j: %s", async (search, told) => {
    const findings = [await examineSearch({ search })];
    expect(findings.map(({ state, detail }) => `${state}: ${detail}`)).toEqual([told]);
  });

  test.each([
    [400, "ok: searxng"],
    [429, "ok: searxng"],
    [403, "fault: searxng at HOST answers, but not in JSON (403)"],
    [404, "fault: searxng at HOST answered 404"],
    [401, "fault: searxng at HOST answered 401"],
    [502, "fault: searxng at HOST answered 502"],
  ])("of a SearXNG that answers a search without words with %d: %s", async (status, told) => {
    const asked: string[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch({ url }) {
        asked.push(new URL(url).pathname + new URL(url).search);
        return new Response("{}", { status });
      },
    });
    const baseUrl = `http://127.0.0.1:${server.port}/search-engine`;
    const findings = [await examineSearch({ search: [{ engine: "searxng", baseUrl }] })];
    await server.stop(true);
    const said = findings.map(({ state, detail }) => `${state}: ${detail}`.replace(new URL(baseUrl).host, "HOST"));
    expect({ said, asked }).toEqual({ said: [told], asked: ["/search-engine/search?format=json"] });
  });

  test("of a SearXNG that is not there", async () => {
    const finding = await examineSearch({ search: [{ engine: "searxng", baseUrl: "http://127.0.0.1:1" }] });
    const detail = "searxng at 127.0.0.1:1 cannot be reached: nothing listens there (ECONNREFUSED)";
    expect(finding).toMatchObject({ state: "fault", check: "web search", detail });
  });
});

describe("clock and limits", () => {
  test.each([
    [{ bytes: 0, files: 1_000 }, ["fault"]],
    [{ bytes: (16 << 20) - 1, files: undefined }, ["fault"]],
    [{ bytes: 16 << 20, files: 16 }, []],
    [{ bytes: 16 << 20, files: 15 }, ["fault"]],
    [{ bytes: 0, files: 0 }, ["fault", "fault"]],
    [undefined, []],
  ] as const)("room on the disk %j: %j", (room, states) => {
    expect(examineRoom("/nowhere/at/all", room).map(({ state }) => state)).toEqual([...states]);
  });
  test("in megabytes and in files", () => {
    const told = (bytes: number, files: number) => examineRoom("/d", { bytes, files }).map(({ detail }) => detail);
    const [room, files] = told((15 << 20) + 9, 1);
    expect(room).toBe("/d: 15 MB are left on its disk; when it is full nothing that is counted is served (503)");
    expect(files).toBe("/d: 1 more file can be made on its disk, which has no inodes beyond them");
    expect(told(16 << 20, 2)[0]).toStartWith("/d: 2 more files can be made");
  });
  const now = Date.UTC(2026, 10, 21);
  test.each([
    [now, undefined, "ok"],
    [now, now + 30_000, "ok"],
    [now, now + 61_000, "fault"],
    [Date.UTC(2020, 0, 1), undefined, "fault"],
    [Date.UTC(2101, 0, 1), undefined, "fault"],
  ] as const)("clock %p, newest record %p: %s", (at, newest, state) => {
    expect(examineClock(at, newest).state).toBe(state);
  });
  test.each([
    [20_000, "ok"],
    [Number.POSITIVE_INFINITY, "ok"],
    [1024, "note"],
    [4_096, "ok"],
    [4_095, "note"],
    [256, "note"],
    [255, "fault"],
  ] as const)("open files %p: %s", (files, state) => {
    expect(examineLimits(files).state).toBe(state);
  });
  test.each([
    [20_000, "20000, enough for 9950 streams at the same time"],
    [1_024, "1024, enough for 462 streams at the same time"],
    [64, "64, enough for 0 streams at the same time"],
    [Number.POSITIVE_INFINITY, "unlimited"],
  ])("what %p open files are enough for", (files, told) => {
    expect(examineLimits(files).detail).toBe(`open files: ${told}`);
  });
});
