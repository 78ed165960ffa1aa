import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createCors } from "../../src/http/cors.ts";
import { createGuard } from "../../src/http/guard.ts";
import { sendRaw } from "./raw-request.ts";

const CORS_ORIGIN = "https://chat.example.com";
const settings = {
  allowedHosts: ["Gateway.example.com", "[2001:db8::1]", "llm_gateway"],
  corsOrigins: ["https://Chat.example.com/"],
};

let served = 0;
let server: ReturnType<typeof Bun.serve>;

beforeAll(() => {
  const guard = createGuard(settings);
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const fault = guard(request);
      if (fault) return new Response(fault.code, { status: 403 });
      served++;
      return new Response("served");
    },
  });
});
afterAll(() => server.stop(true));

/** `PORT` in a case stands for the server's port, `OTHER` for another one. */
const fill = (text: string) =>
  text.replaceAll("PORT", String(server.port)).replaceAll("OTHER", String((server.port ?? 0) - 1));

async function ask(lines: readonly string[], start = "GET /v1/models HTTP/1.1") {
  const before = served;
  const answer = await sendRaw(server.port ?? 0, fill([start, ...lines, "Connection: close", "", ""].join("\r\n")));
  return { status: answer.status, served: served - before };
}

describe("Host, over a raw socket", () => {
  const allowed = [
    "localhost:PORT",
    "127.0.0.1:PORT",
    "[::1]:PORT",
    "LocalHost:PORT",
    // Of a tunnel or a proxy before it that leaves the name as it was.
    "localhost:OTHER",
    "localhost",
    "127.0.0.1",
    "gateway.example.com",
    "GATEWAY.EXAMPLE.COM",
    "gateway.example.com:8443",
    "gateway.example.com:1",
    "gateway.example.com:65535",
    "[2001:db8::1]",
    "[2001:DB8::1]:8443",
    // A container's, as others of its network call it.
    "llm_gateway:PORT",
  ];
  test.each(allowed)("serves Host: %s", async (host) => {
    expect(await ask([`Host: ${host}`])).toEqual({ status: 200, served: 1 });
  });

  const refused = [
    "evil.example",
    "evil.example:PORT",
    "localhost.:PORT",
    "localhost.evil.example:PORT",
    "evil.localhost:PORT",
    "notlocalhost:PORT",
    "127.0.0.1.evil.example:PORT",
    "127.1:PORT",
    "127.0.0.2:PORT",
    "0.0.0.0:PORT",
    "0x7f000001:PORT",
    "2130706433:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[::]:PORT",
    "[::1:PORT",
    "::1:PORT",
    "[::1]evil:PORT",
    "[::1%25lo]:PORT",
    "localhost:",
    "localhost:0",
    "localhost:99999",
    "localhost:999999",
    "localhost:+PORT",
    "localhost: PORT",
    "localhost:PORT:PORT",
    "user@localhost:PORT",
    "localhost:PORT@evil.example",
    "x/public?",
    "localhost:PORT/public",
    "localhost:PORT?x",
    "localhost:PORT#x",
    "localhost:PORT\\evil",
    "localhost:PORT, evil.example",
    "localhost:PORT evil.example",
    "localhost\xff:PORT",
    "local%68ost:PORT",
    "xn--localhost:PORT",
    "gateway.example.com.",
    "gateway.example.com:0",
    "gateway.example.com:65536",
    "gateway.example.com.evil.example",
    "sub.gateway.example.com",
    "gateway_example_com",
    "",
    " ",
    `${"a".repeat(300)}`,
  ];
  test.each(refused)("refuses Host: %j", async (host) => {
    expect(await ask([`Host: ${host}`])).toEqual({ status: 403, served: 0 });
  });

  const odd: [string, string, string[]][] = [
    ["two Hosts, ours first", "GET / HTTP/1.1", ["Host: localhost:PORT", "Host: evil.example"]],
    ["two Hosts, ours last", "GET / HTTP/1.1", ["Host: evil.example", "Host: localhost:PORT"]],
    ["two equal Hosts", "GET / HTTP/1.1", ["Host: localhost:PORT", "Host: localhost:PORT"]],
    ["absolute form for us, Host of a stranger", "GET http://localhost:PORT/ HTTP/1.1", ["Host: evil.example"]],
    ["absolute form and Host of a stranger", "GET http://evil.example/ HTTP/1.1", ["Host: evil.example"]],
    ["no Host at all, HTTP/1.0", "GET / HTTP/1.0", []],
    ["absolute form without Host, HTTP/1.0", "GET http://localhost/ HTTP/1.0", []],
    ["CONNECT", "CONNECT localhost:PORT HTTP/1.1", ["Host: localhost:PORT"]],
    ["no Host, and ours in the path, HTTP/1.0", "GET /http://localhost/ HTTP/1.0", []],
    ["a header that only looks like Host", "GET / HTTP/1.0", ["X-Forwarded-Host: localhost:PORT"]],
  ];
  test.each(odd)("refuses %s", async (_name, start, lines) => {
    expect(await ask(lines, start)).toEqual({ status: 403, served: 0 });
  });

  test("no Host at all is refused by the server itself in HTTP/1.1", async () => {
    expect(await ask([])).toEqual({ status: 400, served: 0 });
  });

  test("a stranger's absolute form is served as our own host, never as his", async () => {
    expect(await ask(["Host: localhost:PORT"], "GET http://evil.example/ HTTP/1.1")).toEqual({
      status: 200,
      served: 1,
    });
  });

  test("only names on the list pass, whatever the Host (random)", () => {
    const guard = createGuard(settings);
    const known = /^(?:localhost|127\.0\.0\.1|\[::1\]|gateway\.example\.com|\[2001:db8::1\])(?::0*[1-9]\d{0,4})?$/i;
    const piece = fc.constantFrom(
      "localhost",
      "127.0.0.1",
      "[::1]",
      "gateway.example.com",
      ":",
      "4600",
      ".",
      "@",
      "/",
      "a",
      "[",
      "]",
      " ",
      ",",
    );
    const host = fc.oneof(
      fc.array(piece, { maxLength: 5 }).map((parts) => parts.join("")),
      fc.string({ maxLength: 20 }),
    );
    fc.assert(
      fc.property(host, (value) => {
        const request = new Request("http://localhost/v1/models");
        const seen = new Proxy(request, {
          get: (target, name) =>
            name === "headers"
              ? {
                  get: (header: string) => (header === "host" ? value : null),
                  has: (header: string) => header === "host",
                }
              : Reflect.get(target, name),
        });
        if (!known.test(value)) expect(guard(seen)?.code).toBe("permission_denied");
        else if (Number(/:(\d+)$/.exec(value)?.[1] ?? 1) <= 65535) expect(guard(seen)).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
  });
});

describe("Origin and Fetch metadata, over a raw socket", () => {
  const GET = "GET /v1/models HTTP/1.1";
  const POST = "POST /v1/chat/completions HTTP/1.1";
  const cases: [string, string, string[], boolean][] = [
    ["no Origin: curl and SDKs", GET, [], true],
    ["our own origin", POST, ["Origin: http://localhost:PORT"], true],
    ["our own origin by address", POST, ["Origin: http://127.0.0.1:PORT"], true],
    ["our own public origin", POST, ["Origin: https://gateway.example.com"], true],
    [
      "a configured origin",
      POST,
      [`Origin: ${CORS_ORIGIN}`, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"],
      true,
    ],
    ["a configured origin in another spelling", GET, ["Origin: HTTPS://chat.Example.com"], true],
    ["a stranger's origin", GET, ["Origin: https://evil.example"], false],
    ["another port of this machine", GET, ["Origin: http://localhost:OTHER"], false],
    ["this machine without a port", GET, ["Origin: http://localhost"], false],
    ["a stranger's page on the very port", POST, ["Origin: http://evil.example:PORT"], false],
    ["a configured name under another scheme", GET, ["Origin: http://chat.example.com"], false],
    ["a configured name with another port", GET, [`Origin: ${CORS_ORIGIN}:444`], false],
    ["a name that begins like a configured one", GET, [`Origin: ${CORS_ORIGIN}.evil.example`], false],
    ["Origin null", POST, ["Origin: null"], false],
    ["an empty Origin", POST, ["Origin: "], false],
    ["our host under a scheme that is not the web's", POST, ["Origin: file://localhost:PORT"], false],
    ["a file origin", POST, ["Origin: file://"], false],
    ["an extension's origin", POST, ["Origin: chrome-extension://localhost:PORT"], false],
    ["an origin with a path", POST, ["Origin: http://localhost:PORT/x"], false],
    ["an origin with a user", POST, ["Origin: http://localhost:PORT@evil.example"], false],
    ["two Origins", POST, ["Origin: http://localhost:PORT", "Origin: https://evil.example"], false],
    ["cross-site without Origin", GET, ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], false],
    [
      "a link on a stranger's page to our page",
      "GET /openapi HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"],
      true,
    ],
    [
      "a form on a stranger's page, sent to our page",
      "POST /openapi HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"],
      false,
    ],
    [
      "our page as an image on a stranger's page",
      "GET /openapi HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    ["cross-site in another spelling", GET, ["Sec-Fetch-Site: Cross-Site"], false],
    ["an image tag on a stranger's page", GET, ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], false],
    ["no-cors in another spelling", GET, ["Sec-Fetch-Mode: No-CORS"], false],
    ["no-cors from a page of this machine", GET, ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"], false],
    [
      "no-cors from our own page to the interface",
      GET,
      ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    ["no-cors with a configured origin", POST, [`Origin: ${CORS_ORIGIN}`, "Sec-Fetch-Mode: no-cors"], false],
    ["a form on a stranger's page", POST, ["Origin: https://evil.example", "Sec-Fetch-Mode: navigate"], false],
    ["typed into the address bar", "GET /openapi HTTP/1.1", ["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"], true],
    [
      "a link on our own page",
      "GET /openapi HTTP/1.1",
      ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"],
      true,
    ],
    [
      "our page's script",
      "GET /openapi/viewer.js HTTP/1.1",
      ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"],
      true,
    ],
    ["our page's icon", "GET /favicon.ico HTTP/1.1", ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"], true],
    [
      "our page's script on a stranger's page",
      "GET /openapi/viewer.js HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    [
      "our page's script on a page at another port",
      "GET /openapi/viewer.js HTTP/1.1",
      ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    [
      "a POST to a page's file",
      "POST /openapi/viewer.js HTTP/1.1",
      ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    [
      "an image link on another page",
      "GET /v1/images/files/a.png HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
      true,
    ],
    [
      "a look at an image link on another page",
      "HEAD /v1/images/files/a.png HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
      true,
    ],
    [
      "a POST of a stranger's page to an image link",
      "POST /v1/images/files/a.png HTTP/1.1",
      ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
      false,
    ],
    ["our page calling the interface", GET, ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"], true],
  ];
  test.each(cases)("%s", async (_name, start, lines, passes) => {
    const body = start.startsWith("POST") ? ["Content-Length: 0"] : [];
    expect(await ask(["Host: localhost:PORT", ...lines, ...body], start)).toEqual(
      passes ? { status: 200, served: 1 } : { status: 403, served: 0 },
    );
  });

  test.each([
    ["localhost", "http://localhost", true],
    ["localhost:80", "http://127.0.0.1", true],
    ["localhost", "http://[::1]:80", true],
    ["localhost:443", "https://localhost", true],
    // By what ends TLS before it.
    ["localhost", "https://localhost", true],
    ["localhost:443", "http://localhost", false],
    // What is served under a name of the operator's is not this machine's alone.
    ["gateway.example.com:8443", "http://localhost:8443", false],
    ["localhost:8443", "https://gateway.example.com", true],
  ])("asked as %s by a page of %s: %p", async (host, origin, passes) => {
    const lines = [`Host: ${host}`, `Origin: ${origin}`, "Content-Length: 0"];
    expect(await ask(lines, POST)).toEqual(passes ? { status: 200, served: 1 } : { status: 403, served: 0 });
  });

  test("a stranger's Host is refused even for image links", async () => {
    const lines = ["Host: evil.example:PORT", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"];
    expect(await ask(lines, "GET /v1/images/files/a.png HTTP/1.1")).toEqual({ status: 403, served: 0 });
  });
});

describe("origins of programs that are made of a page, where they are configured", () => {
  const APPS = ["app://obsidian.md", "file://", "chrome-extension://abcdefghijklmnop", "tauri://localhost", "null"];
  const guard = createGuard({ allowedHosts: [], corsOrigins: APPS });
  const cors = createCors(APPS);
  const CORS = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors" };
  const asks = (origin: string, others: Record<string, string> = {}) =>
    guard(new Request("http://localhost/v1/models", { headers: { origin, ...others } }))?.code;

  test.each(APPS.slice(0, -1))("%s calls, and may read the answer", (origin) => {
    expect([asks(origin), asks(origin, CORS)]).toEqual([undefined, undefined]);
    expect(cors.headers(new Request("http://localhost/", { headers: { origin } }))).toMatchObject({
      "access-control-allow-origin": origin,
    });
  });

  test.each(["app://obsidian.md.evil", "file://evil", "chrome-extension://ponmlkjihgfedcba", "tauri://localhost:1"])(
    "%s is another one",
    (origin) => expect(asks(origin)).toBe("permission_denied"),
  );

  test("an origin that anybody can have is taken from a program, and from no page", () => {
    expect(asks("null")).toBeUndefined();
    expect(asks("null", CORS)).toBe("permission_denied");
    expect(asks("null", { "sec-fetch-site": "same-site", "sec-fetch-mode": "navigate" })).toBe("permission_denied");
    expect(cors.headers(new Request("http://localhost/", { headers: { origin: "null" } }))).toEqual({ vary: "Origin" });
  });
});

describe("without a server", () => {
  test("requests made inside the process pass, at any port", () => {
    const guard = createGuard({ allowedHosts: [], corsOrigins: [] });
    expect(guard(new Request("http://localhost/v1/models"))).toBeUndefined();
    expect(guard(new Request("http://evil.example/v1/models"))?.code).toBe("permission_denied");
  });

  test("the refusal neither echoes the host nor the origin", () => {
    const guard = createGuard({ allowedHosts: [], corsOrigins: [] });
    const host = guard(new Request("http://evil.example/"));
    const origin = guard(new Request("http://localhost/", { headers: { origin: "https://evil.example" } }));
    expect(`${host?.message} ${origin?.message}`).not.toContain("evil");
  });
});

describe("CORS", () => {
  const preflight = (origin: string, extra: Record<string, string> = {}) =>
    new Request("http://localhost/v1/messages", {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST", ...extra },
    });
  const cors = createCors(settings.corsOrigins);

  test("a preflight of a configured origin is answered for exactly that origin", () => {
    const answer = cors.preflight(preflight(CORS_ORIGIN));
    expect(answer?.status).toBe(204);
    expect(answer?.headers.get("access-control-allow-origin")).toBe(CORS_ORIGIN);
    expect(answer?.headers.get("vary")).toBe("Origin");
    expect(answer?.headers.get("access-control-max-age")).toBe("600");
    expect(answer?.headers.get("access-control-allow-headers")).toContain("x-api-key");
    expect(answer?.headers.has("access-control-allow-credentials")).toBe(false);
    expect(answer?.headers.has("access-control-allow-private-network")).toBe(false);
    const near = cors.preflight(preflight(CORS_ORIGIN, { "access-control-request-private-network": "true" }));
    expect(near?.headers.get("access-control-allow-private-network")).toBe("true");
  });

  test.each([
    "x-stainless-lang",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-user-profile-id",
    "anthropic-workspace-id",
    "user-agent",
    "http-referer",
    "x-title",
    "x-openrouter-title",
    "x-client",
    "x-client-request-id",
    "session_id",
    "x-session-affinity",
    "x-opencode-session",
  ])("a page may send %s", (name) => {
    const allowed = cors.preflight(preflight(CORS_ORIGIN))?.headers.get("access-control-allow-headers");
    expect(allowed?.split(", ")).toContain(name);
  });

  test("any other origin gets no preflight and no permission", () => {
    expect(cors.preflight(preflight("https://evil.example"))).toBeUndefined();
    expect(cors.headers(preflight("https://evil.example"))).toEqual({ vary: "Origin" });
    expect(cors.preflight(new Request("http://localhost/", { method: "OPTIONS" }))).toBeUndefined();
  });

  test("what asks for no leave is no preflight, whoever's page it is of", () => {
    const { headers } = preflight(CORS_ORIGIN);
    expect(cors.preflight(new Request("http://localhost/", { method: "POST", headers, body: "{}" }))).toBeUndefined();
    headers.delete("access-control-request-method");
    expect(cors.preflight(new Request("http://localhost/", { method: "OPTIONS", headers }))).toBeUndefined();
  });

  test("an answer that passes by twice says once what it varies with", () => {
    const request = preflight(CORS_ORIGIN);
    const answer = new Response(null, { headers: { vary: "accept" } });
    expect(cors.mark(request, cors.mark(request, answer)).headers.get("vary")).toBe("accept, Origin");
  });

  test("without configured origins CORS says nothing at all", () => {
    const off = createCors([]);
    expect(off.headers(preflight(CORS_ORIGIN))).toEqual({});
    expect(off.preflight(preflight(CORS_ORIGIN))).toBeUndefined();
    expect([...off.mark(preflight(CORS_ORIGIN), new Response(null)).headers]).toEqual([]);
  });
});
