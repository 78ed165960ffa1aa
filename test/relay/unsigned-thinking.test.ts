import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "messages", "lab")] });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const thinking = { type: "thinking", thinking: "Hm.", signature: "" };
const call = { type: "tool_use", id: "toolu_1", name: "f", input: {} };
const REPLY = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "tool_use" },
  content: [thinking, call],
  usage: { input_tokens: 3, output_tokens: 2 },
};
const wordless = json(
  { error: { type: "invalid_request_error", message: "messages.1.content.0.thinking.signature: Field required" } },
  { status: 400 },
);
const sentTurn = () => {
  const { messages } = (upstream.calls.at(-1)?.json ?? {}) as { messages?: Wire[] };
  return messages?.[1]?.["content"];
};

const user = { role: "user", content: "q" };
const schema = { type: "object", properties: {} };

describe("a server that signs no thinking, as those of other makers' models", () => {
  const ask = (model: string) =>
    gateway.post("/v1/messages", {
      ...{ model, max_tokens: 2048, thinking: { type: "enabled", budget_tokens: 1024 } },
      tools: [{ name: "f", input_schema: schema }],
      messages: [
        user,
        { role: "assistant", content: [thinking, call] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "r" }] },
      ],
    });

  test("gets it back within a tool loop, and goes on reasoning", async () => {
    upstream.always("/v1/messages", json(REPLY));
    const response = await ask("lab/kimi-k3");
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(sentTurn()).toEqual([thinking, call]);
    expect(upstream.calls[0]?.json).toMatchObject({ thinking: { type: "enabled", budget_tokens: 1024 } });
  });

  test("gets back what a chat client says of it", async () => {
    upstream.always("/v1/messages", json(REPLY));
    const body = {
      model: "lab/kimi-k3",
      tools: [{ type: "function", function: { name: "f", parameters: schema } }],
    };
    const first = await gateway.post("/v1/chat/completions", { ...body, messages: [user] });
    const { message } = ((await first.json()) as { choices: { message: Wire }[] }).choices[0] ?? { message: {} };
    const result = { role: "tool", tool_call_id: call.id, content: "r" };
    const response = await gateway.post("/v1/chat/completions", { ...body, messages: [user, message, result] });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(sentTurn()).toEqual([thinking, call]);
  });

  test("which is one that wants signatures under a name that does not say so, is told again without", async () => {
    upstream.answer("/v1/messages", wordless, json(REPLY));
    const response = await ask("lab/house-model");
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, "thinking"]);
    expect(sentTurn()).toEqual([call]);
  });

  test("of Claude it is left out at once", async () => {
    upstream.always("/v1/messages", json(REPLY));
    expect((await ask("lab/claude-sonnet-5")).status).toBe(200);
    expect([upstream.calls.length, sentTurn()]).toEqual([1, [call]]);
  });
});
