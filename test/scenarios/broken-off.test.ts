import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, type Part, sse, startUpstream } from "../support/upstream.ts";
import { gate } from "../support/wait.ts";
import { readAlong } from "./reading.ts";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";
const GEMINI = "/v1/models/m:streamGenerateContent";
const chat = startUpstream();
const messages = startUpstream();
const gemini = startUpstream();
const responses = startUpstream();
let app: TestApp;

const chunk = (model: string, content: string) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model, choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
const ask = (model: string) => ({ model, max_tokens: 100, stream: true, messages: [{ role: "user", content: "Hi" }] });
const tagged = { quirks: { inlineThinkTags: true } };

beforeEach(async () => {
  chat.reset();
  messages.reset();
  gemini.reset();
  responses.reset();
  app ??= await startApp({
    vendors: [
      { ...vendorAt(chat, "chat", "lab"), ...tagged, models: "any" },
      { ...vendorAt(messages, "messages", "claude"), models: "any" },
      { ...vendorAt(gemini, "chat", "google"), dialect: "gemini" },
      { ...vendorAt(responses, "responses", "agents"), models: "any" },
    ],
  });
});
afterAll(async () => {
  await app.stop();
  chat.close();
  messages.close();
  gemini.close();
  responses.close();
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

  test.each([CHAT, MESSAGES])("also where it may have begun a stop sequence: %s", async (path) => {
    chat.answer(CHAT, sse([chunk("tiny", "So far EN"), ": nothing more\n\n"]));
    const stops = { [path === CHAT ? "stop" : "stop_sequences"]: ["1", "2", "3", "4", "END"] };
    const text = await (await app.post(path, { ...ask("lab/tiny"), ...stops })).text();
    expect([...text.matchAll(/"(?:content|text)":"([^"]+)"/g)].map(([, said]) => said).join("")).toBe("So far EN");
    expect(text.indexOf("EN")).toBeLessThan(text.indexOf('"error"'));
  });

  test.each(["first", "second"])("also where the gateway runs its web tools, in the %s round", async (round) => {
    const call = { index: 0, id: "call_1", type: "function", function: { name: "web_fetch", arguments: "{}" } };
    const calls = { id: "c1", model: "tiny-r1", choices: [{ index: 0, delta: { tool_calls: [call] } }] };
    const end = { ...calls, choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] };
    const records = [calls, end].map((record) => `data: ${JSON.stringify(record)}\n\n`);
    if (round === "second") chat.answer(CHAT, sse([...records, "data: [DONE]\n\n"]));
    chat.answer(CHAT, sse([chunk("tiny-r1", "So far"), ": nothing more\n\n"]));
    const tools = [{ type: "web_fetch_20250910", name: "web_fetch" }];
    const text = await (await app.post(MESSAGES, { ...ask("lab/tiny-r1"), tools })).text();
    expect(text).toContain('"So far"');
    expect(text.indexOf("So far")).toBeLessThan(text.indexOf("event: error"));
    expect(text.match(/event: error/g)).toHaveLength(1);
    expect(text.slice(text.indexOf("So far"))).not.toContain("block_stop");
  });
});

describe("a vendor whose error comes inside a call", () => {
  const begun = { index: 0, id: "call_1", type: "function", function: { name: "remove", arguments: '{"path":"/a' } };
  const call = { id: "c1", model: "m", choices: [{ index: 0, delta: { tool_calls: [begun] }, finish_reason: null }] };
  const error = { error: { type: "server_error", message: "Gone." } };
  const tools = { remove: { name: "remove", input_schema: { type: "object" } } };
  const web = { type: "web_search_20250305", name: "web_search" };

  // Agents run a call as soon as its block has ended.
  test.each([
    ["by itself", [tools.remove]],
    ["beside web tools that the gateway runs", [tools.remove, web]],
  ])("has not ended it: %s", async (_name, offered) => {
    chat.answer(CHAT, sse([call, error].map((record) => `data: ${JSON.stringify(record)}\n\n`)));
    const text = await (await app.post(MESSAGES, { ...ask("lab/tiny"), tools: offered })).text();
    const names = [...text.matchAll(/^event: (.*)$/gm)].map(([, found]) => found);
    expect(names.slice(1)).toEqual(["content_block_start", "content_block_delta", "error"]);
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

describe("a vendor that counts what it made with its error", () => {
  const told = { message: "Oh no", type: "api_error", code: "server_error" };
  const data = (...all: Record<string, unknown>[]) => all.map((each) => `data: ${JSON.stringify(each)}\n\n`).join("");
  const usage = { input_tokens: 90, output_tokens: 50 };
  const counts = { prompt_tokens: 90, completion_tokens: 50, total_tokens: 140 };
  const item = { id: "msg_1", type: "message", status: "in_progress", role: "assistant", content: [] };
  const failed = { id: "resp_1", object: "response", status: "failed", error: told, output: [], usage };
  const begun = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [],
    usage: { input_tokens: 90 },
  };
  const claude = data(
    { type: "message_start", message: begun },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "So far" } },
  );
  const endsBadly = { choices: [{ index: 0, delta: {}, finish_reason: "error" }] };
  const gone = { message: "Busy", status: "UNAVAILABLE", code: 503 };
  const seen = { candidates: [{ content: { role: "model", parts: [{ text: "So far" }] } }] };

  test.each([
    ["chat, in the error's record", "lab/m", chunk("m", "So far") + data({ error: told, usage: counts })],
    ["chat, where it ends", "lab/m", chunk("m", "So far") + data({ id: "c1", ...endsBadly, usage: counts })],
    ["messages, in the error's record", "claude/m", claude + data({ type: "error", error: told, usage })],
    [
      "messages, inside a block",
      "claude/m",
      claude + data({ type: "message_delta", delta: {}, usage }, { type: "error", error: told }),
    ],
    [
      "responses",
      "agents/m",
      data(
        { type: "response.output_item.added", output_index: 0, item },
        { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "So far" },
        { type: "response.failed", response: failed },
      ),
    ],
    [
      "gemini",
      "google/m",
      data(seen, { error: gone, usageMetadata: { promptTokenCount: 90, candidatesTokenCount: 50 } }),
    ],
  ])("is paid that: %s", async (_name, model, stream) => {
    for (const upstream of [chat, messages, gemini, responses]) {
      for (const path of [CHAT, MESSAGES, GEMINI, RESPONSES]) upstream.answer(path, sse(stream), sse(stream));
    }
    for (const path of [CHAT, MESSAGES]) {
      const text = await (await app.post(path, ask(model))).text();
      expect([text.includes("So far"), text.includes('"error"')]).toEqual([true, true]);
      const counted = { input: 90, output: 50, estimated: false };
      expect(app.rows().at(-1)).toMatchObject({ outcome: "upstream-failed", ...counted });
    }
  });
});

describe("a stream of responses that breaks off ends as the same response, with the next numbers", () => {
  const event = (type: string, sequence_number: number, fields: Record<string, unknown>) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...fields })}\n\n`;
  const response = { id: "resp_vendor", object: "response", status: "in_progress", model: "m", output: [] };
  const item = { id: "msg_1", type: "message", status: "in_progress", role: "assistant", content: [] };
  const said = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const BEGUN = [
    event("response.created", 0, { response }),
    event("response.output_item.added", 1, { output_index: 0, item }),
    event("response.output_text.delta", 2, { ...said, delta: "So far", logprobs: [] }),
  ].join("");
  const failed = event("response.failed", 3, {
    response: { ...response, status: "failed", error: { code: "server_error", message: "Gone." } },
  });
  const asked = (model: string) => ({ model, stream: true, input: "Hi" });

  test.each([
    [
      "torn off, from its own dialect",
      "agents/m",
      [BEGUN, 'event: response.output_text.delta\ndata: {"ty'],
      "resp_vendor",
    ],
    ["failing, from its own dialect", "agents/m", [BEGUN, failed], "resp_vendor"],
    ["torn off, across", "lab/tiny", [chunk("tiny", "So far"), 'data: {"id":"c1","cho'], /^resp_/],
  ])("%s", async (_, model, parts, id) => {
    chat.answer(CHAT, sse(parts));
    responses.answer(RESPONSES, sse(parts));
    const text = await (await app.post(RESPONSES, asked(model))).text();
    const records = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data as string));
    expect(records.map(({ sequence_number }) => sequence_number)).toEqual(records.map((_one, at) => at));
    expect(records.slice(-2).map(({ type }) => type)).toEqual(["error", "response.failed"]);
    const { response: last } = records.at(-1) as { response: { id: string; status: string; model: string } };
    expect(last).toMatchObject({ status: "failed", model });
    expect(last.id).toMatch(id);
    expect(last.id).toBe(records[0].response.id);
  });

  test.each(["misalignment_policy_violation", "invalid_prompt", "image_content_policy_violation"])(
    "one that its vendor stops for what was said in it is nothing to ask again: %s",
    async (code) => {
      const error = { code, message: "Reason: Potentially unintended activity." };
      const stopped = event("response.failed", 3, { response: { ...response, status: "failed", error } });
      responses.answer(RESPONSES, sse([BEGUN, stopped]));
      const text = await (await app.post(RESPONSES, asked("agents/m"))).text();
      const [told, last] = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data as string)).slice(-2);
      const message = expect.stringContaining("Potentially unintended activity");
      expect(told).toMatchObject({ type: "error", code: "invalid_request", message });
      expect(last).toMatchObject({ type: "response.failed", response: { error: { code: "invalid_prompt", message } } });
    },
  );

  test("one that its vendor ends without its last record gets one by the same name", async () => {
    const done = event("response.output_item.done", 3, {
      ...{
        output_index: 0,
        item: { ...item, status: "completed", content: [{ type: "output_text", text: "So far" }] },
      },
    });
    responses.answer(RESPONSES, sse([BEGUN, done, "data: [DONE]\n\n"]));
    const text = await (await app.post(RESPONSES, asked("agents/m"))).text();
    const records = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data as string));
    expect(records.map(({ sequence_number }) => sequence_number)).toEqual(records.map((_one, at) => at));
    expect(records.at(-1)).toMatchObject({ response: { id: "resp_vendor" } });
  });
});

describe("a stream that ends in an error has words by which agents know that asking again may help", () => {
  /** What each of them looks for in the words of an error that came without a status; the literal ones of their sources that concern it. */
  const PI = /overloaded|rate.?limit|service.?unavailable|server.?error|internal.?error|connection.?lost|terminated/i;
  const KILO = /rate limit|overloaded|service unavailable|server error|terminated|connection lost|socket hang up/i;
  const CONTINUE = /premature close|premature end|connection reset|socket hang up|aborted|overloaded/;
  const messageOf = (text: string) => {
    const record = text.split("\n").findLast((line) => line.startsWith("data: {") && line.includes('"message"'));
    const { error, message, response } = JSON.parse(record?.slice(6) ?? "{}");
    return String(error?.message ?? response?.error?.message ?? message);
  };
  const askIn = (path: string, model: string) =>
    path === RESPONSES ? { model, stream: true, input: "Hi" } : { ...ask(model), max_tokens: 100 };

  test.each([CHAT, MESSAGES, RESPONSES])("torn off: %s", async (path) => {
    chat.answer(CHAT, sse([chunk("tiny", "So far"), chunk("tiny", " so good"), ": nothing more\n\n"]));
    const words = messageOf(await (await app.post(path, askIn(path, "lab/tiny"))).text());
    for (const known of [PI, KILO]) expect(words).toMatch(known);
    expect(words.toLowerCase()).toMatch(CONTINUE);
  });

  const told = [
    ["rate_limit_error", "Slow down"],
    ["overloaded_error", "Busy"],
    ["api_error", "Oh no"],
  ] as const;
  test.each(told.flatMap(([type, text]) => [CHAT, MESSAGES].map((path) => [type, text, path] as const)))(
    "told by the vendor: %s, %s: %s",
    async (type, message, path) => {
      const error = `data: ${JSON.stringify({ error: { type, message } })}\n\n`;
      chat.answer(CHAT, sse([chunk("tiny", "So far"), chunk("tiny", " so good"), error]));
      const words = messageOf(await (await app.post(path, askIn(path, "lab/tiny"))).text());
      for (const known of [PI, KILO]) expect(words).toMatch(known);
    },
  );
});

test("a responses client that asks again with what was thought before the stream broke off is answered", async () => {
  type Said = { role: string };
  const upstream = startUpstream();
  const part = (delta: object, reason: string | null = null) =>
    `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const thought = part({ role: "assistant", content: null, reasoning_content: "Let me see." });
  upstream.answer(CHAT, sse([thought, part({ content: "Half" }), ": nothing more\n\n"]));
  upstream.always(CHAT, ({ json: body }) => {
    if ((body as { messages: Said[] }).messages.at(-1)?.role !== "assistant")
      return sse([thought, part({ content: "Whole" }), part({}, "stop"), "data: [DONE]\n\n"]);
    const message = "The last message must be a user message, or an assistant message with prefix mode on";
    return json({ error: { message, type: "invalid_request_error", param: null, code: null } }, { status: 400 });
  });
  const gateway = await startApp({
    vendors: [
      { ...vendorAt(upstream, "chat", "thinker", { reasoningReplay: "reasoning_content" }), models: "any" as const },
    ],
  });
  try {
    const hi = { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] };
    const asked = { model: "thinker/m", stream: true, store: false, include: ["reasoning.encrypted_content"] };
    const broken = await (await gateway.post(RESPONSES, { ...asked, input: [hi] })).text();
    // Codex keeps each item that was whole, and the reasoning was.
    const items = [...broken.matchAll(/^data: (.+)$/gm)]
      .map(([, data]) => JSON.parse(data as string) as { type: string; item?: { type: string } })
      .flatMap(({ type, item }) => (type === "response.output_item.done" && item ? [item] : []));
    expect(items.map(({ type }) => type)).toEqual(["reasoning"]);
    const again = await gateway.post(RESPONSES, { ...asked, input: [hi, ...items] });
    expect(again.status).toBe(200);
    expect(await again.text()).toContain("Whole");
    expect(upstream.calls.at(-1)?.json).toMatchObject({ messages: [{ role: "user", content: "Hi" }] });
  } finally {
    await gateway.stop();
    upstream.close();
  }
});
