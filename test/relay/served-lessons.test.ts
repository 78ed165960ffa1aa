import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat")], config: { search: [{ engine: "fixture" }] } });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const choiceOf = ({ json: body }: { json: unknown }) => (body as Wire)["tool_choice"];

test.each(["whole", "stream"])(
  "a server that forces no tool is asked again where its tool is one that the gateway serves, as Claude Code's search of the web is: %s",
  async (mode) => {
    const error = { message: "tool_choice other than auto is not supported", type: "invalid_request_error" };
    upstream.always("/v1/chat/completions", (call) =>
      choiceOf(call) === "auto" ? json(chatReply("ok")) : json({ error }, { status: 400 }),
    );
    const response = await gateway.post("/v1/messages", {
      ...{
        model: `chat/${mode}`,
        max_tokens: 90,
        stream: mode === "stream",
        messages: [{ role: "user", content: "Search: sluices" }],
      },
      tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 8 }],
      tool_choice: { type: "tool", name: "web_search" },
    });
    expect(response.status).toBe(200);
    expect(await response.text()).toContain('"text":"ok"');
    const named = { type: "function", function: { name: "web_search" } };
    expect(upstream.calls.map(choiceOf)).toEqual([named, "auto"]);
    expect(JSON.stringify(upstream.calls.at(-1)?.json)).toContain("calling the tool web_search");
  },
);

test("what a vendor teaches in a further round is known to the next request from its beginning", async () => {
  const message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
  const look = { id: "call_1", type: "function", function: { name: "web_search", arguments: '{"query":"gates"}' } };
  const searching = {
    ...chatReply(""),
    choices: [
      { index: 0, message: { role: "assistant", content: null, tool_calls: [look] }, finish_reason: "tool_calls" },
    ],
  };
  const ceilings: string[][] = [];
  upstream.always("/v1/chat/completions", ({ json: body, text }) => {
    const sent = Object.keys(body as Wire).filter((field) => field.startsWith("max_"));
    ceilings.push(sent);
    if (!text.includes('"role":"tool"')) return json(searching);
    return sent[0] === "max_tokens" ? json({ error: { message } }, { status: 400 }) : json(chatReply("At dawn."));
  });
  for (let count = 0; count < 2; count++) {
    const response = await gateway.post("/v1/messages", {
      ...{ model: "chat/ceiling", max_tokens: 90, messages: [{ role: "user", content: "When?" }] },
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    });
    expect(await response.text()).toContain("At dawn.");
  }
  const [old, other] = [["max_tokens"], ["max_completion_tokens"]];
  expect(ceilings).toEqual([old, old, other, other, other] as string[][]);
});
