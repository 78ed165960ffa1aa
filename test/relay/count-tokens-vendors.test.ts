import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { upstreamError } from "../../src/dialects/refusals/upstream-error.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

const PATH = "/v1/messages/count_tokens";

let upstream: Upstream;
let app: TestApp;

/** A vendor of Google's dialect, whose paths stand right below its base URL. */
const google = (id: string, quirks: Vendor["quirks"]): Vendor => ({
  ...vendorAt(upstream, "chat", id, quirks),
  dialect: "gemini",
  auth: "x-goog-api-key",
  baseUrl: `${upstream.url}/v1beta`,
});

beforeAll(async () => {
  upstream = startUpstream();
  app = await startApp({
    vendors: [
      google("google", { countTokens: true }),
      google("vertex", { countTokens: true, bareCountBody: true }),
      vendorAt(upstream, "responses", "openai", { countTokens: true }),
      vendorAt(upstream, "messages", "claude", { countTokens: true }),
      {
        ...vendorAt(upstream, "messages", "many", { countTokens: true }),
        apiKey: "key-a1",
        apiKeys: ["key-a1", "key-b2"],
      },
      { ...vendorAt(upstream, "responses", "keyless", { countTokens: true }), apiKey: "" },
    ],
    models: [
      {
        ...{ id: "lab/three", pricing: "free" },
        routes: ["many", "claude", "openai"].map((vendor) => ({ vendor, model: "claude-opus-4-8" })),
      },
    ],
  });
});
afterEach(() => {
  expect(app.rows()).toEqual([]);
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});
afterAll(async () => {
  await app?.stop();
  upstream.close();
});

const body = (model: string, more: Record<string, unknown> = {}) => ({
  model,
  max_tokens: 100,
  temperature: 0.3,
  stream: true,
  system: "Be brief.",
  messages: [{ role: "user", content: "How high is the tide?" }],
  tools: [{ name: "tide", description: "Its height.", input_schema: { type: "object", properties: {} } }],
  ...more,
});

async function count(asked: Record<string, unknown>) {
  const response = await app.post(PATH, asked);
  const { input_tokens: tokens } = (await response.json()) as { input_tokens: number };
  return { status: response.status, by: response.headers.get("x-sluice-token-count"), tokens };
}

describe("Google's own counter", () => {
  test("is asked with the whole request, tools and system prompt included", async () => {
    upstream.answer("/v1beta/models/gemini-3-pro:countTokens", json({ totalTokens: 421, promptTokensDetails: [] }));
    expect(await count(body("google/gemini-3-pro"))).toEqual({ status: 200, by: "vendor", tokens: 421 });
    const [call] = upstream.calls;
    expect(call?.headers["x-goog-api-key"]).toBe("vendor-key-of-google");
    const { generateContentRequest: asked, ...rest } = (call?.json ?? {}) as {
      generateContentRequest: Record<string, unknown>;
    };
    expect(rest).toEqual({});
    expect(asked).toMatchObject({
      model: "models/gemini-3-pro",
      contents: [{ role: "user", parts: [{ text: "How high is the tide?" }] }],
      systemInstruction: { parts: [{ text: "Be brief." }] },
      tools: [{ functionDeclarations: [{ name: "tide" }] }],
    });
  });

  test("Vertex is asked with the fields themselves", async () => {
    upstream.answer("/v1beta/models/gemini-3-pro:countTokens", json({ totalTokens: 420, totalBillableCharacters: 9 }));
    expect(await count(body("vertex/gemini-3-pro"))).toEqual({ status: 200, by: "vendor", tokens: 420 });
    const asked = upstream.calls[0]?.json as Record<string, unknown>;
    expect(asked).toMatchObject({
      contents: [{ role: "user" }],
      systemInstruction: { parts: [{ text: "Be brief." }] },
    });
    expect(asked).not.toHaveProperty("generateContentRequest");
    expect(asked).not.toHaveProperty("model");
  });
});

describe("OpenAI's own counter", () => {
  test("is asked with what it reads, and nothing that it refuses", async () => {
    upstream.answer("/v1/responses/input_tokens", json({ object: "response.input_tokens", input_tokens: 87 }));
    expect(await count(body("openai/gpt-5.6"))).toEqual({ status: 200, by: "vendor", tokens: 87 });
    const asked = upstream.calls[0]?.json as Record<string, unknown>;
    expect(asked).toMatchObject({ model: "gpt-5.6", instructions: "Be brief.", tools: [{ name: "tide" }] });
    const known = "model input instructions tools tool_choice parallel_tool_calls reasoning text truncation".split(" ");
    expect(Object.keys(asked).filter((field) => !known.includes(field))).toEqual([]);
  });

  test("is not asked without a key", async () => {
    insideOnly("a vendor that is on without its key");
    const { status, by, tokens } = await count(body("keyless/gpt-5.6"));
    expect([status, by]).toEqual([200, "local"]);
    expect(tokens).toBeGreaterThan(20);
    expect(upstream.calls).toEqual([]);
  });
});

describe("a count that cannot be", () => {
  const long = { messages: [{ role: "user", content: "The gate stands open from dawn to dusk. ".repeat(500) }] };

  for (const told of [0, 1, 12, 200, -5, 1.5, null, "5000", 2e9]) {
    test(`${JSON.stringify(told)} of 5,000 words is not handed on`, async () => {
      upstream.answer(PATH, json({ input_tokens: told }));
      const { status, by, tokens } = await count(body("claude/claude-sonnet-4-6", long));
      expect([status, by]).toEqual([200, "local"]);
      expect(tokens).toBeGreaterThan(4000);
      expect(upstream.calls).toHaveLength(1);
    });
  }

  test("a plausible one is", async () => {
    upstream.answer(PATH, json({ input_tokens: 5210 }));
    expect(await count(body("claude/claude-sonnet-4-6", long))).toEqual({ status: 200, by: "vendor", tokens: 5210 });
  });
});

test("a key that its vendor refused is not asked for a count either, as long as another one is there", async () => {
  insideOnly("what is known of a key");
  const way = { vendor: "many", key: 0, keys: 2, model: "claude-sonnet-4-6" };
  app.app.services.health.wentWrong(way, upstreamError(401, { message: "No.", type: "", code: "" }), 0);
  upstream.always(PATH, json({ input_tokens: 77 }));
  expect(await count(body("many/claude-sonnet-4-6"))).toEqual({ status: 200, by: "vendor", tokens: 77 });
  expect(upstream.calls.map(({ headers }) => headers["x-api-key"])).toEqual(["key-b2"]);
  app.app.services.health.forgetTrouble();
});

describe("a counter that fails", () => {
  const keys = () => upstream.calls.map(({ headers }) => headers["x-api-key"]);
  const refusal = (status: number) => json({ type: "error", error: { type: "x", message: "No." } }, { status });

  test.each([401, 402, 429])("%i: another key of its vendor is asked", async (status) => {
    upstream.answer(PATH, refusal(status), json({ input_tokens: 77 }));
    expect(await count(body("many/claude-opus-4-8"))).toEqual({ status: 200, by: "vendor", tokens: 77 });
    expect(keys()).toEqual(["key-a1", "key-b2"]);
  });

  test.each([404, 500, 503])("%i: is the same with every key", async (status) => {
    upstream.answer(PATH, refusal(status));
    expect(await count(body("many/claude-opus-4-8"))).toMatchObject({ status: 200, by: "local" });
    expect(upstream.calls).toHaveLength(1);
  });

  test("another vendor of the model is asked, and no third one", async () => {
    upstream.answer(PATH, refusal(503), json({ input_tokens: 78 }));
    expect(await count(body("lab/three"))).toEqual({ status: 200, by: "vendor", tokens: 78 });
    expect(keys()).toEqual(["key-a1", "vendor-key-of-claude"]);
    upstream.answer(PATH, refusal(503), refusal(503));
    expect(await count(body("lab/three"))).toMatchObject({ status: 200, by: "local" });
    expect(upstream.calls).toHaveLength(4);
  });

  test("is not waited for where its vendor fails anyway", async () => {
    insideOnly("what is known of a way");
    const { health } = app.app.services;
    const way = { vendor: "claude", key: 0, keys: 1, model: "claude-opus-4-8" };
    for (let count = 0; count < 5; count++)
      health.wentWrong(way, upstreamError(500, { message: "", type: "", code: "" }), 0);
    expect(await count(body("claude/claude-opus-4-8"))).toMatchObject({ status: 200, by: "local" });
    expect(upstream.calls).toHaveLength(0);
    health.forgetTrouble();
  });
});
