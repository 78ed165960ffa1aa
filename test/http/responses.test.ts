import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { Event } from "../../src/canon/events.ts";
import { dialects } from "../../src/dialects/index.ts";
import { packReasoning } from "../../src/dialects/reasoning/proof.ts";
import { fetchBy, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

const { responses } = dialects;
const MODEL = "gpt-lab-1";
const context = { model: MODEL, replyId: "UP", created: 1_760_000_000, wantsUsage: true, estimatedInputTokens: 0 };

const REPLY: Event[] = [
  { type: "start" },
  { type: "block-start", block: { kind: "reasoning" } },
  { type: "block-delta", text: "hm" },
  { type: "block-signature", signature: packReasoning({ id: "rs_1", encrypted: "gAAAA-proof" }) },
  { type: "block-end" },
  { type: "block-start", block: { kind: "text" } },
  { type: "block-delta", text: "Hello" },
  { type: "block-end" },
  { type: "block-start", block: { kind: "tool-call", id: "call_1", name: "f" } },
  { type: "block-delta", text: '{"a":1}' },
  { type: "block-end" },
  { type: "usage", usage: { input: 3, cacheRead: 4, cacheWrite: 0, output: 7, reasoning: 2 } },
  { type: "finish", finish: { reason: "tool-calls" } },
];

let upstream: Upstream;
let gateway: TestApp;
beforeEach(async () => {
  upstream = startUpstream();
  gateway = await startApp({
    vendors: [vendorAt(upstream, "responses", "lab"), vendorAt(upstream, "messages", "other")],
  });
});
afterEach(async () => {
  expect(upstream.unexpected).toEqual([]);
  await gateway.stop();
  upstream.close();
});

const playReply = () =>
  upstream.always("/v1/responses", (call) => {
    if ((call.json as { stream?: boolean }).stream !== true) return json(responses.encodeReply(REPLY, context));
    const encoder = responses.encoder(context);
    const sse = REPLY.map((event) => encoder.push(event)).join("") + encoder.end();
    return {
      headers: { "content-type": "text/event-stream" },
      parts: [sse],
      framing: "chunked",
      finish: "end",
    };
  });

const openai = () =>
  new OpenAI({
    apiKey: gateway.key,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: fetchBy(gateway),
  });

/** Rejection of the SDK's own promise, which is no plain one. */
const failing = (call: () => PromiseLike<unknown>) => expect((async () => await call())()).rejects;

describe("the official SDK at the front door", () => {
  test("a built-in model answers, whole, streamed and through the accumulator", async () => {
    const body = { model: "sluice/echo", input: "Hello there" };
    const whole = await openai().responses.create(body);
    expect(whole.output_text).toBe("Hello there");
    expect(whole.model).toBe("sluice/echo");
    expect(whole.usage?.total_tokens).toBeGreaterThan(0);
    const types: string[] = [];
    for await (const event of await openai().responses.create({ ...body, stream: true })) types.push(event.type);
    expect(types.slice(0, 4)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
    ]);
    expect(types.at(-1)).toBe("response.completed");
    const final = await openai().responses.stream(body).finalResponse();
    expect(final.output_text).toBe("Hello there");
    expect(gateway.rows().map((row) => row.outcome)).toEqual(["completed", "completed", "completed"]);
    expect(upstream.calls).toEqual([]);
  });

  test("a tool call of a built-in model", async () => {
    const response = await openai().responses.create({
      model: "sluice/echo",
      input: "x",
      tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false }],
      tool_choice: "required",
    });
    const call = response.output.find((item) => item.type === "function_call");
    expect(call).toMatchObject({ name: "f", status: "completed" });
    expect(() => JSON.parse(call?.type === "function_call" ? call.arguments : "")).not.toThrow();
  });

  test("on the diagonal the vendor gets the client's own body, stateless, and the client the vendor's own items", async () => {
    playReply();
    const body = { model: `lab/${MODEL}`, input: "hi", odd_field: [1], reasoning: { effort: "low" as const } };
    const final = await openai().responses.create(body);
    expect(final.model).toBe(`lab/${MODEL}`);
    expect(final.output).toMatchObject([
      { type: "reasoning", encrypted_content: "gAAAA-proof" },
      { type: "message" },
      { type: "function_call", call_id: "call_1", arguments: '{"a":1}' },
    ]);
    expect(upstream.calls[0]?.json).toEqual({
      ...body,
      model: MODEL,
      store: false,
      include: ["reasoning.encrypted_content"],
    });
    const streamed = await openai()
      .responses.stream({ model: `lab/${MODEL}`, input: "hi" })
      .finalResponse();
    expect(streamed.output_text).toBe("Hello");
    expect(streamed.model).toBe(`lab/${MODEL}`);
    expect(gateway.rows().map(({ input, cacheRead, output }) => [input, cacheRead, output])).toEqual([
      [3, 4, 7],
      [3, 4, 7],
    ]);
  });

  test("stored state is refused with its field, and nothing reaches a vendor or the ledger", async () => {
    for (const [field, value, code] of [
      ["previous_response_id", "resp_1", "previous_response_not_found"],
      ["conversation", "conv_1", "invalid_request"],
      ["background", true, "invalid_request"],
    ] as const) {
      const call = () => openai().responses.create({ model: `lab/${MODEL}`, input: "hi", [field]: value });
      await failing(call).toMatchObject({ status: 400, code, param: field });
    }
    expect([upstream.calls, gateway.rows()]).toEqual([[], []]);
  });

  test("errors before and inside a stream", async () => {
    upstream.always("/v1/responses", json({ error: { message: "no", code: "x" } }, { status: 500 }));
    await failing(() => openai().responses.create({ model: `lab/${MODEL}`, input: "hi" })).toMatchObject({
      status: 502,
      code: "upstream_error",
    });
    await failing(() => openai().responses.create({ model: "lab", input: "hi" })).toMatchObject({ status: 404 });
    const encoder = responses.encoder(context);
    const half = REPLY.slice(0, 8)
      .map((event) => encoder.push(event))
      .join("");
    upstream.always("/v1/responses", {
      headers: { "content-type": "text/event-stream" },
      parts: [half],
      framing: "chunked",
      finish: "end",
    });
    const stream = await openai().responses.create({ model: `lab/${MODEL}`, input: "hi", stream: true });
    const types: string[] = [];
    const reading = async () => {
      for await (const event of stream) types.push(event.type);
    };
    await expect(reading()).rejects.toMatchObject({ code: "stream_truncated" });
    expect(types).toContain("response.output_text.delta");
    expect(types).not.toContain("response.completed");
  });

  test("a WebSocket's handshake is told to go over to HTTP", async () => {
    const headers = { authorization: `Bearer ${gateway.key}`, connection: "Upgrade", upgrade: "websocket" };
    const refused = await gateway.call("/v1/responses", { headers });
    expect([refused.status, refused.headers.get("upgrade")]).toEqual([426, "HTTP/1.1"]);
    expect(await refused.json()).toMatchObject({ error: { code: "method_not_allowed" } });
  });

  test("another method, and a path that is doubled, are told in this dialect's shape", async () => {
    const wrong = await gateway.call("/v1/responses", { headers: { authorization: `Bearer ${gateway.key}` } });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST"]);
    const doubled = await gateway.post("/v1/v1/responses", { model: "sluice/echo", input: "x" });
    expect(doubled.status).toBe(404);
    expect(await doubled.json()).toMatchObject({ error: { code: "not_found" } });
  });
});

describe("clients of other dialects at a vendor of this one", () => {
  test("a messages client: thinking with a proof, text and a call; and the proof goes back", async () => {
    playReply();
    const first = { model: `lab/${MODEL}`, max_tokens: 100, messages: [{ role: "user", content: "hi" }] };
    const reply = (await (await gateway.post("/v1/messages", first)).json()) as {
      content: unknown[];
      stop_reason: string;
    };
    expect(reply.stop_reason).toBe("tool_use");
    // A copy: Bun writes asymmetric matchers into what it compares.
    expect(structuredClone(reply.content)).toMatchObject([
      { type: "thinking", thinking: "hm", signature: expect.stringMatching(/^rs:/) },
      { type: "text", text: "Hello" },
      { type: "tool_use", id: "call_1", name: "f", input: { a: 1 } },
    ]);
    const second = {
      ...first,
      messages: [
        ...first.messages,
        { role: "assistant", content: reply.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "done" }] },
      ],
    };
    expect((await gateway.post("/v1/messages", second)).status).toBe(200);
    const { input, store } = (upstream.calls[1]?.json ?? {}) as { input: unknown[]; store: unknown };
    expect(store).toBe(false);
    expect(input.slice(1)).toMatchObject([
      { type: "reasoning", encrypted_content: "gAAAA-proof", summary: [{ type: "summary_text", text: "hm" }] },
      { type: "message", role: "assistant" },
      { type: "function_call", call_id: "call_1" },
      { type: "function_call_output", call_id: "call_1", output: "done" },
    ]);
  });

  test("a chat client, streamed; what has no place there is named", async () => {
    playReply();
    const response = await gateway.post("/v1/chat/completions", {
      model: `lab/${MODEL}`,
      messages: [{ role: "user", content: "hi" }],
      stream: true,
      seed: 7,
    });
    const text = await response.text();
    expect(response.headers.get("x-sluice-dropped")).toBe("seed");
    expect(text).toContain('"reasoning_content":"hm"');
    expect(text).toContain('"content":"Hello"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(text).not.toContain("response.");
  });
});

describe("a model that its vendor serves in two dialects", () => {
  test.each([
    ["/v1/responses", { input: "hi", tools: [{ type: "web_search" }] }, "/v1/responses"],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] }, "/v1/chat/completions"],
    ["/v1/messages", { max_tokens: 9, messages: [{ role: "user", content: "hi" }] }, "/v1/chat/completions"],
  ])("%s is asked in the client's own where it speaks it, and nothing is lost", async (path, fields, asked) => {
    playReply();
    const { chat } = dialects;
    upstream.always("/v1/chat/completions", () => json(chat.encodeReply(REPLY, context)));
    const openai = { ...vendorAt(upstream, "responses", "openai", { webTools: true }), models: "catalog" as const };
    const both = await startApp({ vendors: [openai] });
    try {
      const response = await both.post(path, { model: "openai/gpt-4.1", ...fields });
      expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
      await response.text();
      expect(upstream.calls.map((call) => call.path)).toEqual([asked]);
      if (asked === path) expect(upstream.calls[0]?.json).toMatchObject({ ...fields, model: "gpt-4.1" });
    } finally {
      await both.stop();
    }
  });
});
