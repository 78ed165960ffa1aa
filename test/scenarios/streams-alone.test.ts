import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type Call, chatReply, json, sse, startUpstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const upstream = startUpstream();
const quirksOf = (id: string) => registry.find((row) => row.id === id)?.quirks ?? {};
const levels = { levels: ["none", "low", "high"], default: "low" };
let app: TestApp;

beforeAll(async () => {
  app = await startApp({
    vendors: ["fireworks", "qwen"].map((id) => vendorAt(upstream, "chat", id, quirksOf(id))),
    models: [{ id: "qwen/thinker", reasoning_efforts: levels, reasoning: { form: "enable-thinking" } }],
  });
});
beforeEach(() => upstream.reset());
afterAll(async () => {
  await app.stop();
  upstream.close();
});

const chunk = (delta: Wire, finish_reason: string | null = null, more: Wire = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`;
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const STREAM = `${chunk({ role: "assistant", content: "Ye" })}${chunk({ content: "s." })}${chunk({}, "stop", { usage })}data: [DONE]\n\n`;

const refusal = (message: string) => json({ error: { message, type: "invalid_request_error" } }, { status: 400 });

/** As Fireworks is, for the ceiling of its models. */
function fireworks({ json: body }: Call) {
  const { stream, max_tokens: ceiling = 0 } = body as { stream?: boolean; max_tokens?: number };
  if (stream) return sse(STREAM);
  return ceiling > 4_096 ? refusal("Requests with max_tokens > 4096 must have stream=true") : json(chatReply("Yes."));
}

/** As most models of Qwen are, which think unless they are told not to. */
function qwen({ json: body }: Call) {
  const { stream, enable_thinking: thinks = true } = body as { stream?: boolean; enable_thinking?: boolean };
  if (stream) return sse(STREAM);
  return thinks
    ? refusal("parameter.enable_thinking must be set to false for non-streaming calls")
    : json(chatReply("Yes."));
}

const messages = [{ role: "user", content: "Well?" }];

/** Asks, and says what came of it: the status, whether it says yes and is counted, and whether it was a stream upstream. */
async function outcome(path: string, body: Wire) {
  const response = await app.post(path, body);
  const text = await response.text();
  const isCounted = text.includes('tokens":3') && text.includes('tokens":2');
  const asked = upstream.calls.map((call) => (call.json as Wire)["stream"] === true);
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    says: text.includes("Yes."),
    isCounted,
    asked,
  };
}

const whole = (stream: boolean) => ({
  ...{ status: 200, type: "application/json", says: true, isCounted: true },
  asked: [stream],
});

describe("a whole reply of a vendor that gives it as a stream alone is put together", () => {
  test.each([
    ["chat", "/v1/chat/completions", { messages, max_tokens: 8_000 }, true],
    ["messages", "/v1/messages", { messages, max_tokens: 8_000 }, true],
    ["responses", "/v1/responses", { input: "Well?", max_output_tokens: 8_000 }, true],
    ["what says nothing", "/v1/chat/completions", { messages, max_tokens: 8_000, n: 1, logprobs: false }, true],
    ["a ceiling that it takes", "/v1/chat/completions", { messages, max_tokens: 4_096 }, false],
    ["none at all", "/v1/chat/completions", { messages }, false],
  ])("Fireworks above its ceiling of one: %s", async (_name, path, body, stream) => {
    upstream.always("/v1/chat/completions", fireworks);
    expect(await outcome(path, { model: "fireworks/m", ...body })).toEqual(whole(stream));
  });

  test.each([
    ["by default", "/v1/chat/completions", { messages }, true],
    ["by its level", "/v1/chat/completions", { messages, reasoning_effort: "high" }, true],
    ["off", "/v1/chat/completions", { messages, reasoning_effort: "none" }, false],
    ["messages", "/v1/messages", { messages, max_tokens: 8_000, thinking: { type: "adaptive" } }, true],
    ["messages, off", "/v1/messages", { messages, max_tokens: 8_000, thinking: { type: "disabled" } }, false],
    ["responses", "/v1/responses", { input: "Well?", reasoning: { effort: "low" } }, true],
  ])("Qwen unless its model is told not to think: %s", async (_name, path, body, stream) => {
    upstream.always("/v1/chat/completions", qwen);
    expect(await outcome(path, { model: "qwen/thinker", ...body })).toEqual(whole(stream));
  });

  test("not where something would be lost by it: the vendor says what it takes", async () => {
    upstream.always("/v1/chat/completions", fireworks);
    const body = { model: "fireworks/m", messages, max_tokens: 8_000, logprobs: true };
    expect(await outcome("/v1/chat/completions", body)).toMatchObject({ status: 400, asked: [false] });
  });
});

/** Qwen's older name for a ceiling bounds the answer alone: what is thought before it was bounded by nothing that a client said. */
test.each([
  ["/v1/chat/completions", { max_tokens: 8_000, reasoning_effort: "high" }],
  ["/v1/chat/completions", { max_completion_tokens: 8_000, reasoning_effort: "high" }],
  ["/v1/messages", { max_tokens: 8_000, thinking: { type: "enabled", budget_tokens: 7_999 } }],
])(
  "%s: a client's ceiling bounds what Qwen thinks and says together, and leaves room for an answer (%j)",
  async (path, asked) => {
    upstream.always("/v1/chat/completions", qwen);
    expect(await outcome(path, { model: "qwen/thinker", messages, ...asked })).toMatchObject({
      status: 200,
      says: true,
    });
    const sent = upstream.calls.at(-1)?.json as Wire;
    expect(sent).toMatchObject({ max_completion_tokens: 8_000, enable_thinking: true });
    expect(sent).not.toHaveProperty("max_tokens");
    const budget = Number(sent["thinking_budget"]);
    expect(budget).toBeGreaterThan(1_000);
    expect(budget).toBeLessThan(8_000);
  },
);

test("so does the model's own ceiling, to which a client's is brought down", async () => {
  upstream.always("/v1/chat/completions", (call: Call) =>
    Number((call.json as Wire)["max_completion_tokens"]) > 8_000
      ? refusal("Range of max_tokens should be [1, 8000]")
      : qwen(call),
  );
  const thinking = { type: "enabled", budget_tokens: 31_999 };
  const asked = { model: "qwen/thinker", messages, max_tokens: 32_000, thinking };
  expect(await outcome("/v1/messages", asked)).toMatchObject({ status: 200, says: true });
  const sent = upstream.calls.at(-1)?.json as Wire;
  expect(sent).toMatchObject({ max_completion_tokens: 8_000, enable_thinking: true });
  expect(Number(sent["thinking_budget"])).toBeLessThan(8_000);
});
