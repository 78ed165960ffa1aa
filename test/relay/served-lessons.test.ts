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
