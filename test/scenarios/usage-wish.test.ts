import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { sse, startUpstream } from "../support/upstream.ts";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const chat = startUpstream();
const messages = startUpstream();
let app: TestApp;

const record = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (more: object) => record({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", ...more });
const CHAT_REPLY = [
  chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: null }] }),
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  chunk({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } }),
  "data: [DONE]\n\n",
];
const event = (type: string, more: object) => `event: ${type}\n${record({ type, ...more })}`;
const MESSAGES_REPLY = [
  event("message_start", {
    message: {
      ...{ id: "m1", type: "message", role: "assistant", model: "m", content: [] },
      ...{ stop_reason: null, stop_sequence: null, usage: { input_tokens: 11, output_tokens: 1 } },
    },
  }),
  event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
  event("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hi" } }),
  event("content_block_stop", { index: 0 }),
  event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 7 } }),
  event("message_stop", {}),
];

beforeAll(async () => {
  app = await startApp({
    vendors: [
      { ...vendorAt(chat, "chat", "lab"), models: "any" },
      { ...vendorAt(chat, "chat", "router"), quirks: { acceptsCacheControl: true }, models: "any" },
      { ...vendorAt(messages, "messages", "claude"), models: "any" },
    ],
  });
});
beforeEach(() => {
  chat.reset();
  messages.reset();
  chat.answer(CHAT, sse(CHAT_REPLY));
  messages.answer(MESSAGES, sse(MESSAGES_REPLY));
});
afterAll(async () => {
  await app.stop();
  chat.close();
  messages.close();
});

describe("OpenRouter's wish for usage", () => {
  const ask = (model: string, usage: unknown) =>
    app.post(CHAT, { model, stream: true, usage, messages: [{ role: "user", content: "Hi" }] });
  const sent = () => JSON.parse((chat.calls[0] ?? messages.calls[0])?.text ?? "{}");

  test.each(["lab/m", "router/m", "claude/m"])("is granted, by whatever vendor: %s", async (model) => {
    const response = await ask(model, { include: true });
    expect(response.headers.get("x-sluice-dropped")).toBeNull();
    expect(await response.text()).toMatch(/"choices":\[\],"usage":\{"prompt_tokens":11,"completion_tokens":7,/);
    expect("usage" in sent()).toBe(model === "router/m");
  });

  test("is none where it says no", async () => {
    const response = await ask("claude/m", { include: false });
    expect(response.headers.get("x-sluice-dropped")).toBeNull();
    expect(await response.text()).not.toContain("prompt_tokens");
  });

  test("in any other form is a field like others", async () => {
    const crossed = await ask("claude/m", { detailed: true });
    expect(crossed.headers.get("x-sluice-dropped")).toBe("usage");
    await crossed.text();
    await (await ask("lab/m", { detailed: true })).text();
    expect(JSON.parse(chat.calls[0]?.text ?? "{}").usage).toEqual({ detailed: true });
  });
});
