import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { PLAIN_CONFIG, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type Listening, listen } from "../support/listening.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { type RawAnswer, sendRaw } from "./raw-request.ts";

let upstream: Upstream;
let app: TestApp;
let listening: Listening;
let port: number;
let adminKey: string;
beforeAll(async () => {
  upstream = startUpstream();
  app = await startApp({
    vendors: [vendorAt(upstream, "chat", "lab")],
    config: {
      server: {
        ...PLAIN_CONFIG.server,
        ...{ corsOrigins: ["https://chat.example.com"], allowedHosts: ["gateway.example.com"] },
      },
    },
  });
  const { keys } = app.app;
  adminKey = (await keys.create({ accountId: app.accountId, name: "admin", kind: "admin" })).key;
  listening = listen(app);
  port = listening.port;
});
afterAll(async () => {
  // Nothing that was refused got any further.
  const seen = [upstream.calls.length, app.rows().length];
  await listening.stop();
  await app.stop();
  upstream.close();
  expect(seen).toEqual([0, 0]);
});

type Route = { start: string; body?: string; type?: string };
const CHAT = { model: "lab/any", messages: [{ role: "user", content: "Hi" }] };
const MCP = { jsonrpc: "2.0", id: 1, method: "tools/list" };
const post = (path: string, body: unknown): Route => ({ start: `POST ${path}`, body: JSON.stringify(body) });

/** One of each kind: open, with a key, of an administrator, pages, files, and what is not there. */
const ROUTES: readonly Route[] = [
  { start: "GET /" },
  { start: "HEAD /" },
  { start: "GET /v1/models" },
  { start: "GET /v1/models/lab%2Fany" },
  { start: "GET /healthz" },
  { start: "GET /readyz" },
  { start: "GET /metrics" },
  { start: "GET /openapi" },
  { start: "GET /openapi/json" },
  { start: "GET /v1/account" },
  { start: "GET /v1/usage" },
  { start: "GET /admin/v1/accounts" },
  { start: "GET /v1/images/generations" },
  { start: "GET /v1/images/files/0123456789abcdef0123456789abcdef.png" },
  { start: "GET /nowhere" },
  { start: "OPTIONS /v1/chat/completions" },
  post("/v1/chat/completions", CHAT),
  post("/v1/messages", { ...CHAT, max_tokens: 9 }),
  post("/v1/messages/count_tokens", CHAT),
  post("/v1/responses", { model: "lab/any", input: "Hi" }),
  post("/v1/responses/input_tokens", { model: "lab/any", input: "Hi" }),
  post("/v1/images/generations", { model: "sluice/sketch", prompt: "x" }),
  post("/v1/web/search", { query: "x" }),
  post("/mcp/web", MCP),
  post("/admin/v1/accounts", { name: "x" }),
];

/** `PORT` stands for the port of the gateway, `OTHER` for another one. */
const fill = (text: string) => text.replaceAll("PORT", String(port)).replaceAll("OTHER", String(port - 1));

/** Sends a route with these lines; the key is a good one, so that nothing else can be the reason of a refusal. */
function ask({ start, body = "", type = "application/json" }: Route, lines: readonly string[], target?: string) {
  const [method, path = "/"] = start.split(" ");
  const content = body === "" ? [] : [`Content-Type: ${type}`, `Content-Length: ${body.length}`];
  const isAdmins = path.startsWith("/admin/") || path === "/metrics";
  const key = [`Authorization: Bearer ${isAdmins ? adminKey : app.key}`, "Connection: close"];
  const version = lines.includes("HTTP/1.0") ? "HTTP/1.0" : "HTTP/1.1";
  const head = [
    `${method} ${target ?? path} ${version}`,
    ...lines.filter((line) => line !== version),
    ...key,
    ...content,
  ];
  return sendRaw(port, fill(`${[...head, "", ""].join("\r\n")}${body}`));
}

type Attack = { name: string; lines: readonly string[]; target?: (path: string) => string };
const OWN = "Host: localhost:PORT";
const host = (value: string): Attack => ({ name: `Host: ${value.slice(0, 40)}`, lines: [`Host: ${value}`] });
const page = (name: string, ...lines: string[]): Attack => ({ name, lines: [OWN, ...lines] });
const EVIL = "Origin: https://evil.example";

/** Names that are not ours, or not quite (reliability 7.3 #2; 8.1, G15). */
const HOSTS: readonly Attack[] = [
  ...["evil.example", "evil.example:PORT", "evil.example.", "[fe80::1]:PORT", "xn--localhost:PORT", "local%68ost:PORT"],
  ...["localhost.:PORT", "localhost.evil.example:PORT", "evil.localhost:PORT", "127.0.0.1.evil.example:PORT"],
  ...["127.1:PORT", "127.0.0.2:PORT", "0.0.0.0:PORT", "0x7f000001:PORT", "2130706433:PORT", "[::]:PORT"],
  ...["[::ffff:127.0.0.1]:PORT", "[::1", "::1:PORT", "[::1]evil:PORT", "localhost:", "localhost:0"],
  ...["localhost:0PORT0", "localhost:+PORT", "localhost: PORT", "localhost:PORT:PORT", "localhost:99999"],
  ...["user@localhost:PORT", "localhost:PORT@evil.example", "x/public?", "localhost:PORT/public", "localhost:PORT?x"],
  ...["localhost:PORT#x", "localhost:PORT\\evil", "localhost:PORT, evil.example", "localhost:PORT evil.example"],
  ...["localhost\xff:PORT", "gateway.example.com.", "gateway.example.com:0", "sub.gateway.example.com", "", " "],
  ...["llm-gateway:PORT", "llm_gateway_1:PORT", "_:PORT"],
].map(host);

/** Heads that say who is meant in more than one way, or in none. */
const FORMS: readonly Attack[] = [
  { name: "two Hosts, ours first", lines: [OWN, "Host: evil.example"] },
  { name: "two Hosts, ours last", lines: ["Host: evil.example", OWN] },
  { name: "two equal Hosts", lines: [OWN, OWN] },
  {
    name: "absolute form for us, a stranger's Host",
    lines: ["Host: evil.example"],
    target: (path) => `http://localhost:PORT${path}`,
  },
  {
    name: "absolute form and Host of a stranger",
    lines: ["Host: evil.example"],
    target: (path) => `http://evil.example${path}`,
  },
  { name: "absolute form for a stranger, our Host", lines: [OWN], target: (path) => `http://evil.example${path}` },
  { name: "no Host", lines: [] },
  { name: "CONNECT's form", lines: [OWN], target: () => "localhost:PORT" },
  { name: "no Host, HTTP/1.0", lines: ["HTTP/1.0"] },
  { name: "only a header that looks like it", lines: ["HTTP/1.0", "X-Forwarded-Host: localhost:PORT"] },
  { name: "a path that is none", lines: [OWN], target: (path) => path.slice(1) },
];

/** What a browser says of a page that is not ours (reliability 7.3 #3). */
const PAGES: readonly Attack[] = [
  page("a stranger's page", EVIL),
  page("a stranger's page, cors", EVIL, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"),
  page("a form on a stranger's page", EVIL, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"),
  page("no-cors on a stranger's page", EVIL, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"),
  page("a page of another port of this machine", "Origin: http://localhost:OTHER"),
  { name: "a page of this port, another one asked", lines: ["Host: localhost:OTHER", "Origin: http://localhost:PORT"] },
  {
    name: "a page of this machine, the public name asked",
    lines: ["Host: gateway.example.com", "Origin: http://localhost:PORT"],
  },
  page("a page of this machine without a port", "Origin: http://localhost"),
  page("Origin null", "Origin: null"),
  page("an empty Origin", "Origin: "),
  page("a file", "Origin: file://"),
  page("an extension", "Origin: chrome-extension://localhost:PORT"),
  page("two Origins", "Origin: http://localhost:PORT", EVIL),
  page("an origin that begins like a configured one", "Origin: https://chat.example.com.evil.example"),
  page("an origin with a user", "Origin: http://localhost:PORT@evil.example"),
];

const refused = [400, 403, 421];

/** Refused before anything is looked at; what a HEAD is told has no words. */
function expectRefused(route: Route, { status, head, body }: RawAnswer): void {
  expect([route.start, refused.includes(status)]).toEqual([route.start, true]);
  expect(head.toLowerCase()).not.toContain("access-control-allow-origin");
  expect(`${head}${body}`).not.toContain("evil");
  if (status !== 403 || route.start.startsWith("HEAD")) return;
  // MCP's errors are JSON-RPC's.
  expect(body).toContain(route.start.includes("/mcp/") ? '"jsonrpc":"2.0"' : "permission_denied");
}

describe.each(ROUTES)("$start", (route) => {
  const attacks = [...HOSTS, ...FORMS, ...PAGES];

  test("is served to those that are ours", async () => {
    for (const lines of [
      [OWN],
      ["Host: 127.0.0.1:PORT"],
      ["Host: gateway.example.com"],
      [OWN, "Origin: http://localhost:PORT"],
    ]) {
      const { status, body } = await ask(route.body ? { ...route, body: "{" } : route, lines);
      expect([route.start, lines, status >= 200 && status !== 421 && !body.includes("host name")]).toEqual([
        route.start,
        lines,
        true,
      ]);
      expect(status).not.toBe(403);
    }
  });

  test(`is refused to ${attacks.length} that are not`, async () => {
    for (const { name, lines, target } of attacks) {
      const [, path = "/"] = route.start.split(" ");
      const answer = await ask(route, lines, target?.(path));
      try {
        expectRefused(route, answer);
      } catch (cause) {
        throw new Error(`${name}: ${answer.status}`, { cause });
      }
    }
  });
});

describe("what a page may send without being asked for leave: other types than JSON", () => {
  const TYPES = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain; application/json",
  ];
  const cases = ROUTES.filter(({ body }) => body !== undefined).flatMap((route) =>
    TYPES.map((type) => ({ route, type, name: `${route.start}, ${type}` })),
  );

  test.each(cases)("$name", async ({ route, type }) => {
    const { status } = await ask({ ...route, type }, [OWN]);
    expect(status).toBe(415);
  });
});

test("what varies with the form that is asked for, varies with it still where pages may call", async () => {
  const page = "Origin: https://chat.example.com";
  const { head } = await ask({ start: "GET /v1/models" }, [OWN, page]);
  expect(head.toLowerCase()).toContain("vary: anthropic-version, x-api-key, origin\r\n");
  const missed = await ask({ start: "GET /v1/nowhere" }, [OWN, page]);
  expect(/^vary: .*$/im.exec(missed.head)?.[0].toLowerCase()).toBe("vary: origin");
});

test("a preflight has an id like every other answer (contract 6)", async () => {
  const asked = [OWN, "Origin: https://chat.example.com", "Access-Control-Request-Method: POST"];
  const { status, head } = await ask({ start: "OPTIONS /v1/messages" }, asked);
  const ids = [...head.matchAll(/^(?:x-)?request-id: (req_\w+)\r$/gim)].map(([, id]) => id);
  expect([status, ids.length, new Set(ids).size]).toEqual([204, 2, 1]);
});
