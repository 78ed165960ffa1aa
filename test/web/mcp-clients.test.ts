import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { makeFolder, type RunningBinary, removeFolder, runBinary, startBinary } from "../support/binary.ts";

const ROOT = join(import.meta.dir, "../..");
/** A start, and a build where none has run before. */
const START_MS = 120_000;
const CONFORMANCE_MS = 60_000;
/** Where a page is from that may call. */
const PAGE = "https://chat.example.com";

let folder: string;
let gateway: RunningBinary;
let pages: ReturnType<typeof Bun.serve>;
let token: string;

beforeAll(async () => {
  folder = makeFolder();
  pages = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () =>
      new Response("<title>A page</title><main><h1>A page</h1><p>Its text.</p></main>", {
        headers: { "content-type": "text/html" },
      }),
  });
  mkdirSync(join(folder, "data"), { recursive: true, mode: 0o700 });
  const web = { search: { engine: "fixture" }, fetch: { allow_hosts: [`127.0.0.1:${pages.port}`] } };
  writeFileSync(
    join(folder, "data/sluice.json"),
    JSON.stringify({ server: { cors_origins: [PAGE] }, web, local_discovery: false }),
    { mode: 0o600 },
  );
  gateway = await startBinary(["--port", "0"], { folder });
  const made = await runBinary(["tokens", "create", "--name", "clients", "--json"], { folder });
  token = String((JSON.parse(made.stdout) as { token: string }).token);
}, START_MS);
afterAll(async () => {
  await gateway?.stop();
  await pages?.stop(true);
  removeFolder(folder);
});

const byHeader = () => ({ url: `${gateway.url}/mcp/web`, headers: { authorization: `Bearer ${gateway.key}` } });
const byApiKey = () => ({ url: `${gateway.url}/mcp/web`, headers: { "x-api-key": gateway.key } });
const byToken = () => ({ url: `${gateway.url}/mcp/web/t/${token}`, headers: {} as Record<string, string> });
type Way = { url: string; headers: Record<string, string> };

/** What both generations of the client have in common, as far as it is used here. */
type AnyClient = Pick<Client, "listTools" | "callTool" | "ping" | "close" | "getServerVersion">;

async function connect(way: Way): Promise<AnyClient> {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(way.url), { requestInit: { headers: way.headers } }));
  return client;
}

async function connectNew(way: Way, mode?: "auto"): Promise<AnyClient> {
  const client = new NewClient({ name: "test", version: "1" }, mode ? { versionNegotiation: { mode } } : {});
  await client.connect(new NewTransport(new URL(way.url), { requestInit: { headers: way.headers } }));
  return client as unknown as AnyClient;
}

/** Headers that a page may send without asking (Fetch standard), as far as these clients send them. */
const SAFE = new Set(["accept"]);

/** A fetch as a browser has it for a page of {@link PAGE}: headers that the preflight's answer does not name are not sent, and others not read. */
async function fetchFromPage(url: string | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const asked = [...headers.keys()].filter((name) => !SAFE.has(name));
  const ask = {
    origin: PAGE,
    "access-control-request-method": init.method ?? "GET",
    "access-control-request-headers": asked.join(","),
  };
  const preflight = await fetch(url, { method: "OPTIONS", headers: ask });
  const allowed = preflight.headers.get("access-control-allow-headers")?.split(", ") ?? [];
  const refused = asked.filter((name) => !allowed.includes(name));
  if (!preflight.ok || refused.length > 0) throw new TypeError(`CORS: ${preflight.status} ${refused.join(", ")}`);
  headers.set("origin", PAGE);
  const answer = await fetch(url, { ...init, headers });
  if (answer.headers.get("access-control-allow-origin") !== PAGE) throw new TypeError("CORS");
  return answer;
}

describe("from a page of an allowed origin", () => {
  test.each([undefined, "auto"] as const)("the newest client connects, in mode %s", async (mode) => {
    const { url, headers } = byHeader();
    const client = new NewClient({ name: "test", version: "1" }, mode ? { versionNegotiation: { mode } } : {});
    await client.connect(new NewTransport(new URL(url), { requestInit: { headers }, fetch: fetchFromPage }));
    try {
      expect((await client.listTools()).tools).toHaveLength(2);
    } finally {
      await client.close();
    }
  });

  test("who is refused may read why: the challenge is exposed", async () => {
    const { url } = byHeader();
    const headers = { "content-type": "application/json" };
    const answer = await fetchFromPage(url, { method: "POST", headers, body: "{}" });
    const exposed = answer.headers.get("access-control-expose-headers")?.split(", ");
    expect([answer.status, exposed?.includes("www-authenticate")]).toEqual([401, true]);
  });
});

describe("the official clients against the executable (issue 6)", () => {
  const clients = [
    ["v1, by Authorization", () => connect(byHeader())],
    ["v1, by x-api-key", () => connect(byApiKey())],
    ["v1, by a token in the path", () => connect(byToken())],
    ["v2, by Authorization", () => connectNew(byHeader())],
    ["v2, by a token in the path", () => connectNew(byToken())],
    ["v2 that tries the newest protocol first", () => connectNew(byHeader(), "auto")],
  ] as const;

  test.each(clients)("%s: lists both tools and calls them", async (_name, open) => {
    const client = await open();
    try {
      expect(client.getServerVersion()?.name).toBe("sluice");
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(["web_search", "web_fetch"]);
      const found = await client.callTool({ name: "web_search", arguments: { query: "solar", max_results: 2 } });
      expect(found.isError).toBe(false);
      expect((found.structuredContent as { results: unknown[] }).results).toHaveLength(2);
      const url = `http://127.0.0.1:${pages.port}/`;
      const read = await client.callTool({ name: "web_fetch", arguments: { urls: [url] } });
      expect((read.content as { text: string }[])[0]?.text).toContain("# A page\n\nIts text.");
      const inward = await client.callTool({ name: "web_fetch", arguments: { urls: [gateway.url] } });
      expect(inward.isError).toBe(true);
      for (const name of ["nope", "web_search"]) {
        await expect(client.callTool({ name, arguments: {} })).rejects.toMatchObject({ code: -32602 });
      }
    } finally {
      await client.close();
    }
  });

  test("a bad key is told as what it is", async () => {
    const way = { url: `${gateway.url}/mcp/web`, headers: { authorization: `Bearer sk-sluice-${"x".repeat(38)}` } };
    await expect(connect(way)).rejects.toThrow(/401|Incorrect API key/);
    await expect(connectNew(way)).rejects.toThrow(/401|Incorrect API key/);
  });
});

/** Scenarios of the suite that are not for this server, by what they ask for; interface 4.9 has tools only, no sessions, and a server that never begins. */
const NOT_FOR_US: Readonly<Record<string, readonly string[]>> = {
  "made-up tools, such as test_simple_text": [
    ...["tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"],
    ...["tools-call-mixed-content", "tools-call-error", "json-schema-2020-12"],
  ],
  "messages that the server begins": [
    ...["tools-call-with-logging", "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation"],
    ...["elicitation-sep1034-defaults", "elicitation-sep1330-enums", "logging-set-level"],
  ],
  // They warn, and fail nothing: there is no session id.
  "sessions whose streams go on": ["server-sse-polling", "server-sse-multiple-streams"],
  "resources, prompts, completion": [
    ...["resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"],
    ...["resources-subscribe", "resources-unsubscribe", "prompts-list", "prompts-get-simple", "prompts-get-with-args"],
    ...["prompts-get-embedded-resource", "prompts-get-with-image", "completion-complete"],
  ],
};

/** The suite has no way to send a key: this stands before the gateway and puts it in; Host and Origin stay as they come. */
function startKeyProxy() {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const headers = new Headers(request.headers);
      headers.set("authorization", `Bearer ${gateway.key}`);
      const body = request.method === "POST" ? await request.text() : null;
      const { pathname, search } = new URL(request.url);
      return fetch(`${gateway.url}${pathname}${search}`, { method: request.method, headers, body, redirect: "manual" });
    },
  });
}

describe("the official conformance suite", () => {
  test(
    "passes but for the scenarios that are not for this server, and no other",
    async () => {
      const proxy = startKeyProxy();
      const baseline = join(folder, "not-for-us.yml");
      const lines = Object.values(NOT_FOR_US).flatMap((names) => names.map((name) => `  - ${name}\n`));
      writeFileSync(baseline, `server:\n${lines.join("")}`);
      const suite = Bun.spawn(
        [
          ...[process.execPath, join(ROOT, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "server"],
          ...["--url", `http://127.0.0.1:${proxy.port}/mcp/web`, "--suite", "all", "--expected-failures", baseline],
        ],
        { cwd: folder, stdout: "pipe", stderr: "pipe", stdin: "ignore" },
      );
      const [told, faults, code] = await Promise.all([suite.stdout.text(), suite.stderr.text(), suite.exited]);
      await proxy.stop(true);
      expect([code, code === 0 ? "" : told + faults]).toEqual([0, ""]);
      for (const passed of ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"]) {
        expect(told).toMatch(new RegExp(`✓ ${passed}: [1-9]\\d* passed, 0 failed`));
      }
    },
    CONFORMANCE_MS,
  );
});
