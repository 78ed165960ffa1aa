import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { retryAfterSeconds } from "../../src/lib/http1/retry-after.ts";
import { ResponseAnswer } from "../../src/vendors/answer.ts";
import { readCapped } from "../../src/vendors/read-answer.ts";
import { ranOf } from "../../src/vendors/retry-policy.ts";
import { type Sending, send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { rejectionOf } from "../support/fault.ts";
import { html, json, neverAnswer, redirect, reset, startUpstream } from "../support/upstream.ts";
import { within } from "../support/wait.ts";

const upstream = startUpstream();
afterAll(() => upstream.close());
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});

const PATH = "/v1/chat/completions";
const MOST = 1_000_000;

const vendorAt = (more: Partial<Vendor> = {}): Vendor => ({
  id: "lab",
  name: "Lab",
  dialect: "chat",
  baseUrl: `${upstream.url}/v1`,
  auth: "bearer",
  apiKey: "sk-lab",
  models: "any",
  quirks: {},
  ...more,
});

const BODY = '{"model":"tiny","n":9007199254740993}';

const sending = (more: Partial<Sending> = {}): Sending => ({
  path: "/chat/completions",
  body: BODY,
  headers: {},
  abort: new Abort(),
  userAgent: "sluice/1.2.3",
  ...more,
});

describe("what leaves", () => {
  test("the body as it is, our headers, the key in the vendor's form, the client's allowed headers and no others", async () => {
    upstream.answer(PATH, json({ ok: true }));
    const headers = {
      "openai-organization": "org",
      "X-Api-Key": "client",
      Authorization: "Bearer client",
      cookie: "c=1",
    };
    const response = await send(vendorAt(), sending({ headers, requestId: "req_1", stream: true }));
    expect(JSON.parse(await response.text(MOST))).toEqual({ ok: true });
    const call = await upstream.called();
    expect(call.text).toBe(BODY);
    expect(call.method).toBe("POST");
    expect(call.headers).toMatchObject({
      authorization: "Bearer sk-lab",
      "user-agent": "sluice/1.2.3",
      "content-type": "application/json",
      accept: "text/event-stream, application/json",
      "x-client-request-id": "req_1",
      "openai-organization": "org",
    });
    expect(JSON.stringify(Object.values(call.headers))).not.toContain("client");
    expect(Object.keys(call.headers)).not.toContain("cookie");
    expect(Object.keys(call.headers)).not.toContain("x-api-key");
    // llama-cpp-python's server refuses one that is no UUID.
    expect(Object.keys(call.headers)).not.toContain("x-request-id");
  });

  test.each([
    ["x-api-key", "x-api-key", "sk-lab"],
    ["api-key", "api-key", "sk-lab"],
    ["x-goog-api-key", "x-goog-api-key", "sk-lab"],
  ] as const)("auth form %s", async (auth, name, value) => {
    upstream.answer(PATH, json({}));
    await (await send(vendorAt({ auth }), sending())).text(MOST);
    const { headers } = await upstream.called();
    expect(headers[name]).toBe(value);
    expect(Object.keys(headers)).not.toContain("authorization");
  });

  test("no key, or form none: nothing of it leaves", async () => {
    const { apiKey: _, ...keyless } = vendorAt();
    upstream.answer(PATH, json({}), json({}));
    await (await send(keyless, sending())).text(MOST);
    await (await send(vendorAt({ auth: "none" }), sending())).text(MOST);
    for (const call of upstream.calls) expect(Object.keys(call.headers).join()).not.toMatch(/auth|key/);
    expect(upstream.calls.length).toBe(2);
  });

  test("a fixed header is the default, the client's word wins; the vendor's query is joined", async () => {
    upstream.always("/v1/messages", json({}));
    const vendor = vendorAt({
      baseUrl: upstream.url,
      headers: { "Anthropic-Version": "2023-06-01" },
      query: "beta=true",
    });
    await (await send(vendor, sending({ path: "/v1/messages" }))).text(MOST);
    await (await send(vendor, sending({ path: "/v1/messages", headers: { "anthropic-version": "2026-01-01" } }))).text(
      MOST,
    );
    expect(upstream.calls.map((call) => [call.headers["anthropic-version"], call.query])).toEqual([
      ["2023-06-01", "beta=true"],
      ["2026-01-01", "beta=true"],
    ]);
  });

  test("a base URL that is no http address, or a key no header can carry, is the operator's fault; nothing is sent", async () => {
    for (const baseUrl of [
      "file:///etc",
      "file://host/etc",
      "s3://bucket",
      "data:text/plain,x",
      "lab",
      "http://",
      "https:///x",
    ]) {
      const error = await rejectionOf(send(vendorAt({ baseUrl }), sending()));
      expect([baseUrl, error.code]).toEqual([baseUrl, "vendor_not_configured"]);
    }
    const error = await rejectionOf(send(vendorAt({ apiKey: "sk-secret\nx" }), sending()));
    expect(error.code).toBe("vendor_not_configured");
    expect(`${error.message} ${String(error.cause)}`).not.toContain("secret");
    expect(upstream.calls).toEqual([]);
  });

  test("the proxy of the environment is not used", async () => {
    upstream.answer(PATH, json({}));
    process.env["HTTP_PROXY"] = "http://127.0.0.1:1";
    try {
      expect((await send(vendorAt(), sending())).status).toBe(200);
    } finally {
      delete process.env["HTTP_PROXY"];
    }
    expect(upstream.calls.length).toBe(1);
  });

  test("a configured proxy is used", async () => {
    const error = await rejectionOf(send(vendorAt({ proxy: "http://127.0.0.1:1" }), sending()));
    expect(error.code).toBe("upstream_unreachable");
    expect(upstream.calls).toEqual([]);
  });
});

describe("what comes back", () => {
  test("an error status is an answer", async () => {
    upstream.answer(PATH, json({ error: { message: "slow" } }, { status: 429 }), html(502));
    expect((await send(vendorAt(), sending())).status).toBe(429);
    expect((await send(vendorAt(), sending())).status).toBe(502);
  });

  test.each([301, 302, 303, 307, 308])("a %d is an error and is not followed", async (status) => {
    upstream.answer(PATH, redirect(`${upstream.url}/elsewhere`, status));
    const error = await rejectionOf(send(vendorAt(), sending()));
    expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_error", false, "no"]);
    expect(upstream.calls.map((call) => call.path)).toEqual([PATH]);
  });

  test("a redirect of an upstream inside the process too", async () => {
    const serve = async () => new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1" } });
    expect((await rejectionOf(send(vendorAt({ serve }), sending()))).code).toBe("upstream_error");
  });

  test("an upstream inside the process gets the same request", async () => {
    let seen: unknown;
    const serve: Vendor["serve"] = async (request) => {
      seen = { url: request.url, body: request.body, auth: request.headers["authorization"] };
      return new Response("hi");
    };
    const response = await send(vendorAt({ baseUrl: "http://sluice.internal/v1", serve }), sending());
    expect(await response.text(MOST)).toBe("hi");
    expect(seen).toEqual({
      url: "http://sluice.internal/v1/chat/completions",
      body: BODY,
      auth: "Bearer sk-lab",
    });
    expect(upstream.calls).toEqual([]);
  });
});

describe("what fails", () => {
  test("refused, unknown name, no TLS: unreachable, and nothing ran", async () => {
    using plain = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("reached") });
    const addresses = ["http://127.0.0.1:1", "http://sluice-test.invalid", `https://127.0.0.1:${plain.port}`];
    for (const baseUrl of addresses) {
      const error = await rejectionOf(send(vendorAt({ baseUrl }), sending()));
      expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_unreachable", true, "no"]);
      expect(error.cause).toBeInstanceOf(Error);
      expect(error.message).not.toContain("127.0.0.1");
    }
    expect(upstream.calls).toEqual([]);
  });

  test("a connection that breaks after the request: unknown, no retry, sent once", async () => {
    upstream.answer(PATH, reset());
    const error = await rejectionOf(send(vendorAt(), sending()));
    expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_error", false, "unknown"]);
    expect(upstream.calls.length).toBe(1);
  });

  /** Calls a vendor whose system takes the connection and tears it down before this side has looked at it again. */
  function sendTorn(scheme: "http" | "https"): Promise<unknown> {
    const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const sent = send(vendorAt({ baseUrl: `${scheme}://127.0.0.1:${listener.port}/v1` }), sending());
    // Those who wait there to be let in are sent away with a reset.
    listener.stop(true);
    return sent;
  }

  test("a connection that breaks before the request: the same, since it is chance which side is faster", async () => {
    const error = await rejectionOf(sendTorn("http"));
    expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_error", false, "unknown"]);
    expect(String(error.cause)).toContain("ECONNRESET");
  });

  test("over TLS nothing can have been sent by then: unreachable", async () => {
    const error = await rejectionOf(sendTorn("https"));
    expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_unreachable", true, "no"]);
    expect(error.cause).toMatchObject({ code: "ECONNRESET" });
  });

  test("our abort comes out as its reason, before, during and inside the process", async () => {
    const reason = new Error("the client left");
    await expect(send(vendorAt(), sending({ abort: Abort.of(AbortSignal.abort(reason)) }))).rejects.toBe(reason);
    expect(upstream.calls).toEqual([]);
    upstream.answer(PATH, neverAnswer());
    const abort = new Abort();
    const waiting = send(vendorAt(), sending({ abort }));
    const call = await upstream.called();
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await within(call.whenAborted, "the upstream sees the connection close");
  });
});

describe("readCapped", () => {
  test("reads whole characters across chunk borders, up to and including the cap", async () => {
    const text = "a€😀".repeat(1000);
    const bytes = new TextEncoder().encode(text);
    const chunked = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
            controller.close();
          },
        }),
      );
    expect(await readCapped(new ResponseAnswer(chunked()), bytes.length)).toBe(text);
    expect(await readCapped(new ResponseAnswer(new Response(null)), 10)).toBe("");
  });

  test("cancels what lies beyond the cap instead of reading it", async () => {
    let pulled = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled++;
          controller.enqueue(new TextEncoder().encode("x".repeat(100)));
        },
        cancel() {
          cancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    expect(await readCapped(new ResponseAnswer(new Response(endless)), 250)).toBe("x".repeat(250));
    expect([pulled, cancelled]).toEqual([3, true]);
  });

  test("a body that breaks off is an error of the upstream; an abort stays its reason", async () => {
    upstream.answer(PATH, { ...json({ ok: true }), claimedLength: 5000, finish: "cut" });
    const broken = await send(vendorAt(), sending());
    const error = await rejectionOf(Promise.resolve(readCapped(broken, 10_000)));
    expect([error.code, error.retry, ranOf(error)]).toEqual(["upstream_error", false, "unknown"]);

    upstream.answer(PATH, { ...json({ ok: true }), claimedLength: 5000, finish: "silence" });
    const abort = new Abort();
    const reason = new Error("too late");
    const reading = Promise.resolve(readCapped(await send(vendorAt(), sending({ abort })), 10_000));
    abort.abort(reason);
    await expect(reading).rejects.toBe(reason);
  });
});

describe("retryAfterSeconds", () => {
  const now = Date.parse("2026-01-02T03:04:05.500Z");
  test.each([
    [{}, undefined],
    [{ "retry-after": "7" }, 7],
    [{ "retry-after": " 1.2 " }, 2],
    // As Python and JavaScript write what they have left of a time.
    [{ "retry-after": "19.299999999999997" }, 20],
    [{ "retry-after-ms": "1500.0000000000002" }, 2],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after-ms": "1500" }, 2],
    [{ "retry-after-ms": "20", "retry-after": "60" }, 1],
    [{ "retry-after-ms": "soon", "retry-after": "60" }, 60],
    [{ "retry-after": "Fri, 02 Jan 2026 03:04:35 GMT" }, 30],
    [{ "retry-after": "Friday, 02-Jan-26 03:04:35 GMT" }, 30],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:00 GMT" }, 0],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "1e9" }, undefined],
    [{ "retry-after": "Infinity" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "2026" }, 2026],
    [{ "retry-after": "Fri, 99 Foo" }, undefined],
    [{ "retry-after": "9".repeat(400) }, undefined],
  ] as [Record<string, string>, number | undefined][])("%j is %p", (headers, expected) => {
    expect(retryAfterSeconds(new Headers(headers), now)).toBe(expected as number);
  });

  test.each(["Fri Jan  2 03:04:35 2026", "Fri, 02 Jan 2026 03:04:35"])("%j is in GMT wherever this runs", (date) => {
    const file = Bun.fileURLToPath(new URL("../../src/lib/http1/retry-after.ts", import.meta.url));
    const ask = `retryAfterSeconds(new Headers({ "retry-after": ${JSON.stringify(date)} }), ${now})`;
    const script = `console.log((await import(${JSON.stringify(file)})).${ask})`;
    const { stdout } = Bun.spawnSync([process.execPath, "-e", script], {
      env: { ...process.env, TZ: "America/New_York" },
    });
    expect(stdout.toString()).toBe("30\n");
  });
});
