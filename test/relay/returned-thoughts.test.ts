import { afterEach, beforeEach, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const PATH = "/v1/chat/completions";
const THINKS = "mistral/mistral-medium-3.5";
const schema = { type: "object", properties: {} };
const call = { id: "abcdefghi", type: "function", function: { name: "look", arguments: "{}" } };
/** What was thought, as Mistral tells it and wants it back. */
const thought = (text: string) => ({ type: "thinking", thinking: [{ type: "text", text }], closed: true });

let upstream: Upstream;
let gateway: TestApp;

beforeEach(async () => {
  upstream = startUpstream();
  const rowOf = (vendor: string) =>
    vendorAt(upstream, "chat", vendor, registry.find(({ id }) => id === vendor)?.quirks ?? {});
  gateway = await startApp({ vendors: ["mistral", "groq", "together"].map(rowOf) });
});

afterEach(async () => {
  await gateway.stop();
  upstream.close();
});

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const whole = (message: Wire, finish_reason: string) =>
  json({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message, finish_reason }],
    usage,
  });
const CALLING = whole({ role: "assistant", content: [thought("I look.")], tool_calls: [call] }, "tool_calls");
const SAYING = whole({ role: "assistant", content: [thought("I know."), { type: "text", text: "Rain." }] }, "stop");

/** The messages of the vendor's last call. */
const told = (): unknown[] => (upstream.calls.at(-1)?.json as { messages: unknown[] } | undefined)?.messages ?? [];
const post = (body: Wire) => gateway.post(PATH, { model: THINKS, ...body });

const tools = [{ type: "function", function: { name: "look", parameters: schema } }];
const asked = { role: "user", content: "Weather?" };
const result = { role: "tool", tool_call_id: call.id, content: "wet" };
const called = { role: "assistant", content: null, tool_calls: [call] };
const thanks = { role: "user", content: "Thanks" };

test("a chat client that keeps no reasoning: Mistral has back what its model thought, in each turn, as a part of its content", async () => {
  upstream.answer(PATH, CALLING, SAYING, SAYING);
  await post({ tools, messages: [asked] });
  await post({ tools, messages: [asked, called, result] });
  const first = { role: "assistant", content: [thought("I look.")], tool_calls: [call] };
  expect(told()).toEqual([asked, first, result]);
  const answer = await post({
    tools,
    messages: [asked, called, result, { role: "assistant", content: "Rain." }, thanks],
  });
  const second = { role: "assistant", content: [thought("I know."), { type: "text", text: "Rain." }] };
  expect(told()).toEqual([asked, first, result, second, thanks]);
  expect(answer.headers.get("x-sluice-dropped")).toBeNull();
});

test("so it does where the reply was a stream, and where a client sends back the text itself, or the parts", async () => {
  const chunk = (delta: Wire, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const stream = [
    chunk({ role: "assistant", content: [thought("I look.")] }),
    chunk({ tool_calls: [{ index: 0, ...call }] }),
    `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
  ];
  upstream.answer(PATH, sse(stream.join("")), SAYING, SAYING, SAYING);
  await (await post({ tools, messages: [asked], stream: true })).text();
  const first = { role: "assistant", content: [thought("I look.")], tool_calls: [call] };
  await post({ tools, messages: [asked, called, result] });
  expect(told()).toEqual([asked, first, result]);
  await post({ tools, messages: [asked, { ...called, reasoning_content: "I see." }, result] });
  expect(told()[1]).toEqual({ ...first, content: [thought("I see.")] });
  const signed = { ...first, content: [{ ...thought("I saw."), signature: "s" }] };
  await post({ tools, messages: [asked, signed, result] });
  expect(told()[1]).toEqual(signed);
});

test("clients of the other dialects send it back themselves", async () => {
  upstream.answer(PATH, CALLING, SAYING, CALLING, SAYING);
  const first = { role: "assistant", content: [thought("I look.")], tool_calls: [call] };
  const request = { model: THINKS, max_tokens: 9000, thinking: { type: "enabled", budget_tokens: 2000 } };
  const offered = { ...request, tools: [{ name: "look", input_schema: schema }] };
  const said = (await (await gateway.post("/v1/messages", { ...offered, messages: [asked] })).json()) as Wire;
  const results = [{ type: "tool_result", tool_use_id: call.id, content: "wet" }];
  const turns = [asked, { role: "assistant", content: said["content"] }, { role: "user", content: results }];
  await gateway.post("/v1/messages", { ...offered, messages: turns });
  expect(told()).toEqual([asked, first, result]);
  const plain = { model: THINKS, store: false, tools: [{ type: "function", name: "look", parameters: schema }] };
  const response = (await (await gateway.post("/v1/responses", { ...plain, input: "Weather?" })).json()) as Wire;
  const output = { type: "function_call_output", call_id: call.id, output: "wet" };
  await gateway.post("/v1/responses", { ...plain, input: [asked, ...(response["output"] as Wire[]), output] });
  expect(told()).toEqual([asked, first, result]);
});

test("a model that does not think is told no thoughts, nor is a turn told that has nothing else", async () => {
  upstream.always(PATH, SAYING);
  const another = { ...called, reasoning_content: "Another model thought." };
  await post({ model: "mistral/codestral-2508", tools, messages: [asked, another, result] });
  expect(told()).toEqual([asked, called, result]);
  await post({ messages: [asked, { role: "assistant", content: null, reasoning_content: "Hm." }, thanks] });
  expect(told()).toEqual([{ role: "user", content: "Weather?\nThanks" }]);
});

test("Groq has back under its own name what its model thought; of one that takes none back it says so, and is told none", async () => {
  const content = { role: "assistant", content: null, reasoning: "I look.", tool_calls: [call] };
  const UNSUPPORTED = `'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning' is unsupported, did you mean 'role'?)]`;
  const NOT_BY_MODEL = "`messages[1].reasoning`: reasoning is not supported with this model";
  const refusal = (message: string) => json({ error: { message, type: "invalid_request_error" } }, { status: 400 });
  const answer = whole({ role: "assistant", content: "Rain." }, "stop");
  const calling = whole(content, "tool_calls");
  for (const [model, back, answers] of [
    ["groq/openai/gpt-oss-120b", content, [calling, answer]],
    ["groq/llama-3.3-70b-versatile", called, [calling, refusal(NOT_BY_MODEL), answer]],
    ["groq/moonshotai/kimi-k2-instruct", called, [calling, refusal(NOT_BY_MODEL.replaceAll("`", "")), answer]],
    ["groq/llama-3.1-8b-instant", called, [calling, refusal(UNSUPPORTED), answer]],
  ] as const) {
    upstream.answer(PATH, ...answers);
    await post({ model, tools, messages: [asked] });
    const response = await post({ model, tools, messages: [asked, called, result] });
    expect([response.status, told()]).toEqual([200, [asked, back, result]]);
  }
});

test("Together has it back from clients of every dialect, under the name that its models' templates read", async () => {
  const content = { role: "assistant", content: null, reasoning: "I look.", tool_calls: [call] };
  const model = "together/zai-org/GLM-5";
  const back = { ...called, reasoning_content: "I look." };
  const calling = whole(content, "tool_calls");
  upstream.answer(PATH, calling, SAYING, calling, SAYING);
  await post({ model, tools, messages: [asked] });
  await post({ model, tools, messages: [asked, called, result] });
  expect(told()).toEqual([asked, back, result]);
  const offered = { model, max_tokens: 9000, tools: [{ name: "look", input_schema: schema }] };
  const said = (await (await gateway.post("/v1/messages", { ...offered, messages: [asked] })).json()) as Wire;
  const results = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "wet" }] };
  const turns = [asked, { role: "assistant", content: said["content"] }, results];
  await gateway.post("/v1/messages", { ...offered, messages: turns });
  expect(told()).toEqual([asked, back, result]);
});
