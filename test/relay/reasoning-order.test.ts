import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const MODEL = "lab/claude-adaptive";
const think = (at: number) => ({ type: "thinking", thinking: `Thought ${at}.`, signature: btoa(`proof ${at}`) });
const say = (text: string) => ({ type: "text", text });
const call = (at: number) => ({ type: "tool_use", id: `toolu_${at}`, name: "look", input: { at } });

/** Turns that Claude models give, whose thinking their vendor refuses in another order (UKGovernmentBEIS/inspect_ai #4922). */
const TURNS: [string, Wire[]][] = [
  ["thought between calls", [think(1), call(1), think(2), call(2)]],
  ["hidden thought between calls", [think(1), call(1), { type: "redacted_thinking", data: "aGlkZGVu" }, call(2)]],
  ["text before each", [think(1), say("One."), call(1), think(2), say("Two."), call(2), call(3)]],
  ["text behind a call", [think(1), call(1), say("One."), think(2), call(2)]],
  ["text behind all calls", [think(1), call(1), call(2), say("I wait.")]],
];

let upstream: Upstream;
let app: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const models = [
    {
      id: MODEL,
      reasoning_efforts: { levels: ["low", "high"], default: "high" },
      reasoning: { form: "adaptive-effort" as const },
      routes: [{ vendor: "anthropic", model: "claude-opus-4-6" }],
    },
  ];
  app = await startApp({ vendors: [vendorAt(upstream, "messages", "anthropic")], models });
});
afterAll(async () => {
  await app.stop();
  upstream.close();
});

const replyOf = (content: Wire[]) =>
  json({
    ...{ id: "m", type: "message", role: "assistant", model: "m", stop_sequence: null },
    ...{ stop_reason: "tool_use", content, usage: { input_tokens: 1, output_tokens: 1 } },
  });

const listed = (value: unknown) => (Array.isArray(value) ? (value as Wire[]) : []);
const user = { role: "user", content: "Go." };
const tool = { name: "look", parameters: { type: "object" } };

/** How each client asks, and what it says next: all that it was given, or all but the reasoning. */
const CLIENTS: Record<string, { path: string; ask: Wire; next(reply: Wire, keeps: boolean): Wire }> = {
  chat: {
    path: "/v1/chat/completions",
    ask: { messages: [user], tools: [{ type: "function", function: tool }], reasoning_effort: "high" },
    next(reply, keeps) {
      const message = listed(reply["choices"])[0]?.["message"] as Wire;
      const { content, tool_calls: calls } = message;
      const results = listed(calls).map(({ id }) => ({ role: "tool", tool_call_id: id, content: "r" }));
      return { messages: [user, keeps ? message : { role: "assistant", content, tool_calls: calls }, ...results] };
    },
  },
  responses: {
    path: "/v1/responses",
    ask: { input: [user], tools: [{ type: "function", ...tool }], reasoning: { effort: "high" } },
    next(reply, keeps) {
      const items = listed(reply["output"]).filter(({ type }) => keeps || type !== "reasoning");
      const calls = items.filter(({ type }) => type === "function_call");
      const results = calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "r" }));
      return { input: [user, ...items, ...results] };
    },
  },
  messages: {
    path: "/v1/messages",
    ask: {
      messages: [user],
      max_tokens: 100,
      tools: [{ name: "look", input_schema: { type: "object" } }],
      thinking: { type: "adaptive" },
    },
    next(reply, keeps) {
      const content = listed(reply["content"]).filter(({ type }) => keeps || !String(type).endsWith("thinking"));
      const calls = content.filter(({ type }) => type === "tool_use");
      const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "r" }));
      return { messages: [user, { role: "assistant", content }, { role: "user", content: results }] };
    },
  },
};

const unmarked = ({ cache_control: _mark, ...block }: Wire): Wire => block;

describe.each(Object.entries(CLIENTS))("a turn that thought between its calls, of a %s client", (_name, client) => {
  const { path, ask, next } = client;
  const cases = TURNS.flatMap(([what, content]) => [true, false].map((keeps) => [what, keeps, content] as const));
  test.each(cases)("goes back as it came: %s, reasoning sent back: %p", async (_what, keeps, content) => {
    const send = async (more: Wire) => (await (await app.post(path, { model: MODEL, ...ask, ...more })).json()) as Wire;
    upstream.answer("/v1/messages", replyOf(content));
    const reply = await send({});
    upstream.reset();
    upstream.answer("/v1/messages", replyOf([say("Done.")]));
    await send(next(reply, keeps));
    const { json: sent } = await upstream.called();
    const turn = listed((sent as Wire)["messages"])[1];
    expect(listed(turn?.["content"]).map(unmarked)).toEqual(content);
  });
});
