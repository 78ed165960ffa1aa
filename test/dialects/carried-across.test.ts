import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { dialects } from "../../src/dialects/index.ts";
import { GENERATION_PATH, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { CLIENTS, type ClientName, chatStream, chunk, readBack, typedStream, type Wire } from "./crossing.ts";

/** What reaches an upstream of another dialect, and its client, though it comes in an unusual place or order. */

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({
    vendors: [
      vendorAt(upstream, "chat"),
      vendorAt(upstream, "messages"),
      vendorAt(upstream, "responses"),
      { ...vendorAt(upstream, "chat", "gemini"), dialect: "gemini" },
    ],
    models: [
      { id: "responses/thinks", capabilities: { reasoning: true } },
      { id: "responses/plain", capabilities: { reasoning: false } },
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

const GEMINI_PATH = "/v1/models/x:generateContent";
const geminiReply = (parts: Wire[]) =>
  json({
    candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1 },
  });

/** A client's request that says no more than "Hi". */
const asking = (client: ClientName, model: string, more: Wire = {}): Wire =>
  client === "responses"
    ? { model, input: "Hi", ...more }
    : {
        ...{ model, messages: [{ role: "user", content: "Hi" }] },
        ...(client === "messages" && { max_tokens: 99 }),
        ...more,
      };

test("a user's turn that is a film and nothing else reaches Gemini, which sees films; others are not asked", async () => {
  upstream.always(GEMINI_PATH, geminiReply([{ text: "A cat." }]));
  const film = { type: "video_url", video_url: { url: "data:video/mp4;base64,AAAAIGZ0eXBpc29t" } };
  const turn = { messages: [{ role: "user", content: [film] }] };
  const seen = await gateway.post("/v1/chat/completions", asking("chat", "gemini/x", turn));
  expect([seen.status, seen.headers.get("x-sluice-dropped")]).toEqual([200, null]);
  const parts = [{ inlineData: { mimeType: "video/mp4", data: "AAAAIGZ0eXBpc29t" } }];
  expect(upstream.calls[0]?.json).toMatchObject({ contents: [{ role: "user", parts }] });
  for (const model of ["messages/x", "responses/x"]) {
    const refused = await gateway.post("/v1/chat/completions", asking("chat", model, turn));
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { param: "messages[0].content[0]" } });
  }
  expect(upstream.calls).toHaveLength(1);
});

test.each<ClientName>(["messages", "chat"])(
  "what the system says to Gemini in mid-conversation leaves what is cached as it was: %s client",
  async (client) => {
    upstream.always(GEMINI_PATH, geminiReply([{ text: "Fine." }]));
    const system = (content: string): Wire => ({ role: "system", content });
    const call: Record<string, Wire[]> = {
      messages: [
        { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "look", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "a cat" }] },
      ],
      chat: [
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c1", content: "a cat" },
      ],
    };
    const opening = [{ role: "user", content: "Hi" }, system("On Linux.")];
    const looked = [...opening, ...call[client]!, system("A hook says so.")];
    const messages = [...looked, { role: "assistant", content: "Done." }, { role: "user", content: "And?" }];
    for (const told of [opening, looked, [...messages, system("<system-reminder>Once more.</system-reminder>")]]) {
      const response = await gateway.post(GENERATION_PATH[client], asking(client, "gemini/x", { messages: told }));
      expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    }
    const bodies = upstream.calls.map(({ json: body }) => body as { systemInstruction: Wire; contents: Wire[] });
    for (const { systemInstruction } of bodies) expect(systemInstruction).toEqual({ parts: [{ text: "On Linux." }] });
    const [first, second, third] = bodies.map(({ contents }) => contents);
    expect(first).toEqual([{ role: "user", parts: [{ text: "Hi" }] }]);
    expect(second?.[2]).toEqual({
      role: "user",
      parts: [
        { functionResponse: { name: "look", response: { output: "a cat" } } },
        { text: "<system-reminder>\nA hook says so.\n</system-reminder>" },
      ],
    });
    expect(second?.slice(0, 1)).toEqual(first!);
    expect(third?.slice(0, 3)).toEqual(second!);
    const last = [{ text: "And?" }, { text: "<system-reminder>Once more.</system-reminder>" }];
    expect(third?.slice(3)).toEqual([
      { role: "model", parts: [{ text: "Done." }] },
      { role: "user", parts: last },
    ]);
  },
);

test.each<[string, Wire, string | null]>([
  ["both", { user: "bucket-7", safety_identifier: "ann" }, "user"],
  ["the newer alone", { safety_identifier: "ann" }, null],
  ["the older alone", { user: "ann" }, null],
])("whom OpenAI is to hold responsible is named as the client names it: %s", async (_which, said, dropped) => {
  upstream.always("/v1/responses", json({ id: "r", status: "completed", output: [], usage: {} }));
  const response = await gateway.post("/v1/chat/completions", asking("chat", "responses/x", said));
  expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
  expect(upstream.calls[0]?.json).toMatchObject({ safety_identifier: "ann" });
});

const piece = (call: Wire) => chunk({ tool_calls: [call] });
/** Dialects.md 4.7: a call is begun once its name is known. */
const LATE_NAMES: [string, Wire[]][] = [
  [
    "with an index",
    [
      piece({ index: 0, id: "a", type: "function", function: { arguments: '{"x":' } }),
      piece({ index: 0, function: { arguments: "1}" } }),
      piece({ index: 0, function: { name: "look" } }),
    ],
  ],
  [
    "amid its arguments, beside another call",
    [
      piece({ index: 0, id: "a", type: "function", function: { arguments: '{"x":' } }),
      piece({ index: 1, id: "b", type: "function", function: { name: "other", arguments: "{}" } }),
      piece({ index: 0, function: { name: "look", arguments: "1}" } }),
    ],
  ],
  [
    "that was announced by its id alone, before a text",
    [
      piece({ index: 0, id: "a", type: "function", function: { arguments: "" } }),
      chunk({ content: "So." }),
      piece({ index: 0, function: { name: "look" } }),
      piece({ index: 0, function: { arguments: '{"x":1}' } }),
    ],
  ],
  [
    "without an index",
    [
      piece({ id: "a", type: "function", function: { arguments: '{"x":1}' } }),
      piece({ type: "function", function: { name: "look" } }),
    ],
  ],
];

test.each(CLIENTS.flatMap((client) => LATE_NAMES.map(([how, pieces]) => [client, how, pieces] as const)))(
  "a call whose name comes behind arguments is called by it, to a client of %s: %s",
  async (client, _how, pieces) => {
    upstream.always("/v1/chat/completions", sse(chatStream(...pieces, chunk({}, "tool_calls"))));
    const response = await gateway.post(GENERATION_PATH[client], asking(client, "chat/x", { stream: true }));
    const events = readBack(client, await response.text());
    const at = events.findIndex(
      (event) => event.type === "block-start" && event.block.kind === "tool-call" && event.block.name === "look",
    );
    expect(events[at]).toMatchObject({ block: { id: "a" } });
    const [first] = events.flatMap((event, place) => (event.type === "block-end" && place > at ? [place] : []));
    const text = events.slice(at, first).map((event) => (event.type === "block-delta" ? event.text : ""));
    expect(text.join("")).toBe('{"x":1}');
    expect(events.at(-1)).toMatchObject({ type: "finish", finish: { reason: "tool-calls" } });
  },
);

/** Contract 7, dialects.md 5.1: without what it thought amid a tool loop a model goes on worse. */
test.each([
  ["responses/thinks", true],
  ["responses/plain", false],
])(
  "what a model without a control of its reasoning thought goes back to it where its row says that it reasons: %s",
  async (model, shown) => {
    upstream.always("/v1/responses", json({ id: "r", status: "completed", output: [], usage: {} }));
    const thought = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "sealed" };
    const call = { type: "function_call", call_id: "c", name: "look", arguments: "{}" };
    const result = { type: "function_call_output", call_id: "c", output: "r" };
    const include = ["reasoning.encrypted_content"];
    const input = [{ role: "user", content: "Hi" }, thought, call, result];
    const response = await gateway.post("/v1/responses", { model, input, include });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, shown ? null : "reasoning"]);
    const sent = upstream.calls[0]?.json as Wire;
    expect(sent["input"]).toEqual(shown ? input : input.filter((item) => item !== thought));
    expect(sent["include"]).toEqual(shown ? include : undefined);
  },
);

test.each(CLIENTS.flatMap((client) => [true, false].map((stream) => [client, stream] as const)))(
  "nor is a nameless call of a vendor of the messages dialect a dead end: %s, as a stream %j",
  async (client, stream) => {
    const call = { type: "tool_use", id: "a", name: "" };
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = { id: "m", type: "message", role: "assistant", model: "x", stop_sequence: null, usage };
    const streamed = typedStream(
      { type: "message_start", message: { ...message, content: [], stop_reason: null } },
      { type: "content_block_start", index: 0, content_block: { ...call, input: {} } },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"x":1}' } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    );
    const whole = json({ ...message, content: [{ ...call, input: { x: 1 } }], stop_reason: "tool_use" });
    upstream.always("/v1/messages", stream ? sse(streamed) : whole);
    const response = await gateway.post(GENERATION_PATH[client], asking(client, "messages/x", { stream }));
    const text = await response.text();
    const events = stream ? readBack(client, text) : dialects[client].decodeReply(JSON.parse(text), { quirks: {} });
    expect(events).toContainEqual({ type: "block-start", block: { kind: "tool-call", id: "a", name: "unnamed_tool" } });
    expect(text).not.toContain('"name":""');
  },
);

test.each(
  ["chat", "messages"].flatMap((client) => [true, false].map((stream) => [client, stream])) as [ClientName, boolean][],
)("nor is one of a vendor of the responses dialect: %s, as a stream %j", async (client, stream) => {
  const call = { type: "function_call", id: "fc_1", call_id: "a", name: "", arguments: "{}" };
  const response = { id: "r", status: "completed", output: [call], usage: { input_tokens: 1, output_tokens: 1 } };
  const streamed = typedStream(
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    { type: "response.output_item.added", output_index: 0, item: { ...call, arguments: "" } },
    { type: "response.output_item.done", output_index: 0, item: call },
    { type: "response.completed", response },
  );
  upstream.always("/v1/responses", stream ? sse(streamed) : json(response));
  const given = await gateway.post(GENERATION_PATH[client], asking(client, "responses/x", { stream }));
  const text = await given.text();
  const events = stream ? readBack(client, text) : dialects[client].decodeReply(JSON.parse(text), { quirks: {} });
  expect(events).toContainEqual({ type: "block-start", block: { kind: "tool-call", id: "a", name: "unnamed_tool" } });
  // A decoder names it as well.
  expect(text).not.toContain('"name":""');
});

/** Bedrock's endpoint, vLLM and others say an empty object first, and the one that is meant behind it. */
test.each(
  ["messages", "responses"].flatMap((client) => [true, false].map((stream) => [client, stream])) as [
    ClientName,
    boolean,
  ][],
)("an empty object before a call's arguments is none of them: %s, as a stream %j", async (client, stream) => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const rest = ['{"x"', ":1}"].map((text) => piece({ index: 0, function: { arguments: text } }));
  const message = {
    role: "assistant",
    content: null,
    tool_calls: [{ ...call, function: { name: "f", arguments: '{}{"x":1}' } }],
  };
  const whole = json({ id: "1", choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
  const streamed = chatStream(piece({ index: 0, ...call }), ...rest, chunk({}, "tool_calls"));
  upstream.always("/v1/chat/completions", stream ? sse(streamed) : whole);
  const response = await gateway.post(GENERATION_PATH[client], asking(client, "chat/x", { stream }));
  const text = await response.text();
  const events = stream ? readBack(client, text) : dialects[client].decodeReply(JSON.parse(text), { quirks: {} });
  expect(events.map((event) => (event.type === "block-delta" ? event.text : "")).join("")).toBe('{"x":1}');
});

test.each(CLIENTS)(
  "a call without a name is none of the next one's, where neither has an index or an id: %s",
  async (client) => {
    const calls = ["", "look"].map((name) =>
      piece({ type: "function", function: { name, arguments: `{"x":"${name}"}` } }),
    );
    upstream.always("/v1/chat/completions", sse(chatStream(...calls, chunk({}, "tool_calls"))));
    const response = await gateway.post(GENERATION_PATH[client], asking(client, "chat/x", { stream: true }));
    const events = readBack(client, await response.text());
    const named = events.flatMap((event) =>
      event.type === "block-start" && event.block.kind === "tool-call" ? [event.block.name] : [],
    );
    expect(named.toSorted()).toEqual(["look", "unnamed_tool"]);
    const at = events.findIndex(
      (event) => event.type === "block-start" && "name" in event.block && event.block.name === "look",
    );
    expect(events[at + 1]).toMatchObject({ type: "block-delta", text: '{"x":"look"}' });
  },
);

/** Weaker models call a tool by no name; none at all, or an empty one, is a 400 at OpenAI and Anthropic in every later turn. */
test.each(CLIENTS.flatMap((client) => [true, false].map((stream) => [client, stream] as const)))(
  "a call that is never given a name can be answered and sent back: %s, as a stream %j",
  async (client, stream) => {
    const call = { id: "a", type: "function", function: { name: "", arguments: '{"x":1}' } };
    const message = { role: "assistant", content: "So.", tool_calls: [call] };
    const whole = json({ id: "1", choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
    const streamed = chatStream(chunk({ content: "So." }), piece({ index: 0, ...call }), chunk({}, "tool_calls"));
    upstream.always("/v1/chat/completions", stream ? sse(streamed) : whole);
    const response = await gateway.post(GENERATION_PATH[client], asking(client, "chat/x", { stream }));
    const text = await response.text();
    const events = stream ? readBack(client, text) : dialects[client].decodeReply(JSON.parse(text), { quirks: {} });
    const begun = events.flatMap((event) => (event.type === "block-start" ? [event.block] : []));
    expect(begun.at(-1)).toMatchObject({ kind: "tool-call", id: "a", name: "unnamed_tool" });
    expect(text).not.toContain('"name":""');
    expect(events.at(-1)).toMatchObject({ type: "finish", finish: { reason: "tool-calls" } });
  },
);

test.each(CLIENTS.flatMap((client) => [true, false].map((stream) => [client, stream] as const)))(
  "a call that says nothing is none: %s, as a stream %j",
  async (client, stream) => {
    const call = { id: "", type: "function", function: { name: "", arguments: "" } };
    const message = { role: "assistant", content: "So.", tool_calls: [call] };
    const whole = json({ id: "1", choices: [{ index: 0, message, finish_reason: "stop" }] });
    const streamed = chatStream(chunk({ content: "So." }), piece({ index: 0, ...call }), chunk({}, "stop"));
    upstream.always("/v1/chat/completions", stream ? sse(streamed) : whole);
    const response = await gateway.post(GENERATION_PATH[client], asking(client, "chat/x", { stream }));
    const text = await response.text();
    const events = stream ? readBack(client, text) : dialects[client].decodeReply(JSON.parse(text), { quirks: {} });
    expect(events.flatMap((event) => (event.type === "block-start" ? [event.block.kind] : []))).toEqual(["text"]);
    expect(events.at(-1)).toMatchObject({ type: "finish", finish: { reason: "stop" } });
    expect(text).not.toContain('"tool_calls"');
  },
);

/** Dialects.md 2.5: Anthropic's SDK reads each piece of a call's input, and gives the whole stream up at what is no JSON. */
test.each<[string, Wire]>([
  ['{"x":1}</tool_call>', { x: 1 }],
  ['{"x":1}{"x":1}', { x: 1 }],
  ['{"x":"}{\\"]"}}', { x: '}{"]' }],
  [' {"x":{"y":[1]}} \n', { x: { y: [1] } }],
  ['{\n"x":"a\nb\tc\\n",\n"y":1}\n</end>', { x: "a\nb\tc\n", y: 1 }],
  ['{"x":"C:\\Work\\d+\\\\s\\"\\u0041\\t"}', { x: 'C:\\Work\\d+\\s"A\t' }],
  ['{"x":"\\usepackage \\u00e9\\uu0041 C:\\users\\u"}', { x: "\\usepackage é\\uu0041 C:\\users\\u" }],
  ['{}{"x":1}', { x: 1 }],
  ['{ }\n{}{"x":{}}{"x":2}', { x: {} }],
  ["{}</tool_call>", {}],
  ['```json {"x":1}```', { value: '```json {"x":1}```' }],
  ["[1]", { value: [1] }],
  ["true", { value: true }],
  ["  ", {}],
])("arguments of a weaker model are input that a client of messages can read: %s", async (args, input) => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: args } };
  const message = { role: "assistant", content: null, tool_calls: [call] };
  const pieces = (args.match(/.{1,2}|\n/g) ?? []).map((text) => piece({ index: 0, function: { arguments: text } }));
  const begun = piece({ index: 0, ...call, function: { name: "f", arguments: "" } });
  upstream.always("/v1/chat/completions", ({ json: body }) =>
    (body as Wire)["stream"] === true
      ? sse(chatStream(begun, ...pieces, chunk({}, "tool_calls")))
      : json({ id: "1", choices: [{ index: 0, message, finish_reason: "tool_calls" }] }),
  );
  const ask = (stream: boolean) => gateway.post("/v1/messages", asking("messages", "chat/x", { stream }));
  const whole = (await (await ask(false)).json()) as { content: Wire[] };
  expect(whole.content).toMatchObject([{ type: "tool_use", input }]);
  const deltas = readBack("messages", await (await ask(true)).text());
  const told = deltas.map((event) => (event.type === "block-delta" ? event.text : "")).join("");
  expect(JSON.parse(told || "{}")).toEqual(input);
});
