import { expect, test } from "bun:test";
import { startApp, vendorAt } from "../support/app.ts";
import { json, startUpstream } from "../support/upstream.ts";

type Call = { type: string; id: string };
type Reply = { content?: Call[]; choices?: { message: { tool_calls: Call[] } }[] };

test.each(["/v1/messages", "/v1/chat/completions"])(
  "a model of which nobody knows how it is steered keeps its reasoning where its client asks for some: %s",
  async (path) => {
    const upstream = startUpstream();
    const call = {
      type: "function_call",
      id: "fc_1",
      call_id: "call_1",
      name: "look",
      arguments: "{}",
      status: "completed",
    };
    upstream.always("/v1/responses", ({ json: body }) => {
      const isAsked = (body as { include?: string[] }).include?.includes("reasoning.encrypted_content");
      const reasoning = {
        type: "reasoning",
        id: "rs_1",
        summary: [],
        ...(isAsked && { encrypted_content: "gAAA-own" }),
      };
      const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
      return json({ id: "resp_1", object: "response", status: "completed", output: [reasoning, call], usage });
    });
    const gateway = await startApp({ vendors: [vendorAt(upstream, "responses", "azure")] });
    try {
      const isMessages = path === "/v1/messages";
      const asked = isMessages
        ? {
            max_tokens: 4_000,
            thinking: { type: "adaptive" },
            tools: [{ name: "look", input_schema: { type: "object" } }],
          }
        : { reasoning_effort: "high", tools: [{ type: "function", function: { name: "look", parameters: {} } }] };
      const hi = { role: "user", content: "Hi" };
      const ask = (messages: unknown[]) =>
        gateway
          .post(path, { model: "azure/own-name", temperature: 0.3, ...asked, messages })
          .then((response) => response.json() as Promise<Reply>);
      const reply = await ask([hi]);
      // Clients that keep no reasoning send their calls alone.
      const past = isMessages
        ? { role: "assistant", content: reply.content?.filter(({ type }) => type === "tool_use") }
        : { role: "assistant", content: null, tool_calls: reply.choices?.[0]?.message.tool_calls };
      const id = (past.content ?? past.tool_calls)?.[0]?.id;
      const result = isMessages
        ? { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "there" }] }
        : { role: "tool", tool_call_id: id, content: "there" };
      await ask([hi, past, result]);
      expect(upstream.calls.at(-1)?.text).toContain("gAAA-own");
      expect(upstream.calls.at(-1)?.json).toMatchObject({ temperature: 0.3 });
    } finally {
      await gateway.stop();
      upstream.close();
    }
  },
);

test("what a model thought in a whole reply to a client that wanted a stream goes back with its next turn", async () => {
  const upstream = startUpstream();
  const gateway = await startApp({ vendors: [vendorAt(upstream, "responses", "azure")] });
  try {
    const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: "look", arguments: "{}" };
    const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA-own" };
    upstream.always("/v1/responses", json({ id: "resp_1", status: "completed", output: [reasoning, call] }));
    const tools = [{ type: "function", function: { name: "look", parameters: {} } }];
    const shared = { model: "azure/own-name", reasoning_effort: "high", stream: true, tools };
    const hi = { role: "user", content: "Hi" };
    const ask = async (messages: unknown[]) =>
      (await gateway.post("/v1/chat/completions", { ...shared, messages })).text();
    const [, id] = /"id":"([^"]+)","type":"function"/.exec(await ask([hi])) ?? [];
    const called = { id, type: "function", function: { name: "look", arguments: "{}" } };
    const past = { role: "assistant", content: null, tool_calls: [called] };
    await ask([hi, past, { role: "tool", tool_call_id: id, content: "there" }]);
    expect(upstream.calls.map(({ text }) => text.includes("gAAA-own"))).toEqual([false, true]);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});
