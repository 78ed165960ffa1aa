import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, messagesReply, responsesReply, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
let models = 0;
beforeAll(async () => {
  upstream = startUpstream();
  const { quirks } = registry.find(({ id }) => id === "moonshotai") ?? {};
  const moonshotai = vendorAt(upstream, "chat", "moonshotai", quirks);
  const rows = [
    vendorAt(upstream, "responses"),
    vendorAt(upstream, "messages"),
    vendorAt(upstream, "chat"),
    moonshotai,
  ];
  gateway = await startApp({ vendors: rows });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const DIALECTS = {
  chat: { path: "/v1/chat/completions", reply: chatReply("ok") },
  messages: {
    path: "/v1/messages",
    reply: messagesReply("ok"),
  },
  responses: {
    path: "/v1/responses",
    reply: responsesReply("ok"),
  },
};
type Dialect = keyof typeof DIALECTS;

/** The vendor refuses bodies of which `isRefused` is true, in these words. */
function refusing(dialect: Dialect, words: string, isRefused: (body: Wire) => boolean) {
  const { path, reply } = DIALECTS[dialect];
  const refusal = json({ error: { message: words, type: "invalid_request_error" } }, { status: 400 });
  upstream.always(path, ({ json: body }) => (isRefused(body as Wire) ? refusal : json(reply)));
}

const user = { role: "user", content: "Hi" };
const untyped = { type: "object", properties: { any: {} } };
const called = { name: "f", parameters: untyped };
const holds = (text: string) => (body: Wire) => JSON.stringify(body).includes(text);
const isOff = (body: Wire) => (body["thinking"] as Wire | undefined)?.["type"] === "disabled";
const emptyAt = (isEmpty: (turn: Wire) => boolean) => (body: Wire) =>
  (body["messages"] as Wire[]).some((turn) => turn["role"] === "assistant" && isEmpty(turn));
const EMPTY = "Invalid request: the message at position 1 with role 'assistant' must not be empty";
const thought = { role: "assistant", content: "", reasoning_content: "Let me see" };
const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
const result = { role: "tool", tool_call_id: "call_1", content: "found" };

describe("what a server says of Moonshot's models has the request told in another way", () => {
  test.each<[what: string, Dialect, asked: Wire, string, (body: Wire) => boolean, told: Wire, dropped: string | null]>([
    [
      "a schema without a type",
      "chat",
      { messages: [user], tools: [{ type: "function", function: called }] },
      "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.any': type is not defined>",
      holds('"any":{}'),
      {},
      null,
    ],
    [
      "a temperature",
      "chat",
      { messages: [user], temperature: 0.2 },
      "Error from provider (Moonshot AI): invalid temperature: only 1 is allowed for this model",
      holds("temperature"),
      { messages: [user] },
      "temperature",
    ],
    [
      "a temperature",
      "messages",
      { messages: [user], max_tokens: 90, temperature: 0.2 },
      "invalid temperature: only 1 is allowed for this model",
      holds("temperature"),
      { messages: [user], max_tokens: 90 },
      "temperature",
    ],
    [
      "thinking that is switched off",
      "messages",
      { messages: [user], max_tokens: 90, thinking: { type: "disabled" } },
      "invalid thinking: only type=enabled is allowed for this model",
      isOff,
      { messages: [user], max_tokens: 90 },
      "thinking",
    ],
    [
      "thinking that is switched off",
      "chat",
      { messages: [user], thinking: { type: "disabled" } },
      "invalid thinking: only type=enabled is allowed for this model",
      isOff,
      { messages: [user] },
      "thinking",
    ],
    [
      "a turn that is nothing but a thought",
      "chat",
      { messages: [user, thought, user] },
      EMPTY,
      emptyAt((turn) => turn["content"] === "" && !turn["tool_calls"]),
      { messages: [{ role: "user", content: "Hi\nHi" }] },
      "reasoning_content",
    ],
    [
      "a turn of a thought and a call",
      "chat",
      { messages: [user, { ...thought, tool_calls: [call] }, result] },
      EMPTY,
      emptyAt((turn) => turn["content"] === ""),
      { messages: [user, { ...thought, content: " ", tool_calls: [call] }, result] },
      null,
    ],
    [
      "a turn that is nothing but a thought, in the words of Claude's server",
      "chat",
      { messages: [user, thought, user] },
      "messages.1: all messages must have non-empty content except for the optional final assistant message",
      emptyAt((turn) => turn["content"] === ""),
      { messages: [{ role: "user", content: "Hi\nHi" }] },
      "reasoning_content",
    ],
    [
      "a forced tool",
      "messages",
      {
        ...{ messages: [user], max_tokens: 90, tool_choice: { type: "tool", name: "f" } },
        tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
      },
      "tool_choice 'specified' is incompatible with thinking enabled",
      (body) => !isOff(body),
      { tool_choice: { type: "tool", name: "f" }, thinking: { type: "disabled" } },
      "thinking",
    ],
    [
      "a depth (xAI's)",
      "responses",
      { input: "Hi", reasoning: { effort: "high", summary: "auto" } },
      "Model grok-build-0.1 does not support parameter reasoningEffort.",
      holds("effort"),
      { input: "Hi", reasoning: { summary: "auto" } },
      "reasoning.effort",
    ],
    [
      "what is required of no properties (Groq's)",
      "chat",
      {
        messages: [user],
        tools: [{ type: "function", function: { name: "f", parameters: { type: "object", required: [] } } }],
      },
      "invalid JSON schema for tool f, tools[0].function.parameters: 'required' present but 'properties' is missing",
      (body) => !holds('"properties"')(body),
      {},
      null,
    ],
  ])("%s, %s", async (_what, dialect, asked, words, isRefused, told, dropped) => {
    refusing(dialect, words, isRefused);
    const answer = await gateway.post(DIALECTS[dialect].path, { model: `${dialect}/m${models++}`, ...asked });
    expect([answer.status, answer.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(answer.headers.get("x-sluice-dropped")).toBe(dropped);
    const [first, again] = upstream.calls.map(({ json: body }) => body as Wire);
    expect(first).toMatchObject(asked);
    expect(again).toMatchObject(told);
    expect(isRefused(again as Wire)).toBe(false);
  });

  test("Moonshot itself is never told a turn that is nothing but a thought, whoever's it is", async () => {
    refusing("chat", EMPTY, () => false);
    const interrupted = [{ type: "thinking", thinking: "Let me see", signature: "" }];
    const model = "moonshotai/kimi-k3";
    for (const [client, asked, dropped] of [
      ["chat", { messages: [user, thought, user] }, "reasoning_content"],
      // What was thought before a loop of calls goes to no vendor of another dialect.
      [
        "messages",
        {
          max_tokens: 90,
          messages: [user, { role: "assistant", content: interrupted }, user],
          thinking: { type: "adaptive" },
        },
        null,
      ],
    ] as const) {
      const answer = await gateway.post(DIALECTS[client].path, { model, ...asked });
      expect([client, answer.status, answer.headers.get("x-sluice-dropped")]).toEqual([client, 200, dropped]);
      const told = upstream.calls.at(-1)?.json as Wire;
      expect(told["messages"]).toEqual([{ role: "user", content: "Hi\nHi" }]);
    }
    expect(upstream.calls).toHaveLength(2);
  });
});
