import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { fetchBy, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

/** Here, and at the vendor whose own the endpoint is. */
const PATH = "/v1/responses/input_tokens";
const GPT = "plain/gpt-4o";

let upstream: Upstream;
let app: TestApp;

beforeAll(async () => {
  upstream = startUpstream();
  const vendors = [
    vendorAt(upstream, "responses", "openai", { countTokens: true }),
    vendorAt(upstream, "messages", "anthropic", { countTokens: true }),
    vendorAt(upstream, "chat", "plain"),
  ];
  app = await startApp({ vendors });
});
afterEach(() => {
  // No count is charged, and none reaches a vendor that has no counter.
  expect(app.rows()).toEqual([]);
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});
afterAll(async () => {
  await app.stop();
  upstream.close();
});

const TOOL = {
  type: "function" as const,
  name: "get_tide",
  description: "The height of the tide in a harbour.",
  parameters: { type: "object", properties: { harbour: { type: "string" } } },
  strict: false,
};

async function count(body: unknown): Promise<{ status: number; by: string | null; body: Record<string, unknown> }> {
  const response = await app.post(PATH, body);
  const answer = (await response.json()) as Record<string, unknown>;
  return { status: response.status, by: response.headers.get("x-sluice-token-count"), body: answer };
}
const told = (input_tokens: number) => ({ object: "response.input_tokens", input_tokens });

test("what is said counts as it does in a message", async () => {
  // 4 tokens of text, 4 for the turn, 3 for the request (dialects.md 6.2).
  const { status, by, body } = await count({ model: GPT, input: "Hello, world!" });
  expect([status, by, body]).toEqual([200, "local", told(11)]);
  const turns = ["user", "assistant", "user"].map((role) => ({ role, content: "Hello, world!" }));
  expect((await count({ model: GPT, input: turns })).body).toEqual(told(27));
});

test("instructions and tools count where nothing is said yet, which the vendor's own endpoint takes", async () => {
  const alone = await count({ model: GPT, instructions: "Hello, world!" });
  expect([alone.status, Number(alone.body["input_tokens"])]).toEqual([200, expect.any(Number)]);
  const tools = await count({ model: GPT, instructions: "Hello, world!", input: null, tools: [TOOL] });
  expect(Number(tools.body["input_tokens"])).toBeGreaterThan(Number(alone.body["input_tokens"]) + 20);
});

test("a vendor of the dialect is asked with what it reads; one of another dialect in its own", async () => {
  upstream.answer(PATH, json(told(87)));
  const input = [{ role: "user", content: "Hi" }];
  const asked = { model: "openai/gpt-5.6", input, instructions: "Be brief.", tools: [TOOL], store: false, include: [] };
  expect(await count(asked)).toEqual({ status: 200, by: "vendor", body: told(87) });
  expect((await upstream.called()).json).toEqual({ model: "gpt-5.6", input, instructions: "Be brief.", tools: [TOOL] });
  upstream.reset();
  upstream.answer("/v1/messages/count_tokens", json({ input_tokens: 63 }));
  const other = await count({ model: "anthropic/claude-sonnet-4-6", input, instructions: "Be brief.", tools: [TOOL] });
  expect(other).toEqual({ status: 200, by: "vendor", body: told(63) });
  expect((await upstream.called()).json).toMatchObject({
    system: [{ text: "Be brief." }],
    messages: [{ role: "user", content: [{ text: "Hi" }] }],
    tools: [{ name: "get_tide" }],
  });
});

test.each([
  ["an unknown model", { model: "nobody/nothing", input: "Hi" }, 404, "model"],
  ["no model", { input: "Hi" }, 400, "model"],
  ["what is no input", { model: GPT, input: 7 }, 400, "input"],
  ["an item without a type or role", { model: GPT, input: [{}] }, 400, "input[0].role"],
  ["a tool without a name", { model: GPT, input: "Hi", tools: [{ type: "function" }] }, 400, "tools[0].name"],
  ["what would be stored", { model: GPT, previous_response_id: "resp_1" }, 400, "previous_response_id"],
])("%s is refused as at /v1/responses", async (_name, body, status, param) => {
  const refused = await count(body);
  const generation = await app.post("/v1/responses", { input: "Hi", ...body });
  expect([refused.status, refused.body]).toMatchObject([status, { error: { param } }]);
  expect(generation.status).toBe(status);
  expect(await generation.json()).toEqual(refused.body);
});

test("it is posted to, and answers to a key", async () => {
  const read = await app.call(PATH);
  expect([read.status, read.headers.get("allow")]).toEqual([405, "POST"]);
  const headers = { "content-type": "application/json" };
  const keyless = await app.call(PATH, { method: "POST", headers, body: JSON.stringify({ model: GPT, input: "Hi" }) });
  expect(keyless.status).toBe(401);
});

test("the official SDK counts", async () => {
  const client = new OpenAI({
    apiKey: app.key,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: fetchBy(app),
  });
  const counted = await client.responses.inputTokens.count({ model: GPT, input: "Hello, world!", tools: [TOOL] });
  expect(counted.object).toBe("response.input_tokens");
  expect(counted.input_tokens).toBeGreaterThan(30);
});
