import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type Part, sse, startUpstream } from "../support/upstream.ts";
import { gate } from "../support/wait.ts";
import { readAlong } from "./reading.ts";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const GEMINI = "/v1/models/m:streamGenerateContent";
const chat = startUpstream();
const messages = startUpstream();
const gemini = startUpstream();
let app: TestApp;

const chunk = (model: string, content: string) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model, choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
const ask = (model: string) => ({ model, max_tokens: 100, stream: true, messages: [{ role: "user", content: "Hi" }] });
const tagged = { quirks: { inlineThinkTags: true } };

beforeEach(async () => {
  chat.reset();
  messages.reset();
  gemini.reset();
  app ??= await startApp({
    vendors: [
      { ...vendorAt(chat, "chat", "lab"), ...tagged, models: "any" },
      { ...vendorAt(messages, "messages", "claude"), models: "any" },
      { ...vendorAt(gemini, "chat", "google"), dialect: "gemini" },
    ],
  });
});
afterAll(async () => {
  await app.stop();
  chat.close();
  messages.close();
  gemini.close();
});

describe("a vendor that may write its reasoning into its text", () => {
  test.each([CHAT, MESSAGES])("has it streamed word by word: %s", async (path) => {
    const rest = gate();
    const parts: Part[] = [chunk("llama-3", "First"), rest.opened, chunk("llama-3", " second"), "data: [DONE]\n\n"];
    chat.answer(CHAT, sse(parts));
    const reading = readAlong(await app.post(path, ask("lab/llama-3")));
    await reading.has("First");
    rest.open();
    expect(await reading.end()).toContain(" second");
  });

  test.each([CHAT, MESSAGES])("and breaks off: what was held back comes out before the error: %s", async (path) => {
    for (const torn of [": nothing more\n\n", 'data: {"id":"c1","cho']) {
      chat.answer(CHAT, sse([chunk("tiny-r1", "So far"), torn]));
      const text = await (await app.post(path, ask("lab/tiny-r1"))).text();
      expect(text).toContain('"So far"');
      expect(text.indexOf("So far")).toBeLessThan(text.indexOf('"error"'));
      expect(text).not.toContain("block_stop");
    }
  });
});

describe("a record of messages that is torn off behind its name", () => {
  const START = `event: message_start\ndata: ${JSON.stringify({ type: "message_start", message: { id: "m1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 5, output_tokens: 1 } } })}\n\n`;
  const BLOCK = `event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"So far"}}\n\n`;

  test.each(["message_stop", "content_block_delta", "error"])("is no record: %s", async (name) => {
    messages.answer(MESSAGES, sse([`event: ping\ndata: \n\n${START}${BLOCK}event: ${name}\ndata: `]));
    const text = await (await app.post(MESSAGES, ask("claude/m"))).text();
    const names = [...text.matchAll(/^event: (.*)$/gm)].map(([, found]) => found);
    expect(names).toEqual(["ping", "message_start", "content_block_start", "error"]);
    expect(text).toContain("stream_truncated");
  });
});

describe("a vendor that counts in every record, and breaks off", () => {
  const record = {
    candidates: [{ content: { role: "model", parts: [{ text: "So far" }] } }],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 5, thoughtsTokenCount: 185 },
  };
  const counted = { input: 9, output: 190, reasoning: 185, estimated: false };

  test.each(["end", "reset"] as const)("is paid what it counted: %s", async (finish) => {
    gemini.answer(GEMINI, sse([`data: ${JSON.stringify(record)}\r\n\r\n`], { finish }));
    const text = await (await app.post(MESSAGES, ask("google/m"))).text();
    expect(text).toContain("stream_truncated");
    expect(app.rows().at(-1)).toMatchObject({ outcome: "upstream-failed", ...counted });
  });

  test.each(["gemini", "chat"])("is paid what it counted until its client left: %s", async (dialect) => {
    const usage = { prompt_tokens: 9, completion_tokens: 190, completion_tokens_details: { reasoning_tokens: 185 } };
    const delta = { delta: { content: "So far" }, index: 0, finish_reason: null };
    const said = dialect === "chat" ? { id: "c1", model: "m", choices: [delta], usage } : record;
    const upstream = dialect === "chat" ? chat : gemini;
    upstream.answer(
      dialect === "chat" ? CHAT : GEMINI,
      sse(`data: ${JSON.stringify(said)}\n\n`, { finish: "silence" }),
    );
    const leaving = new AbortController();
    const model = dialect === "chat" ? "lab/llama-3" : "google/m";
    const response = await app.post(MESSAGES, ask(model), { signal: leaving.signal });
    const reading = response.text().catch(() => "");
    leaving.abort();
    await reading;
    await app.app.running.idle();
    expect(app.rows().at(-1)).toMatchObject({ outcome: "client-left", ...counted });
  });
});
