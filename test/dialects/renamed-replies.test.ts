import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import type { Wire } from "./crossing.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({
    vendors: [
      vendorAt(upstream, "chat", "plain"),
      vendorAt(upstream, "messages", "claude"),
      vendorAt(upstream, "responses", "open"),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

const record = (value: Wire) => `event: ${String(value["type"])}\ndata: ${JSON.stringify(value)}\n\n`;
const schema = { type: "object", properties: {} };
const hello = { role: "user", content: "Hi" };
/** What the client calls its tool, and what its vendor is told. */
const [OWN, SENT] = ["db.query", "db_query"];

const renamed = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll(SENT, OWN)) as T;

/** The data of each record of a stream. */
const dataOf = (text: string): unknown[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data ?? "") as unknown);

test("a chat reply whose tools have other names keeps its choices, likelihoods, annotations and the vendor's own fields", async () => {
  const called = { id: "c1", type: "function", function: { name: SENT, arguments: '{"n":12345678901234567890}' } };
  const logprobs = { content: [{ token: "a", logprob: -0.5, bytes: [97], top_logprobs: [] }] };
  const annotations = [{ type: "url_citation", url_citation: { url: "https://a.example", title: "A" } }];
  const head = { id: "1", created: 1, model: "plain/x", service_tier: "flex" };
  const whole = {
    ...head,
    object: "chat.completion",
    choices: [
      { index: 0, message: { role: "assistant", content: "a", annotations }, logprobs, finish_reason: "stop" },
      { index: 1, message: { role: "assistant", content: null, tool_calls: [called] }, finish_reason: "tool_calls" },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, cost: 0.25 },
  };
  const chunks = [
    [{ index: 0, delta: { role: "assistant", content: "a", annotations }, logprobs, finish_reason: "stop" }],
    [{ index: 1, delta: { role: "assistant", tool_calls: [{ index: 0, ...called }] }, finish_reason: null }],
    [{ index: 1, delta: {}, finish_reason: "tool_calls" }],
  ].map((choices) => ({ ...head, object: "chat.completion.chunk", choices }));
  const streamed = `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;
  upstream.answer("/v1/chat/completions", json(whole), sse(streamed));
  const tools = [{ type: "function", function: { name: OWN, parameters: schema } }];
  const asked = { model: "plain/x", messages: [hello], tools, n: 2, logprobs: true };
  const response = await gateway.post("/v1/chat/completions", asked);
  expect([response.headers.get("x-sluice-dropped"), await response.json()]).toEqual([null, renamed(whole)]);
  const stream = await (await gateway.post("/v1/chat/completions", { ...asked, stream: true })).text();
  expect(dataOf(stream)).toEqual(renamed(chunks));
  expect(upstream.calls[0]?.text).not.toContain(OWN);
});

/** The calls of a chat stream as its client joins them: names and arguments by their place. */
function joinCalls(text: string): { name: string; arguments: string }[] {
  const calls: { name: string; arguments: string }[] = [];
  for (const value of dataOf(text)) {
    const [choice] = (value as { choices: { delta: { tool_calls?: Wire[] } }[] }).choices;
    for (const call of choice?.delta.tool_calls ?? []) {
      const at = call["index"] as number;
      const called = call["function"] as { name?: string; arguments?: string };
      calls[at] ??= { name: "", arguments: "" };
      const known = calls[at];
      known.name += called.name ?? "";
      known.arguments += called.arguments ?? "";
    }
  }
  return calls;
}

test("a renamed tool whose vendor streams the name in pieces has the client's own name, once", async () => {
  const tools = [OWN, "db.query.all", "plain"].map((name) => ({
    type: "function",
    function: { name, parameters: schema },
  }));
  const call = (index: number, called: Wire, id?: string) => ({
    index,
    ...(id && { id, type: "function" }),
    function: called,
  });
  const streamOf = (...deltas: Wire[][]) => {
    const ends = [
      ...deltas.map((tool_calls) => ({ delta: { tool_calls }, finish_reason: null })),
      { delta: {}, finish_reason: "tool_calls" },
    ];
    const chunks = ends.map((choice) => ({
      id: "1",
      created: 1,
      object: "chat.completion.chunk",
      choices: [{ index: 0, ...choice }],
    }));
    return `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;
  };
  const asked = { model: "plain/x", messages: [hello], tools, stream: true };
  const calls = async (...deltas: Wire[][]) => {
    upstream.answer("/v1/chat/completions", sse(streamOf(...deltas)));
    return joinCalls(await (await gateway.post("/v1/chat/completions", asked)).text());
  };
  const piecewise = [
    [call(0, { name: "db_" }, "c1")],
    [call(0, { name: "query" })],
    [call(0, { arguments: '{"a":' })],
    [call(0, { arguments: "1}" })],
  ];
  expect(await calls(...piecewise)).toEqual([{ name: OWN, arguments: '{"a":1}' }]);
  // Calls without arguments, and others behind them.
  expect(await calls([call(0, { name: "db_", arguments: "" }, "c1")], [call(0, { name: "query_all" })])).toEqual([
    { name: "db.query.all", arguments: "{}" },
  ]);
  expect(
    await calls(
      [call(0, { name: "db_" }, "c1")],
      [call(0, { name: "query" })],
      [call(1, { name: "pla" }, "c2")],
      [call(1, { name: "in", arguments: "" })],
    ),
  ).toEqual([
    { name: OWN, arguments: "{}" },
    { name: "plain", arguments: "{}" },
  ]);
});

test("a messages reply whose tools have other names keeps citations, callers, compaction and what else its vendor says", async () => {
  const citation = {
    type: "char_location",
    cited_text: "c",
    document_index: 0,
    start_char_index: 0,
    end_char_index: 1,
  };
  const caller = { type: "code_execution_20260120", tool_id: "s1" };
  const usage = { input_tokens: 3, output_tokens: 2, service_tier: "priority" };
  const message = { id: "m", type: "message", role: "assistant", model: "claude/x", stop_sequence: null, usage };
  const whole = {
    ...message,
    content: [
      { type: "compaction", content: "Before." },
      { type: "text", text: "a", citations: [citation] },
      { type: "tool_use", id: "t", name: SENT, input: {}, caller },
    ],
    stop_reason: "tool_use",
    container: { id: "c" },
  };
  const records = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "content_block_start", index: 0, content_block: { type: "compaction", content: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "compaction_delta", content: "Before." } },
    { type: "content_block_stop", index: 0 },
    {
      type: "content_block_start",
      index: 1,
      content_block: { type: "tool_use", id: "t", name: SENT, input: {}, caller },
    },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: "{}" } },
    { type: "content_block_stop", index: 1 },
    {
      type: "message_delta",
      delta: { stop_reason: "tool_use", stop_sequence: null, container: { id: "c" } },
      usage: { output_tokens: 2 },
    },
    { type: "message_stop" },
  ];
  upstream.answer("/v1/messages", json(whole), sse(records.map(record).join("")));
  const asked = { model: "claude/x", max_tokens: 9, messages: [hello], tools: [{ name: OWN, input_schema: schema }] };
  expect(await (await gateway.post("/v1/messages", asked)).json()).toEqual(renamed(whole));
  const stream = await (await gateway.post("/v1/messages", { ...asked, stream: true })).text();
  expect(dataOf(stream)).toEqual(renamed(records));
});

test("a messages reply whose tools have other names keeps the digits of its numbers, however far in they stand", async () => {
  const input = { ids: ["long", "next"], of: { them: ["long"] } };
  const content = [{ type: "tool_use", id: "t", name: SENT, input }];
  const head = { id: "m", type: "message", role: "assistant", model: "claude/x", content, stop_reason: "tool_use" };
  const whole = { ...head, stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } };
  const digits = "12345678901234567890";
  // As servers write that are made to be read by people.
  const indented = JSON.stringify(whole, null, 4).replaceAll('"long"', digits);
  upstream.answer("/v1/messages", { ...json({}), parts: [indented] });
  const asked = { model: "claude/x", max_tokens: 9, messages: [hello], tools: [{ name: OWN, input_schema: schema }] };
  const told = await (await gateway.post("/v1/messages", asked)).text();
  expect(JSON.parse(told.replaceAll(digits, '"long"'))).toEqual(renamed(whole));
});

/** OpenAI refuses encrypted reasoning that comes back under another id than its own. */
test("a response whose tools have other names keeps the ids of its items, annotations and what it repeats", async () => {
  const tools = [{ type: "function", name: SENT, parameters: schema, strict: false }];
  const text = { type: "output_text", text: "a", annotations: [{ type: "url_citation", url: "https://a.example" }] };
  const call = { type: "function_call", id: "fc_1", call_id: "c", name: SENT, arguments: "{}" };
  const output = [
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" },
    { type: "message", id: "msg_1", role: "assistant", phase: "commentary", content: [text] },
    call,
  ];
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5, ...details };
  const whole = { id: "r", status: "completed", model: "open/x", metadata: { a: "b" }, output, tools, usage };
  const records = [
    { type: "response.created", response: { ...whole, status: "in_progress", output: [], usage: null } },
    ...output.map((item, at) => ({ type: "response.output_item.added", output_index: at, item })),
    { type: "response.function_call_arguments.done", output_index: 2, name: SENT, arguments: "{}" },
    ...output.map((item, at) => ({ type: "response.output_item.done", output_index: at, item })),
    { type: "response.completed", response: whole },
  ].map((one, at) => ({ ...one, sequence_number: at }));
  upstream.answer("/v1/responses", json(whole), sse(records.map(record).join("")));
  const asked = { model: "open/x", input: "Hi", tools: [{ ...tools[0], name: OWN }] };
  expect(await (await gateway.post("/v1/responses", asked)).json()).toEqual(renamed(whole));
  const stream = await (await gateway.post("/v1/responses", { ...asked, stream: true })).text();
  expect(dataOf(stream)).toEqual(renamed(records));
});

test("reasoning of a response that is written anew comes back to its vendor without the id that it got here", async () => {
  const thought = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" };
  const call = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}" };
  const whole = { id: "r", status: "completed", model: "open/x", output: [thought, call], usage: null };
  const records = [
    ...whole.output.map((item, at) => ({ type: "response.output_item.done", output_index: at, item })),
    { type: "response.completed", response: whole },
  ];
  const tools = [{ type: "web_search" }, { type: "function", name: "f", parameters: schema, strict: false }];
  const said = { role: "user", content: "Hi" };
  const result = { type: "function_call_output", call_id: "c", output: "done" };
  for (const stream of [false, true]) {
    upstream.reset();
    upstream.answer("/v1/responses", stream ? sse(records.map(record).join("")) : json(whole), json(whole));
    const first = await gateway.post("/v1/responses", { model: "open/x", input: [said], tools, stream });
    const reply = stream
      ? (dataOf(await first.text()).at(-1) as { response: typeof whole }).response
      : ((await first.json()) as typeof whole);
    expect(reply.output[0]).toMatchObject({ type: "reasoning", encrypted_content: "gAAA" });
    const input = [said, ...reply.output, result];
    expect((await gateway.post("/v1/responses", { model: "open/x", input, tools })).status).toBe(200);
    const { id: _id, ...nameless } = thought;
    expect(upstream.calls[1]?.json).toMatchObject({ input: [said, nameless, {}, {}] });
    expect(upstream.calls[1]?.text).not.toContain('"rs_');
  }
});

test("of a reply that must be written anew what it will not have is named, and several answers are refused", async () => {
  const message = { role: "assistant", content: "a" };
  const reply = { id: "1", choices: [{ index: 0, message, finish_reason: "stop" }] };
  upstream.always("/v1/chat/completions", json(reply));
  const asked = { model: "plain/x", messages: [hello], functions: [{ name: "f" }], logprobs: true };
  const named = await gateway.post("/v1/chat/completions", asked);
  expect([named.status, named.headers.get("x-sluice-dropped")]).toEqual([200, "logprobs"]);
  const refused = await gateway.post("/v1/chat/completions", { ...asked, n: 2 });
  expect([refused.status, await refused.json()]).toMatchObject([400, { error: { param: "n" } }]);
  expect(upstream.calls).toHaveLength(1);
});
