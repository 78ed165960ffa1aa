import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";
import type { Wire } from "./crossing.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({
    vendors: [
      vendorAt(upstream, "responses", "open"),
      vendorAt(upstream, "chat", "deployed", { customTools: true }),
      vendorAt(upstream, "chat", "plain"),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

const mark = { prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } };
const options = { prompt_cache_options: { mode: "explicit" } };
const PNG = "data:image/png;base64,iVBORw0KGgo=";

const chatBody = (model: string): Wire => ({
  model,
  ...options,
  messages: [
    { role: "system", content: [{ type: "text", text: "s", ...mark }] },
    { role: "user", content: [{ type: "image_url", image_url: { url: PNG }, ...mark }] },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "r", ...mark }] },
    {
      role: "user",
      content: [
        { type: "text", text: "u", ...mark },
        { type: "text", text: "v" },
      ],
    },
  ],
});

const responsesBody = (model: string): Wire => ({
  model,
  ...options,
  input: [
    { role: "developer", content: [{ type: "input_text", text: "s", ...mark }] },
    { role: "user", content: [{ type: "input_image", image_url: PNG, detail: "auto", ...mark }] },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "r", ...mark }] },
    {
      role: "user",
      content: [
        { type: "input_text", text: "u", ...mark },
        { type: "input_text", text: "v" },
      ],
    },
  ],
});

/** With explicit breakpoints alone, a request without any is not cached at all (openai, `PromptCacheOptions.mode`). */
test("cache breakpoints go from one of OpenAI's dialects to the other", async () => {
  upstream.answer("/v1/responses", json({ id: "r", status: "completed", output: [] }));
  const message = { role: "assistant", content: "a" };
  const reply = { id: "1", choices: [{ index: 0, message, finish_reason: "stop" }] };
  upstream.answer("/v1/chat/completions", json(reply), json(reply));
  expect((await gateway.post("/v1/chat/completions", chatBody("open/x"))).status).toBe(200);
  const asMessage = (item: unknown) => ({ ...(item as Wire), ...("role" in (item as Wire) && { type: "message" }) });
  const { input } = responsesBody("open/x");
  expect(upstream.calls[0]?.json).toMatchObject({ ...options, input: (input as unknown[]).map(asMessage) });
  expect((await gateway.post("/v1/responses", responsesBody("deployed/x"))).status).toBe(200);
  const { messages } = chatBody("deployed/x");
  expect(upstream.calls[1]?.json).toMatchObject({ ...options, messages });
  // Who knows nothing of them is told nothing of them.
  expect((await gateway.post("/v1/responses", responsesBody("plain/x"))).status).toBe(200);
  expect(upstream.calls[2]?.text).not.toContain("prompt_cache");
});
