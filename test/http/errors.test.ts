import { describe, expect, spyOn, test } from "bun:test";
import { Elysia } from "elysia";
import { ERRORS, type ErrorCode, GatewayError } from "../../src/canon/errors.ts";
import { dialects } from "../../src/dialects/index.ts";
import { dialectOfPath, errorResponse, methodNotAllowed, renderElysiaError } from "../../src/http/errors.ts";
import { pathOf, requestIdOf } from "../../src/http/request.ts";
import { SpeedLimiter } from "../../src/limits/limiter.ts";
import { createLog } from "../../src/observe/log.ts";
import { startApp } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];
const SECRET = "sk-sluice-do-not-show-this-anywhere";

function capture() {
  const lines: string[] = [];
  return { lines, log: createLog({ level: "info", write: (line) => lines.push(line) }) };
}

describe("every code, in both dialects (contract 6)", () => {
  test.each(CODES)("%s, chat", async (code) => {
    const row = ERRORS[code];
    const response = errorResponse(new GatewayError(code, "Words.", { param: "messages[0]" }), dialects.chat, "req_1");
    expect(response.status).toBe(row.status);
    expect(await response.json()).toEqual({
      error: { message: "Words.", type: row.chatType, param: "messages[0]", code },
    });
    expect(response.headers.get("content-type")).toStartWith("application/json");
  });

  test.each(CODES)("%s, messages", async (code) => {
    const row = ERRORS[code];
    const response = errorResponse(new GatewayError(code, "Words."), dialects.messages, "req_1");
    expect(response.status).toBe(row.messagesStatus);
    expect(await response.json()).toEqual({
      type: "error",
      // Agents compact on these opening words and give up on any other (contract 6).
      error: {
        type: row.messagesType,
        message: code === "context_length_exceeded" ? "prompt is too long: Words." : "Words.",
        code,
      },
      request_id: "req_1",
    });
  });

  test.each(CODES)("%s tells the SDKs whether to try again", (code) => {
    const row = ERRORS[code];
    for (const dialect of Object.values(dialects)) {
      const response = errorResponse(new GatewayError(code, "Words."), dialect, "req_1");
      const header = response.headers.get("x-should-retry");
      // An empty wallet says it too (contract 6), and a wrong key, at which Claude Code asks ten times more.
      const unasked = [401, 402, 409, 429].includes(response.status) || response.status >= 500;
      expect(header).toBe(row.retry ? "true" : unasked ? "false" : null);
    }
  });
});

describe("errorResponse", () => {
  test("carries the request's id twice", () => {
    const { headers } = errorResponse(new GatewayError("not_found", "Words."), dialects.chat, "req_7");
    expect([headers.get("x-request-id"), headers.get("request-id")]).toEqual(["req_7", "req_7"]);
  });

  test.each([
    [7, "7", "7000"],
    [0.2, "1", "200"],
    [1.0001, "2", "1001"],
    [0, "1", "1"],
    [600, "60", "60000"],
  ])("retry after %p s", (seconds, header, milliseconds) => {
    const error = new GatewayError("rate_limit_exceeded", "Words.", { retryAfterSeconds: seconds });
    const { headers } = errorResponse(error, dialects.messages, "req_1");
    expect(headers.get("retry-after")).toBe(header);
    expect(headers.get("retry-after-ms")).toBe(milliseconds);
  });

  test("no wait is invented where none is known", () => {
    const { headers } = errorResponse(new GatewayError("rate_limit_exceeded", "Words."), dialects.chat, "req_1");
    expect(headers.has("retry-after")).toBe(false);
  });

  test("an error's own word on retrying wins over its row's", () => {
    const stop = errorResponse(new GatewayError("upstream_error", "Words.", { retry: false }), dialects.chat, "req_1");
    expect(stop.headers.get("x-should-retry")).toBe("false");
    const again = errorResponse(new GatewayError("invalid_request", "Words.", { retry: true }), dialects.chat, "req_1");
    expect(again.headers.get("x-should-retry")).toBe("true");
  });

  const thrown: [string, unknown][] = [
    ["an Error", new Error(SECRET)],
    ["a string", SECRET],
    ["an object", { message: SECRET }],
    ["undefined", undefined],
    ["null", null],
  ];
  test.each(thrown)("%s, thrown, tells nothing", async (_name, value) => {
    const response = errorResponse(value, dialects.chat, "req_1");
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).toContain("internal_error");
    expect(text).not.toContain("do-not-show");
    expect(text).not.toContain("stack");
  });

  test("a cause is never shown", async () => {
    const error = new GatewayError("upstream_auth", "Words.", { cause: new Error(SECRET) });
    const response = errorResponse(error, dialects.messages, "req_1");
    expect((await response.text()) + JSON.stringify([...response.headers])).not.toContain("do-not-show");
  });
});

describe("the dialect of a path", () => {
  test.each([
    ["/v1/messages", "messages"],
    ["/v1/messages/", "messages"],
    ["/v1/messages/count_tokens", "messages"],
    ["/v1/v1/messages", "messages"],
    ["/messages", "messages"],
    ["/v1/messagesx", "chat"],
    ["/v1/chat/completions", "chat"],
    ["/v1/models", "chat"],
    ["/v1/images/messages", "chat"],
    ["/", "chat"],
    ["/.well-known/oauth-authorization-server", "chat"],
  ])("%s: %s", (path, name) => {
    expect(dialectOfPath(path).name as string).toBe(name);
  });

  test.each([
    ["anthropic-version", "2023-06-01"],
    ["x-api-key", "k"],
  ])("the catalog, asked with %s", (name, value) => {
    const headers = { [name]: value };
    const list = new Headers(headers);
    expect(dialectOfPath("/v1/models", list).name).toBe("messages");
    expect(dialectOfPath("/v1/models/a%2Fb", list).name).toBe("messages");
    expect(dialectOfPath("/v1/v1/models", list).name).toBe("messages");
    expect(dialectOfPath("/v1/modelsx", list).name).toBe("chat");
    expect(dialectOfPath("/v1/chat/completions", list).name).toBe("chat");
  });

  test.each([
    ["http://localhost/v1/messages?beta=true", "/v1/messages"],
    ["http://localhost:4600/v1/messages#x", "/v1/messages"],
    ["http://localhost", "/"],
    ["http://localhost?x=/y", "/y"],
    ["/relative?x", "/relative"],
    ["/v1/messages?from=https://elsewhere/x", "/v1/messages"],
    ["http://localhost/v1/messages?from=https://elsewhere/x", "/v1/messages"],
    ["localhost:1", "/"],
    ["", "/"],
  ])("the path of %p is %s", (url, path) => {
    expect(pathOf(url)).toBe(path);
  });
});

describe("in an app", () => {
  function app() {
    const { lines, log } = capture();
    const served: string[] = [];
    const elysia = new Elysia()
      .onError(({ code, error, request }) => renderElysiaError(code, error, request, log))
      .post("/v1/messages", () => {
        served.push("messages");
        return "ok";
      })
      .all("/v1/messages", methodNotAllowed("POST"))
      .get("/gateway-error", () => {
        throw new GatewayError("model_not_found", "No such model.", { param: "model" });
      })
      .get("/fault", () => {
        throw new TypeError(`broken by ${SECRET}\nsecond line`);
      })
      .get("/string", () => {
        throw "only words";
      })
      .get("/inside", () => {
        throw new GatewayError("internal_error", "Words.", { cause: new Error("the reason") });
      })
      .post("/parse", ({ body }) => typeof body);
    return { elysia, lines, served };
  }
  const ask = (target: ReturnType<typeof app>, path: string, init?: RequestInit) =>
    target.elysia.handle(new Request(`http://localhost${path}`, init));

  test.each(["/nothing", "/.well-known/oauth-protected-resource", "/v1/v1/chat/completions", "/openapi.json"])(
    "unknown path %s is JSON 404",
    async (path) => {
      const target = app();
      const response = await ask(target, path, { headers: { accept: "text/html" } });
      expect(response.status).toBe(404);
      expect(response.headers.get("content-type")).toStartWith("application/json");
      expect(await response.json()).toMatchObject({ error: { code: "not_found", type: "invalid_request_error" } });
      expect(response.headers.get("x-request-id")).toMatch(/^req_/);
      expect(target.lines).toEqual([]);
    },
  );

  test("a doubled /v1 before messages is told in the messages shape", async () => {
    const response = await ask(app(), "/v1/v1/messages", { method: "POST", body: "{}" });
    expect(response.status).toBe(404);
    const body: unknown = await response.json();
    expect(body).toMatchObject({ type: "error", error: { type: "not_found_error" } });
    expect(body).toHaveProperty("request_id", response.headers.get("request-id"));
  });

  test.each([
    ["/v1/files", true],
    ["/v1/v1/files", true],
    ["/mcp", true],
    ["/mcp/web/t/", false],
  ])("what a messages client asks for in vain is told in its shape: %s", async (path, own) => {
    const response = await ask(app(), path, { headers: { "anthropic-version": "2023-06-01" } });
    expect(response.status).toBe(404);
    const body: unknown = await response.json();
    if (own) expect(body).toMatchObject({ type: "error", error: { type: "not_found_error", code: "not_found" } });
    else expect(body).toMatchObject({ jsonrpc: "2.0", id: null });
  });

  test.each(["GET", "PUT", "DELETE", "PATCH"])("%s on a POST path is 405 with Allow", async (method) => {
    const target = app();
    const response = await ask(target, "/v1/messages", { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST");
    expect(await response.json()).toMatchObject({ type: "error", error: { code: "method_not_allowed" } });
    expect(target.served).toEqual([]);
  });

  test("the path's own method is still served", async () => {
    const target = app();
    expect((await ask(target, "/v1/messages", { method: "POST" })).status).toBe(200);
    expect(target.served).toEqual(["messages"]);
  });

  test("a GatewayError comes out as itself", async () => {
    const target = app();
    const response = await ask(target, "/gateway-error");
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "model_not_found", param: "model" } });
    expect(target.lines).toEqual([]);
  });

  test("what is told back of a client's own words is text that strict readers take", () => {
    const { message, param } = new GatewayError("model_not_found", "There is no model lab/\ud83d.", {
      param: "a\udc00b",
    });
    expect([message, param]).toEqual(["There is no model lab/\ufffd.", "a\ufffdb"]);
    // A whole character that is cut in two by the bound.
    const cut = new GatewayError("invalid_request", "x", { param: `${"y".repeat(299)}😀` }).param;
    expect(cut?.isWellFormed()).toBe(true);
  });

  test("a fault is internal_error outside, and one clean line in the log", async () => {
    const target = app();
    const response = await ask(target, "/fault");
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("broken");
    expect(target.lines).toHaveLength(1);
    const line = JSON.parse(target.lines[0] ?? "") as Record<string, unknown>;
    expect(line).toMatchObject({ level: "error", event: "request-fault", method: "GET", path: "/fault" });
    expect(line["request"]).toBe(response.headers.get("x-request-id"));
    expect(String(line["error"])).toContain("TypeError: broken by [removed]");
    expect(target.lines[0]).not.toContain("do-not-show");
  });

  test("what is thrown without being an Error, and internal errors with a cause, are logged too", async () => {
    const target = app();
    expect((await ask(target, "/string")).status).toBe(500);
    expect((await ask(target, "/inside")).status).toBe(500);
    expect(target.lines).toHaveLength(2);
    expect(target.lines[1]).toContain("the reason");
  });

  test("a body Elysia cannot parse is 400 and not quoted", async () => {
    const response = await ask(app(), "/parse", {
      method: "POST",
      body: "{secret-word",
      headers: { "content-type": "application/json" },
    });
    expect(response.status).toBe(400);
    const text = await response.text();
    expect(text).toContain("invalid_request");
    expect(text).not.toContain("secret-word");
  });

  test("a request keeps its id, and no two share one", () => {
    const request = new Request("http://localhost/");
    expect(requestIdOf(request)).toBe(requestIdOf(request));
    expect(requestIdOf(new Request("http://localhost/"))).not.toBe(requestIdOf(request));
  });
});

describe("a fault of the gateway's own is told to the operator, whatever was asked", () => {
  const job = "/v1/images/generations/00000000-0000-4000-8000-000000000000";
  const messages = [{ role: "user", content: "Hi." }];
  const model = "sluice/echo";
  test.each([
    ["/v1/chat/completions", { model, messages }],
    ["/v1/messages", { model, messages, max_tokens: 9 }],
    ["/v1/messages/count_tokens", { model, messages }],
    ["/v1/responses/input_tokens", { model, input: "Hi" }],
    ["/v1/images/generations", { model: "sluice/sketch", prompt: "A hill." }],
    [job, undefined],
    ["/v1/images/generations", undefined],
    ["/v1/web/fetch", { urls: ["https://example.com/"] }],
    ["/mcp/web", { jsonrpc: "2.0", id: 1, method: "tools/list" }],
    ["/v1/account", undefined],
    ["/v1/usage", undefined],
    ["/admin/v1/accounts", undefined],
  ])("%s", async (path, body) => {
    insideOnly("a fault from inside");
    const gateway = await startApp();
    const { accountId, app } = gateway;
    const admin = (await app.keys.create({ accountId, name: "admin", kind: "admin" })).key;
    const authorization = `Bearer ${path.startsWith("/admin") ? admin : gateway.key}`;
    const broken = spyOn(SpeedLimiter.prototype, "take").mockImplementation(() => {
      throw new TypeError("the reason");
    });
    try {
      const response = await (body ? gateway.post(path, body) : gateway.call(path, { headers: { authorization } }));
      expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("the reason")]);
      const told = gateway.log.filter(({ event }) => event === "request-fault");
      expect(told).toMatchObject([{ level: "error", path, error: "TypeError: the reason" }]);
      expect(told[0]?.["request"]).toBe(response.headers.get("x-request-id"));
    } finally {
      broken.mockRestore();
      await gateway.stop();
    }
  });
});
