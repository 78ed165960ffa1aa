import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, type Script, sse, startUpstream, type Upstream } from "../support/upstream.ts";

/** What every object has from its prototype: a table that is asked for such a word must not answer. */
const WORDS = ["constructor", "toString", "__proto__", "hasOwnProperty"];

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const GEMINI = "/v1beta/models/gemini-2.0-x:generateContent";

let upstream: Upstream;
let app: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const google = { ...vendorAt(upstream, "chat", "google"), baseUrl: `${upstream.url}/v1beta` };
  app = await startApp({
    vendors: [
      vendorAt(upstream, "chat", "chat"),
      vendorAt(upstream, "chat", "strict", { plainSchemas: true }),
      vendorAt(upstream, "messages", "messages"),
      vendorAt(upstream, "responses", "responses"),
      { ...google, dialect: "gemini", auth: "x-goog-api-key" },
    ],
  });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await app.stop();
  upstream.close();
});

const hello = { max_tokens: 64, messages: [{ role: "user", content: "Hi" }] };

async function ask(path: string, model: string, answer: Script | undefined, more: Record<string, unknown> = {}) {
  if (answer) for (const place of [CHAT, MESSAGES, GEMINI]) upstream.always(place, answer);
  const response = await app.post(path, { ...hello, model, ...more });
  return { status: response.status, text: await response.text() };
}

test.each(WORDS)("a vendor's word for the end of a reply is none that is known: %s", async (word) => {
  const [choice] = chatReply("Hello").choices;
  const reply = { ...chatReply("Hello"), choices: [{ ...choice, finish_reason: word }] };
  for (const path of [CHAT, MESSAGES]) {
    const { status, text } = await ask(path, "chat/m", json(reply));
    expect([status, text]).toEqual([200, expect.stringContaining("Hello")]);
    expect(text).toContain(path === CHAT ? '"finish_reason":"stop"' : '"stop_reason":"end_turn"');
  }
});

test.each(WORDS)("a vendor's block is one that nobody knows, and goes on as it came: %s", async (type) => {
  const message = { id: "m", type: "message", role: "assistant", model: "m", content: [], usage: { input_tokens: 1 } };
  const block = { type, future: 1 };
  const records = [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
    { type: "message_stop" },
  ];
  const said = records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join("");
  const { status, text } = await ask(MESSAGES, "messages/m", sse(said), { stream: true });
  expect([status, text]).toEqual([200, expect.stringContaining(`"content_block":${JSON.stringify(block)}`)]);
  expect(text).toEndWith('event: message_stop\ndata: {"type":"message_stop"}\n\n');
});

test.each(WORDS)(
  "a type of a tool's schema is told as the client wrote it, also to those that read schemas: %s",
  async (type) => {
    const field = { type, format: type, enum: ["a"] };
    const parameters = {
      type: "object",
      properties: { a: field, b: { type: "string", format: type } },
      required: ["b"],
    };
    const tools = [{ type: "function", function: { name: "f", parameters } }];
    const answers = [
      ["chat/m", json(chatReply("Hello"))],
      ["strict/m", json(chatReply("Hello"))],
      [
        "google/gemini-2.0-x",
        json({ candidates: [{ content: { parts: [{ text: "Hello" }] }, finishReason: "STOP" }] }),
      ],
    ] as const;
    for (const [model, answer] of answers) {
      const { status, text } = await ask(CHAT, model, answer, { tools });
      expect([model, status, text]).toEqual([model, 200, expect.stringContaining("Hello")]);
      expect(upstream.calls.at(-1)?.text).toContain(`"type":"${type}"`);
    }
  },
);

test.each(WORDS)("the echo fills in no more of such a schema than it knows: %s", async (type) => {
  const parameters = {
    type: "object",
    properties: { a: { type }, b: { type: "string", format: type } },
    required: ["a", "b", "valueOf"],
  };
  const tools = [{ type: "function", function: { name: "f", parameters } }];
  const { status, text } = await ask(CHAT, "sluice/echo", undefined, { tools, tool_choice: "required" });
  expect([status, text]).toEqual([200, expect.any(String)]);
  const { choices } = JSON.parse(text) as {
    choices: { message: { tool_calls: { function: { arguments: string } }[] } }[];
  };
  const told = choices[0]?.message.tool_calls[0]?.function.arguments ?? "";
  expect(JSON.parse(told)).toEqual({ a: null, b: "Hi", valueOf: "Hi" });
});

/** What no text can be made of: JSON may hold it wherever a word is looked for. */
const WORDLESS = { toString: 1 };
const words = { type: "object", properties: { a: { type: "string" }, $b: {} }, required: ["a", WORDLESS] };
const called = (parameters: unknown, more = {}) => [{ type: "function", function: { name: "f", parameters, ...more } }];
const grammar = { type: "grammar", syntax: WORDLESS, definition: "x" };
const change = (tool: unknown) => [...hello.messages, { role: "system", content: [{ type: "tool_addition", tool }] }];
const RESPONSES = "/v1/responses";

test.each<[string, string, string, Record<string, unknown>]>([
  ["a schema's type", CHAT, "strict/m", { tools: called({ type: "object", properties: { a: { type: WORDLESS } } }) }],
  ["a property's name, strictly", CHAT, "strict/m", { tools: called(words) }],
  ["a property's name, to Google", CHAT, "google/gemini-2.0-x", { tools: called(words) }],
  ["a property's name, to Anthropic", CHAT, "messages/m", { tools: called(words) }],
  [
    "a format",
    CHAT,
    "messages/m",
    { tools: called({ type: "object", properties: { a: { type: "string", format: WORDLESS } } }, { strict: true }) },
  ],
  [
    "a grammar's language",
    RESPONSES,
    "chat/m",
    { input: "Hi", tools: [{ type: "custom", name: "g", format: grammar }] },
  ],
  [
    "a new tool's name",
    MESSAGES,
    "chat/m",
    { messages: change({ type: "tool_definition", definition: { name: WORDLESS } }) },
  ],
  ["a tool's name", MESSAGES, "chat/m", { messages: change({ type: "tool_reference", name: WORDLESS }) }],
  ["an edit's type", MESSAGES, "chat/m", { context_management: { edits: [{ type: WORDLESS }] } }],
  [
    "an item's id",
    RESPONSES,
    "responses/m",
    { input: [{ type: "message", id: WORDLESS, role: "user", content: "Hi" }] },
  ],
])("a client's request goes to its vendor whatever stands in the place of %s", async (_what, path, model, more) => {
  upstream.always(RESPONSES, json({}));
  await ask(path, model, json({}), more);
  expect(upstream.calls).toHaveLength(1);
});
