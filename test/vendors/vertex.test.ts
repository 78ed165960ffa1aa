import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportPKCS8, generateKeyPair, jwtVerify } from "jose";
import { resolveVendors } from "../../src/config/discover.ts";
import { readCredentials } from "../../src/vendors/auth/google-credentials.ts";
import { GoogleTokens } from "../../src/vendors/auth/google-tokens.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { registry } from "../../src/vendors/registry.ts";
import { load, makeFolder, removeFolders, writeIn } from "../config/support.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { rejectionOf } from "../support/fault.ts";
import { type Call, chatReply, json, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";

const upstream = startUpstream();
const folder = mkdtempSync(join(tmpdir(), "sluice-vertex-"));
afterAll(() => {
  upstream.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});

const TOKEN_PATH = "/token";
/** As `gcloud auth application-default login` writes it. */
const login = {
  type: "authorized_user",
  client_id: "client-1",
  client_secret: "secret-1",
  refresh_token: "refresh-1",
};
let publicKey: CryptoKey;
let account: Record<string, string>;
let keyFile = "";

beforeAll(async () => {
  const pair = await generateKeyPair("RS256", { extractable: true });
  publicKey = pair.publicKey;
  account = {
    type: "service_account",
    client_email: "robot@project.iam.example",
    private_key_id: "key-1",
    private_key: await exportPKCS8(pair.privateKey),
    token_uri: `${upstream.url}${TOKEN_PATH}`,
  };
  keyFile = join(folder, "account.json");
  writeFileSync(keyFile, JSON.stringify(account));
});

const open = () => new AbortController().signal;
/** The token that calls carry. */
const tokenOf = async (tokens: GoogleTokens, key: string, signal = open()) =>
  (await tokens.headers(key, signal))["authorization"]?.replace("Bearer ", "");
const tokenAnswer = (token: string) => json({ access_token: token, expires_in: 3600, token_type: "Bearer" });

describe("a service account's token", () => {
  test("is asked for with a signed assertion that its key proves", async () => {
    const now = Date.UTC(2026, 0, 2);
    upstream.answer(TOKEN_PATH, tokenAnswer("t-1"));
    expect(await tokenOf(new GoogleTokens(() => now), keyFile)).toBe("t-1");
    const call = await upstream.called();
    const form = new URLSearchParams(call.text);
    expect(call.headers["content-type"]).toStartWith("application/x-www-form-urlencoded");
    expect(form.get("grant_type")).toBe("urn:ietf:params:oauth:grant-type:jwt-bearer");
    const { payload, protectedHeader } = await jwtVerify(form.get("assertion") ?? "", publicKey, {
      currentDate: new Date(now),
    });
    expect(protectedHeader).toEqual({ alg: "RS256", typ: "JWT", kid: "key-1" });
    expect(payload).toEqual({
      scope: "https://www.googleapis.com/auth/cloud-platform",
      iss: "robot@project.iam.example",
      sub: "robot@project.iam.example",
      aud: `${upstream.url}${TOKEN_PATH}`,
      iat: now / 1000,
      exp: now / 1000 + 3600,
    });
    expect(call.text).not.toContain("PRIVATE");
  });

  test.each([-600_000, 600_000])(
    "is asked for once more by the endpoint's clock where this one is off by %p ms",
    async (off) => {
      const right = Date.UTC(2026, 0, 2);
      const date = new Date(right).toUTCString();
      const refused = json({ error: "invalid_grant" }, { status: 400, headers: { date } });
      upstream.answer(TOKEN_PATH, refused, tokenAnswer("t-1"), refused, refused);
      expect(await tokenOf(new GoogleTokens(() => right + off), keyFile)).toBe("t-1");
      const assertions = upstream.calls.map(({ text }) => new URLSearchParams(text).get("assertion") ?? "");
      const currentDate = new Date(right);
      const signed = await Promise.all(assertions.map((one) => jwtVerify(one, publicKey, { currentDate })));
      expect(signed.map(({ payload }) => payload.iat)).toEqual([(right + off) / 1000, right / 1000]);
      expect((await rejectionOf(tokenOf(new GoogleTokens(() => right + off), keyFile))).code).toBe("upstream_auth");
      expect(upstream.calls).toHaveLength(4);
    },
  );

  test("is kept until a minute before its end", async () => {
    let now = 1_000_000;
    const accounts = new GoogleTokens(() => now);
    const gate = Promise.withResolvers<void>();
    upstream.answer(TOKEN_PATH, tokenAnswer("t-1"), { ...tokenAnswer("t-2"), headersAfter: gate.promise });
    const ask = () => tokenOf(accounts, keyFile);
    expect(await ask()).toBe("t-1");
    now += 3_600_000 - 60_001;
    expect(await ask()).toBe("t-1");
    now += 1;
    // The one that was asked for ahead is waited for now.
    const next = ask();
    await upstream.called(1);
    gate.resolve();
    expect(await next).toBe("t-2");
    expect(await ask()).toBe("t-2");
    expect(upstream.calls).toHaveLength(2);
  });

  test("is asked for anew minutes before its end, by nobody who waits: no request fails while its endpoint does", async () => {
    let now = 1_000_000;
    const accounts = new GoogleTokens(() => now);
    const gate = Promise.withResolvers<void>();
    upstream.answer(
      TOKEN_PATH,
      tokenAnswer("t-1"),
      { ...json({}, { status: 503 }), headersAfter: gate.promise },
      tokenAnswer("t-2"),
    );
    const ask = () => tokenOf(accounts, keyFile);
    expect(await ask()).toBe("t-1");
    now += 3_600_000 - 5 * 60_000 - 1;
    expect(await ask()).toBe("t-1");
    expect(upstream.calls).toHaveLength(1);
    now += 1;
    expect(await Promise.all(Array.from({ length: 20 }, ask))).toEqual(Array.from({ length: 20 }, () => "t-1"));
    await upstream.called(1);
    gate.resolve();
    // Not at every request: what fails is left alone for a moment.
    expect(await ask()).toBe("t-1");
    expect(upstream.calls).toHaveLength(2);
    await until(async () => {
      now += upstream.calls.length < 3 ? 500 : 0;
      return (await ask()) === "t-2";
    }, "the next token");
    expect(upstream.calls).toHaveLength(3);
  });

  test("is asked for once, however many wait; one who leaves takes nobody along", async () => {
    const gate = Promise.withResolvers<void>();
    upstream.answer(TOKEN_PATH, { ...tokenAnswer("t-1"), headersAfter: gate.promise });
    const accounts = new GoogleTokens();
    const leaving = new AbortController();
    const left = tokenOf(accounts, keyFile, leaving.signal).catch((reason: unknown) => reason);
    const others = [tokenOf(accounts, keyFile), tokenOf(accounts, keyFile)];
    await upstream.called();
    leaving.abort("gone");
    expect(await left).toBe("gone");
    gate.resolve();
    expect(await Promise.all(others)).toEqual(["t-1", "t-1"]);
    expect(upstream.calls).toHaveLength(1);
    await expect(tokenOf(accounts, keyFile, AbortSignal.abort("late"))).rejects.toBe("late");
  });

  test("a failure is told as what it is, and the next request asks again", async () => {
    const accounts = new GoogleTokens();
    upstream.answer(
      TOKEN_PATH,
      json({ error: "invalid_grant", error_description: "account not found" }, { status: 400 }),
      json({}, { status: 503 }),
      json({ token_type: "Bearer" }),
      tokenAnswer("t-1"),
    );
    for (const code of ["upstream_auth", "upstream_unreachable", "upstream_auth"] as const) {
      expect((await rejectionOf(tokenOf(accounts, keyFile))).code).toBe(code);
    }
    expect(await tokenOf(accounts, keyFile)).toBe("t-1");
  });

  test("keys that are none are the operator's fault, and nothing of them is shown", async () => {
    const accounts = new GoogleTokens();
    const withField = (name: string, value: string) => JSON.stringify({ ...account, [name]: value });
    const keys = [
      join(folder, "not-there.json"),
      "{",
      withField("type", "authorized_user"),
      withField("type", "external_account"),
      withField("type", "constructor"),
      JSON.stringify({ ...login, refresh_token: "" }),
      withField("client_email", ""),
      withField("private_key", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"),
      withField("token_uri", "http://tokens.example/token"),
      withField("token_uri", "file:///etc/passwd"),
    ];
    for (const key of keys) {
      const error = await rejectionOf(tokenOf(accounts, key));
      expect(error.code).toBe("vendor_not_configured");
      expect(error.message).not.toContain("c2VjcmV0");
      expect(error.message).not.toContain(folder);
    }
    expect(upstream.calls).toEqual([]);
  });

  test("the JSON itself will do as a key; a server that is not there cannot be reached", async () => {
    upstream.answer(TOKEN_PATH, tokenAnswer("t-1"));
    expect(await tokenOf(new GoogleTokens(), JSON.stringify(account))).toBe("t-1");
    const gone = JSON.stringify({ ...account, token_uri: "http://127.0.0.1:1/token" });
    expect((await rejectionOf(tokenOf(new GoogleTokens(), gone))).code).toBe("upstream_unreachable");
  });
});

describe("a user's token", () => {
  test("is got with what gcloud has written of his login, and his calls are counted for the project that it names", async () => {
    upstream.answer(TOKEN_PATH, tokenAnswer("t-1"), tokenAnswer("t-2"));
    const key = JSON.stringify({ ...login, token_uri: account["token_uri"], quota_project_id: "p-2" });
    expect(await new GoogleTokens().headers(key, open())).toEqual({
      authorization: "Bearer t-1",
      "x-goog-user-project": "p-2",
    });
    const { text } = await upstream.called();
    expect(Object.fromEntries(new URLSearchParams(text))).toEqual({
      grant_type: "refresh_token",
      client_id: login.client_id,
      client_secret: login.client_secret,
      refresh_token: login.refresh_token,
    });
    const plain = JSON.stringify({ ...login, token_uri: account["token_uri"] });
    expect(await new GoogleTokens().headers(plain, open())).toEqual({ authorization: "Bearer t-2" });
  });

  test("a login that has ended is told as the operator's", async () => {
    upstream.answer(TOKEN_PATH, json({ error: "invalid_grant", error_subtype: "invalid_rapt" }, { status: 400 }));
    const key = JSON.stringify({ ...login, token_uri: account["token_uri"] });
    const error = await rejectionOf(tokenOf(new GoogleTokens(), key));
    expect(error.code).toBe("upstream_auth");
    for (const secret of Object.values(login).slice(1)) expect(error.message).not.toContain(secret);
  });

  test("is asked of Google, where the file does not say of whom, and of no address in the clear", async () => {
    expect((await readCredentials(JSON.stringify(login))).tokenUri).toBe("https://oauth2.googleapis.com/token");
    const clear = JSON.stringify({ ...login, token_uri: "http://tokens.example/token" });
    expect((await rejectionOf(readCredentials(clear))).code).toBe("vendor_not_configured");
  });
});

describe("the row", () => {
  const on = (environment: Record<string, string>) => fromEnvironment(environment).find(({ id }) => id === "vertex");

  test("an answer that breaks off, or never ends, is told as what it is", async () => {
    const broken = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{");
          socket.end();
        },
      },
    });
    const endless = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () =>
        new Response(
          new ReadableStream({
            async pull(controller) {
              await Bun.sleep(1);
              controller.enqueue(Buffer.alloc(64 * 1024, 120));
            },
          }),
        ),
    });
    const askAt = (port: number | undefined) =>
      tokenOf(new GoogleTokens(), JSON.stringify({ ...account, token_uri: `http://127.0.0.1:${port}/` }));
    expect((await rejectionOf(askAt(broken.port))).code).toBe("upstream_unreachable");
    expect((await rejectionOf(askAt(endless.port))).code).toBe("upstream_auth");
    broken.stop(true);
    await endless.stop(true);
  });

  test("needs an account and a project; without a location it is the global one, on a host of its own", () => {
    const both = { GOOGLE_APPLICATION_CREDENTIALS: "account.json", GOOGLE_CLOUD_PROJECT: "p-1" };
    expect(on(both)?.baseUrl).toBe(
      "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/publishers/google",
    );
    expect(on({ ...both, GOOGLE_CLOUD_LOCATION: " " })?.baseUrl).toBe(on(both)?.baseUrl as string);
    expect(on({ ...both, GOOGLE_CLOUD_LOCATION: "europe-west4" })?.baseUrl).toBe(
      "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4/publishers/google",
    );
    // The whole of a continent is on a host of its own as well.
    for (const place of ["us", "eu"]) {
      expect(on({ ...both, GOOGLE_CLOUD_LOCATION: place })?.baseUrl).toBe(
        `https://aiplatform.${place}.rep.googleapis.com/v1/projects/p-1/locations/${place}/publishers/google`,
      );
    }
    expect(on({ GOOGLE_CLOUD_PROJECT: "p-1" })).toBeUndefined();
    expect(on({ GOOGLE_APPLICATION_CREDENTIALS: "account.json" })).toBeUndefined();
  });
});

describe("through the front door", () => {
  const BASE = "/v1/projects/p-1/locations/global/publishers/google";
  const MODEL = "gemini-3-pro";
  const record = (value: unknown) => `data: ${JSON.stringify(value)}\r\n\r\n`;
  const reply = (parts: unknown[], finishReason?: string) => ({
    candidates: [{ content: { role: "model", parts }, ...(finishReason && { finishReason }) }],
    usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 2, thoughtsTokenCount: 3 },
  });
  let app: TestApp;

  beforeAll(async () => {
    const environment = {
      GOOGLE_APPLICATION_CREDENTIALS: keyFile,
      GOOGLE_CLOUD_PROJECT: "p-1",
      GEMINI_API_KEY: "AIza-test",
    };
    const vendors = fromEnvironment(environment).map((vendor) => ({
      ...vendor,
      baseUrl: `${upstream.url}${new URL(vendor.baseUrl).pathname}`,
    }));
    app = await startApp({ vendors: vendors.map((vendor) => ({ ...vendor, models: "any" as const })) });
  });
  afterAll(() => app?.stop());

  const ask = (path: string, more: object = {}) =>
    app.post(path, { model: `vertex/${MODEL}`, max_tokens: 50, messages: [{ role: "user", content: "Hi" }], ...more });

  test("a stream and a whole reply, with the account's token, for clients of both dialects", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    const text = record(reply([{ text: "Let me see.", thought: true }])) + record(reply([{ text: "Grüße" }], "STOP"));
    upstream.always(`${BASE}/models/${MODEL}:streamGenerateContent`, {
      headers: { "content-type": "text/event-stream" },
      parts: [...new TextEncoder().encode(text)].map((byte) => new Uint8Array([byte])),
      framing: "chunked",
      finish: "end",
    });
    upstream.always(`${BASE}/models/${MODEL}:generateContent`, json(reply([{ text: "Grüße" }], "STOP")));
    expect(await (await ask("/v1/chat/completions", { stream: true })).text()).toEndWith("data: [DONE]\n\n");
    const streamed = await (await ask("/v1/messages", { stream: true })).text();
    expect(streamed).toContain('"thinking":"Let me see."');
    expect(streamed).toContain("event: message_stop");
    const chat = (await (await ask("/v1/chat/completions")).json()) as {
      choices: { message: unknown }[];
      usage: unknown;
    };
    expect(chat.choices[0]?.message).toMatchObject({ content: "Grüße" });
    expect(chat.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 5 });
    const message = (await (await ask("/v1/messages")).json()) as Record<string, unknown>;
    expect(message).toMatchObject({ model: `vertex/${MODEL}`, stop_reason: "end_turn" });
    const calls = upstream.calls.filter((call: Call) => call.path !== TOKEN_PATH);
    expect(calls).toHaveLength(4);
    // One token is for all; another test may have fetched it.
    expect(upstream.calls.length).toBeLessThanOrEqual(5);
    for (const call of calls) {
      expect(call.headers["authorization"]).toBe("Bearer t-1");
      expect(call.headers["x-goog-api-key"]).toBeUndefined();
      expect(call.query).toBe(call.path.endsWith(":streamGenerateContent") ? "alt=sse" : "");
      expect(call.json).toEqual({
        contents: [{ role: "user", parts: [{ text: "Hi" }] }],
        generationConfig: { maxOutputTokens: 50 },
      });
    }
  });

  test("a token that Google takes no more, since this machine's clock stood still for its host's sleep, is changed for another one", async () => {
    let given = 2;
    upstream.always(TOKEN_PATH, () => tokenAnswer(`t-${given++}`));
    const refused = json({ error: { code: 401, message: "expired", status: "UNAUTHENTICATED" } }, { status: 401 });
    const good = json(reply([{ text: "Hi" }], "STOP"));
    const path = `${BASE}/models/${MODEL}:generateContent`;
    let old: string | undefined;
    upstream.always(path, ({ headers }) => {
      old ??= headers["authorization"];
      return headers["authorization"] === old ? refused : good;
    });
    const asked = () => upstream.calls.filter((call: Call) => call.path === path).length;
    expect((await ask("/v1/chat/completions")).status).toBe(200);
    expect(asked()).toBe(2);
    expect((await ask("/v1/chat/completions")).status).toBe(200);
    expect(asked()).toBe(3);
    // Credentials that are refused with each token stay so.
    upstream.always(path, refused);
    given = 1;
    expect((await ask("/v1/chat/completions")).status).toBe(502);
    expect(asked()).toBe(5);
  });

  test("a model that Google's own API has as well is known here: what a client asks of its reasoning is told it", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    upstream.always(`${BASE}/models/gemini-3.8-flash:generateContent`, json(reply([{ text: "Hi" }], "STOP")));
    const asked = { model: "vertex/gemini-3.8-flash", reasoning_effort: "high" };
    const response = await ask("/v1/chat/completions", asked);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(upstream.calls.at(-1)?.json).toMatchObject({
      generationConfig: { thinkingConfig: { thinkingLevel: "high" } },
    });
    // Of others nobody knows how they are told.
    upstream.always(`${BASE}/models/${MODEL}:generateContent`, json(reply([{ text: "Hi" }], "STOP")));
    const unknown = await ask("/v1/chat/completions", { reasoning_effort: "high" });
    expect(unknown.headers.get("x-sluice-dropped")).toBe("reasoning_effort");
  });

  test("other makers' models are had by a row that names the account's file", async () => {
    const home = makeFolder();
    const file = writeIn(home, "an account.json", JSON.stringify(account));
    const base = `${upstream.url}/v1/projects/p-1/locations/global/endpoints/openapi`;
    const row = { id: "garden", dialect: "chat", base_url: base, auth: "service-account", api_key: file };
    writeIn(home, "sluice.json", JSON.stringify({ vendors: [row] }));
    const { vendors: rows } = load(home);
    const { vendors } = resolveVendors({ registry, fromEnvironment, environment: {}, rows, models: [] });
    const garden = await startApp({ vendors });
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    upstream.always("/v1/projects/p-1/locations/global/endpoints/openapi/chat/completions", json(chatReply("fine")));
    const model = "meta/llama-4-maas";
    const response = await garden.post("/v1/messages", {
      ...{ model: `garden/${model}`, max_tokens: 50, messages: [{ role: "user", content: "Hi" }] },
    });
    expect(await response.text()).toContain("fine");
    const [call] = upstream.calls.filter(({ path }) => path !== TOKEN_PATH);
    expect(call?.headers["authorization"]).toBe("Bearer t-1");
    expect(call?.json).toMatchObject({ model });
    await garden.stop();
    removeFolders();
  });

  test("a stream that ends without a finish reason is an error without a terminator", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    upstream.answer(`${BASE}/models/${MODEL}:streamGenerateContent`, {
      headers: { "content-type": "text/event-stream" },
      parts: [record(reply([{ text: "Grü" }]))],
      framing: "chunked",
      finish: "end",
    });
    const text = await (await ask("/v1/messages", { stream: true })).text();
    expect(text).toContain("stream_truncated");
    expect(text).not.toContain("message_stop");
  });

  test("google's own door takes the key in its header; a key it refuses is not the caller's", async () => {
    upstream.answer(
      "/v1beta/models/gemini-3-pro:generateContent",
      json(reply([{ text: "Hi" }], "STOP")),
      json(
        {
          error: {
            code: 400,
            message: "API key not valid.",
            status: "INVALID_ARGUMENT",
            details: [{ reason: "API_KEY_INVALID" }],
          },
        },
        { status: 400 },
      ),
    );
    const good = await ask("/v1/chat/completions", { model: "google/gemini-3-pro" });
    expect(good.status).toBe(200);
    const call = await upstream.called();
    expect(call.headers["x-goog-api-key"]).toBe("AIza-test");
    expect(call.headers["authorization"]).toBeUndefined();
    const bad = await ask("/v1/chat/completions", { model: "google/gemini-3-pro" });
    expect(bad.status).toBe(502);
    const text = await bad.text();
    expect(text).toContain("upstream_auth");
    expect(text).not.toContain("AIza");
  });
});

describe("Anthropic's models there", () => {
  const ID = "vertex-anthropic";
  const MODEL = "claude-test@20250929";
  const BASE = "/v1/projects/p-1/locations/global/publishers/anthropic/models";
  const WHOLE = `${BASE}/${MODEL}:rawPredict`;
  const STREAM = `${BASE}/${MODEL}:streamRawPredict`;
  const COUNT = `${BASE}/count-tokens:rawPredict`;
  const both = { GOOGLE_APPLICATION_CREDENTIALS: "account.json", GOOGLE_CLOUD_PROJECT: "p-1" };
  const on = (environment: Record<string, string>) => fromEnvironment(environment).find(({ id }) => id === ID);
  const message = {
    ...{ id: "msg_vrtx_1", type: "message", role: "assistant", model: "claude-test" },
    ...{ content: [{ type: "text", text: "Grüße" }], stop_reason: "end_turn", stop_sequence: null },
    usage: { input_tokens: 7, output_tokens: 2 },
  };
  // As Google sends it: with blanks behind each record's value.
  const events = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "ping" },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Grüße" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 2 } },
    { type: "message_stop" },
  ];
  const stream = {
    headers: { "content-type": "text/event-stream; charset=utf-8" },
    parts: events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}      \n\n`),
    framing: "chunked" as const,
    finish: "end" as const,
  };
  let app: TestApp;

  beforeAll(async () => {
    const vendor = on({ ...both, GOOGLE_APPLICATION_CREDENTIALS: keyFile });
    if (!vendor) throw new Error(`${ID} is not on`);
    app = await startApp({
      vendors: [{ ...vendor, baseUrl: `${upstream.url}${new URL(vendor.baseUrl).pathname}` }],
    });
  });
  afterAll(() => app?.stop());

  const body = { model: `${ID}/${MODEL}`, max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
  const calls = () => upstream.calls.filter((call: Call) => call.path !== TOKEN_PATH);

  test("are where Google's are, unless Anthropic's own variables say otherwise", () => {
    const everywhere = "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/publishers/anthropic";
    expect(on(both)?.baseUrl).toBe(everywhere);
    expect(on({ ...both, GOOGLE_CLOUD_LOCATION: "europe-west4", CLOUD_ML_REGION: "global" })?.baseUrl).toBe(everywhere);
    expect(on({ ...both, GOOGLE_CLOUD_LOCATION: "europe-west1" })?.baseUrl).toBe(
      "https://europe-west1-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west1/publishers/anthropic",
    );
    expect(on({ ...both, ANTHROPIC_VERTEX_PROJECT_ID: "p-2", CLOUD_ML_REGION: "eu" })?.baseUrl).toBe(
      "https://aiplatform.eu.rep.googleapis.com/v1/projects/p-2/locations/eu/publishers/anthropic",
    );
    expect(on({ GOOGLE_APPLICATION_CREDENTIALS: "account.json" })).toBeUndefined();
    expect(on({ GOOGLE_CLOUD_PROJECT: "p-1" })).toBeUndefined();
  });

  test("answer clients of three dialects, streaming and whole: model in the path, version in the body, betas in the header", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    upstream.always(STREAM, stream);
    upstream.always(WHOLE, json(message));
    const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m-2025-08-07" };
    const streamed = await (await app.post("/v1/messages", { ...body, stream: true }, { headers })).text();
    expect(streamed).toContain("Grüße");
    expect(streamed).toContain("event: message_stop");
    expect(streamed).toContain(`"model":"${ID}/${MODEL}"`);
    expect(await (await app.post("/v1/messages", body, { headers })).json()).toMatchObject({
      model: `${ID}/${MODEL}`,
      content: message.content,
    });
    for (const call of calls()) {
      expect(call.headers["authorization"]).toBe("Bearer t-1");
      expect(call.headers["x-api-key"]).toBeUndefined();
      expect(call.headers["anthropic-version"]).toBeUndefined();
      expect(call.headers["anthropic-beta"]).toBe("context-1m-2025-08-07");
      const { model: _model, ...rest } = body;
      const asked = { ...rest, anthropic_version: "vertex-2023-10-16" };
      expect(call.json).toEqual(call.path === STREAM ? { ...asked, stream: true } : asked);
    }
    const chat = await (await app.post("/v1/chat/completions", { ...body, stream: true })).text();
    expect(chat).toContain("Grüße");
    expect(chat).toEndWith("data: [DONE]\n\n");
    const responses = await app.post("/v1/responses", { model: body.model, input: "Hi" });
    expect(JSON.stringify(await responses.json())).toContain("Grüße");
    expect(calls().map(({ path, json: sent }) => [path, (sent as { stream?: boolean }).stream])).toEqual([
      [STREAM, true],
      [WHOLE, undefined],
      [STREAM, true],
      [WHOLE, undefined],
    ]);
    expect(app.rows().map((row) => Number(row.output))).toEqual([2, 2, 2, 2]);
  });

  test("are known as at their maker's, by names with the day they are of: what a client asks of their reasoning is told them", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    for (const [name, wanted] of [
      ["claude-sonnet-4-5@20250929", { thinking: { type: "enabled" }, max_tokens: 64_000 }],
      ["claude-opus-4-8@default", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
    ] as const) {
      upstream.always(`${BASE}/${name}:rawPredict`, json(message));
      const { max_tokens: _none, ...rest } = body;
      const asked = { ...rest, model: `${ID}/${name}`, reasoning_effort: "high" };
      const response = await app.post("/v1/chat/completions", asked);
      expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
      expect(calls().at(-1)?.json).toMatchObject(wanted);
    }
  });

  test("are counted by Google's counter, which is told the model and no betas", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    upstream.answer(COUNT, json({ input_tokens: 9 }));
    const headers = { "anthropic-beta": "web-search-2025-03-05" };
    const counted = await app.post("/v1/messages/count_tokens", { ...body, stream: true }, { headers });
    expect(await counted.json()).toEqual({ input_tokens: 9 });
    expect(counted.headers.get("x-sluice-token-count")).toBe("vendor");
    const [call] = calls();
    expect(call?.headers["anthropic-beta"]).toBeUndefined();
    expect(call?.json).toEqual({ model: MODEL, messages: body.messages, anthropic_version: "vertex-2023-10-16" });
  });

  test("a beta that they refuse is left out and named; Google's own refusals are told as what they are", async () => {
    upstream.always(TOKEN_PATH, tokenAnswer("t-1"));
    const unknown =
      "Unexpected value(s) `effort-2025-11-24` for the `anthropic-beta` header. Please consult our documentation at platform.claude.com/docs or try again without the header.";
    upstream.always(WHOLE, ({ headers }) =>
      headers["anthropic-beta"]?.includes("effort")
        ? json({ type: "error", error: { type: "invalid_request_error", message: unknown } }, { status: 400 })
        : json(message),
    );
    const headers = { "anthropic-beta": "effort-2025-11-24,context-1m-2025-08-07" };
    const served = await app.post("/v1/messages", body, { headers });
    expect(served.status).toBe(200);
    expect(served.headers.get("x-sluice-dropped")).toContain("anthropic-beta");
    expect(calls().at(-1)?.headers["anthropic-beta"]).toBe("context-1m-2025-08-07");

    const quota =
      "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model with base model: anthropic-claude-test. Please submit a quota increase request.";
    const limited = { error: { code: 429, message: quota, status: "RESOURCE_EXHAUSTED" } };
    const absent = {
      error: {
        code: 404,
        message: `Publisher Model \`projects/p-1/locations/global/publishers/anthropic/models/${MODEL}\` was not found or your project does not have access to it.`,
        status: "NOT_FOUND",
      },
    };
    upstream.always(WHOLE, json(absent, { status: 404 }));
    const gone = await app.post("/v1/messages", body);
    const { error } = (await gone.json()) as { error: { code: string; message: string } };
    expect([gone.status, error.code, gone.headers.get("x-should-retry")]).toEqual([502, "upstream_error", "false"]);
    expect(error.message).toBe("The vendor does not know this model or path.");
    // A stream's refusal stands in a list.
    upstream.always(STREAM, json([limited], { status: 429 }));
    const refused = await app.post("/v1/messages", { ...body, stream: true });
    expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
      429,
      "rate_limit_exceeded",
    ]);
  });
});
