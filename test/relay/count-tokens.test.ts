import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { GatewayError } from "../../src/canon/errors.ts";
import { VENDOR_COUNT_MS } from "../../src/relay/count-tokens.ts";
import { fetchBy, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { html, json, neverAnswer, reset, startUpstream, truncatedJson, type Upstream } from "../support/upstream.ts";
import { countWork } from "../support/wait.ts";

const PATH = "/v1/messages/count_tokens";
const GPT = "openai/gpt-4o";
const CLAUDE = "anthropic/claude-sonnet-4-6";

let upstream: Upstream;
let app: TestApp;
let clock: ManualClock;

// One gateway for all: its tokenizer takes a third of a second to start.
beforeAll(async () => {
  upstream = startUpstream();
  clock = manualClock();
  const vendors = [
    vendorAt(upstream, "chat", "openai"),
    vendorAt(upstream, "chat", "google"),
    vendorAt(upstream, "chat", "deepseek", { reasoningReplay: "reasoning_content" }),
    vendorAt(upstream, "messages", "plain"),
    vendorAt(upstream, "messages", "anthropic", { countTokens: true, webTools: true }),
  ];
  app = await startApp({ vendors, clock });
});
afterEach(() => {
  // No count is charged, and no count reaches a vendor that has no counter.
  expect(app.rows()).toEqual([]);
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
  app.log.length = 0;
});
afterAll(async () => {
  await app.stop();
  upstream.close();
});

type Answer = { status: number; by: string | null; tokens: number; body: Record<string, unknown> };

async function count(body: unknown, init: { headers?: Record<string, string> } = {}): Promise<Answer> {
  const response = await app.post(PATH, body, init);
  const answer = (await response.json()) as Record<string, unknown>;
  const tokens = Number(answer["input_tokens"] ?? Number.NaN);
  return { status: response.status, by: response.headers.get("x-sluice-token-count"), tokens, body: answer };
}

const ask = (content: unknown, more: object = {}, model = GPT) => ({
  model,
  messages: [{ role: "user", content }],
  ...more,
});
const tokensOf = async (body: unknown) => {
  const { status, tokens, body: answer } = await count(body);
  expect([status, answer]).toEqual([200, { input_tokens: tokens }]);
  return tokens;
};

/** A PNG's header: all that is read of a picture. */
function png(width: number, height: number): string {
  const bytes = Buffer.alloc(33);
  bytes.write("\x89PNG\r\n\x1a\n", 0, "latin1");
  bytes.writeUInt32BE(13, 8);
  bytes.write("IHDR", 12, "latin1");
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  return bytes.toString("base64");
}
const image = (data: string) => ({
  type: "image",
  source: { type: "base64", media_type: "image/png", data },
});
const TOOL = {
  name: "get_tide",
  description: "The height of the tide in a harbour at a given hour.",
  input_schema: {
    type: "object",
    properties: { harbour: { type: "string", description: "Its name" }, hour: { type: "integer" } },
    required: ["harbour"],
  },
};

describe("counted here", () => {
  test("text, turns and system by the family's rule: exact for the family the vocabulary is of", async () => {
    // 4 tokens of text, 4 for the turn, 3 for the request (dialects.md 6.2).
    expect(await tokensOf(ask("Hello, world!"))).toBe(11);
    expect(await tokensOf(ask([{ type: "text", text: "Hello, world!" }]))).toBe(11);
    expect(await tokensOf(ask("Hello, world!", { system: "Hello, world!" }))).toBe(15);
    const turns = ["user", "assistant", "user"].map((role) => ({ role, content: "Hello, world!" }));
    expect(await tokensOf({ model: GPT, messages: turns })).toBe(27);
  });

  test("fields of generation are taken and change nothing", async () => {
    const more = { max_tokens: 5, stream: true, temperature: 0.5, stop_sequences: ["x".repeat(400)], metadata: {} };
    expect(await tokensOf(ask("Hello, world!", more))).toBe(11);
  });

  test("a family with a denser vocabulary counts more, the newest one most", async () => {
    const text = "The gate stands open from dawn to dusk; whoever brings a key may pass. ".repeat(20);
    const gpt = await tokensOf(ask(text));
    const older = await tokensOf(ask(text, {}, "plain/claude-sonnet-4-5"));
    const newer = await tokensOf(ask(text, {}, "plain/claude-opus-5"));
    expect(older).toBeGreaterThan(gpt);
    expect(newer / older).toBeGreaterThan(1.35);
    expect(newer / older).toBeLessThan(1.65);
  });

  test("tools, calls and results count, on every turn of a loop", async () => {
    const bare = await tokensOf(ask("Tide?"));
    const withTool = await tokensOf(ask("Tide?", { tools: [TOOL] }));
    expect(withTool).toBeGreaterThan(bare + 40);
    const loop = (result: string) => ({
      model: GPT,
      tools: [TOOL],
      messages: [
        { role: "user", content: "Tide?" },
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "get_tide", input: { harbour: "Husum" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: result }] },
      ],
    });
    const short = await tokensOf(loop("low"));
    expect(short).toBeGreaterThan(withTool + 20);
    expect(await tokensOf(loop("Hello, world! ".repeat(100)))).toBeGreaterThan(short + 350);
    expect(await tokensOf(ask("Tide?", { tools: [TOOL] }, "plain/claude-haiku-4-5"))).toBeGreaterThan(500);
  });

  test("web tools that are served here count as the functions that their vendor is told", async () => {
    const plain = await tokensOf(ask("hi"));
    const search = { type: "web_search_20250305", name: "web_search" };
    const fetching = { type: "web_fetch_20250910", name: "web_fetch" };
    const one = await tokensOf(ask("hi", { tools: [search] }));
    const both = await tokensOf(ask("hi", { tools: [search, fetching] }));
    const own = { name: "web_search", description: "x".repeat(200), input_schema: { type: "object", properties: {} } };
    expect(one).toBeGreaterThan(plain + 60);
    expect(both).toBeGreaterThan(one + 30);
    expect(await tokensOf(ask("hi", { tools: [search, own] }))).toBeGreaterThan(one);
  });

  test("tools that only their vendor runs take the time of their number, not of its square", async () => {
    const timeOf = async (number: number): Promise<number> => {
      const tools = Array.from({ length: number }, (_, at) => ({ type: "tool_to_come_20270101", name: `t${at}` }));
      let least = Number.POSITIVE_INFINITY;
      for (let run = 0; run < 3; run++) {
        const work = countWork();
        await tokensOf(ask("hi", { tools }));
        least = Math.min(least, work());
      }
      return least;
    };
    const few = await timeOf(2_000);
    // Sixteen times as many: the square would be 256 times as much. Below 20 ms a measure is noise.
    expect((await timeOf(32_000)) / Math.max(few, 20)).toBeLessThan(60);
  });

  test("a toolset counts with a vendor that has it, and is refused as a message is with all others", async () => {
    const set = { tools: [{ type: "computer_toolset_20260801", description: "x".repeat(400) }] };
    const model = "plain/claude-sonnet-4-5";
    expect(await tokensOf(ask("Hi", set, model))).toBeGreaterThan((await tokensOf(ask("Hi", {}, model))) + 20);
    expect((await count(ask("Hi", set))).status).toBe(400);
  });

  test("reasoning counts where it goes back to the model", async () => {
    const thinking = { type: "thinking", thinking: "The tide turns at noon. ".repeat(50), signature: "c2ln" };
    const call = { type: "tool_use", id: "t1", name: "get_tide", input: {} };
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "low" }] };
    const inLoop = (model: string, first: object[]) => ({
      model,
      tools: [TOOL],
      messages: [{ role: "user", content: "Tide?" }, { role: "assistant", content: [...first, call] }, result],
    });
    const before = (model: string, first: object[]) => {
      const body = inLoop(model, first);
      return { ...body, messages: [...body.messages, { role: "user", content: "And now?" }] };
    };
    const grows = async (body: typeof inLoop, model: string) =>
      (await tokensOf(body(model, [thinking]))) - (await tokensOf(body(model, [])));
    expect(await grows(inLoop, "plain/claude-sonnet-4-5")).toBeGreaterThan(250);
    expect(await grows(before, "plain/claude-sonnet-4-5")).toBe(0);
    expect(await grows(before, "plain/claude-opus-5")).toBeGreaterThan(250);
    expect(await grows(before, "deepseek/deepseek-v4-pro")).toBeGreaterThan(250);
    const sealed = { type: "redacted_thinking", data: "QUJD".repeat(500) };
    const some = await tokensOf(inLoop("plain/claude-sonnet-4-5", [sealed]));
    expect(some - (await tokensOf(inLoop("plain/claude-sonnet-4-5", [])))).toBe(400);
  });

  test("thinking that is switched on and a schema for the answer count", async () => {
    const model = "plain/claude-sonnet-4-5";
    const bare = await tokensOf(ask("Hi", {}, model));
    expect(await tokensOf(ask("Hi", { thinking: { type: "enabled", budget_tokens: 2000 } }, model))).toBe(bare + 36);
    expect(await tokensOf(ask("Hi", { thinking: { type: "disabled" } }, model))).toBe(bare);
    const format = { type: "json_schema", schema: TOOL.input_schema };
    expect(await tokensOf(ask("Hi", { output_config: { format } }, model))).toBeGreaterThan(bare + 40);
  });

  const jpeg = Buffer.concat([
    Buffer.from("ffd8ffe1", "hex"),
    Buffer.from([0xea, 0x62]),
    Buffer.alloc(60_000),
    Buffer.from("ffc0001108", "hex"),
    Buffer.from([0x03, 0x00, 0x04, 0x00, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]),
  ]).toString("base64");
  const gif = Buffer.concat([Buffer.from("GIF89a", "latin1"), Buffer.from([0x00, 0x04, 0x00, 0x03, 0, 0, 0])]);
  const webp = (kind: string, rest: number[]) =>
    Buffer.concat([Buffer.from(`RIFF\0\0\0\0WEBP${kind}`, "latin1"), Buffer.from(rest)]).toString("base64");
  const lossy = webp("VP8 ", [0, 0, 0, 0, 0, 0, 0, 0x9d, 0x01, 0x2a, 0x00, 0x04, 0x00, 0x03]);
  const lossless = webp("VP8L", [0, 0, 0, 0, 0x2f, 0xff, 0xc3, 0xbf, 0x00, 0, 0, 0, 0, 0]);
  const extended = webp("VP8X", [10, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x03, 0x00, 0xff, 0x02, 0x00]);

  test.each([
    ["PNG", png(1024, 768)],
    ["JPEG behind 60 KB of metadata", jpeg],
    ["GIF", gif.toString("base64")],
    ["WebP, lossy", lossy],
    ["WebP, lossless", lossless],
    ["WebP, extended", extended],
  ])("a picture counts by its size: %s of 1024 x 768", async (_name, data) => {
    // Two tiles each way: 85 + 4 x 170, and 1024 x 768 / 750 (dialects.md 6.3).
    const claude = "plain/claude-sonnet-4-5";
    expect((await tokensOf(ask([image(data)]))) - 7).toBe(765);
    const bare = await tokensOf(ask([{ type: "text", text: "Hello, world!" }], {}, claude));
    const both = [{ type: "text", text: "Hello, world!" }, image(data)];
    expect(await tokensOf(ask(both, {}, claude))).toBe(bare + 1049);
  });

  test.each([
    ["openai/gpt-4o", 100, 100, 255],
    ["openai/gpt-4o", 4000, 2000, 85 + 6 * 170],
    ["openai/gpt-4.1-mini", 320, 320, 162],
    ["openai/gpt-4.1-mini", 8000, 8000, Math.ceil(1536 * 1.62)],
    ["openai/gpt-5", 100, 100, 210],
    ["plain/claude-sonnet-4-5", 8000, 8000, 1600],
    ["plain/claude-opus-4-8", 8000, 8000, 4784],
    ["plain/claude-sonnet-4-5", 15, 50, 1],
    ["google/gemini-2.5-flash", 384, 384, 258],
    ["google/gemini-2.5-flash", 1536, 768, 516],
    ["google/gemini-3.5-flash", 1536, 768, 1120],
  ])("%s, %d x %d: %d tokens", async (model, width, height, tokens) => {
    const bare = await tokensOf(ask([image(png(1, 1)), image(png(width, height))], {}, model));
    expect(bare - (await tokensOf(ask([image(png(1, 1))], {}, model)))).toBe(tokens);
  });

  test("a picture that cannot be seen counts as a usual one, never by its base64 or its URL", async () => {
    const url = { type: "image", source: { type: "url", url: `https://example.com/${"a".repeat(3000)}.png` } };
    expect((await tokensOf(ask([url]))) - 7).toBe(765);
    const broken = image(Buffer.alloc(300_000, 7).toString("base64"));
    expect((await tokensOf(ask([broken]))) - 7).toBe(765);
    const inResult = { type: "tool_result", tool_use_id: "t1", content: [image(png(1024, 768))] };
    const call = { type: "tool_use", id: "t1", name: "shot", input: {} };
    const messages = [
      { role: "user", content: "Shot?" },
      { role: "assistant", content: [call] },
      { role: "user", content: [inResult] },
    ];
    expect(await tokensOf({ model: GPT, messages })).toBeGreaterThan(765);
  });

  test("documents count by their pages or their text, or are refused: never as nothing", async () => {
    const document = (source: object) => [{ type: "document", source }];
    const pdf = Buffer.from(`%PDF-1.4 << /Type /Pages /Count 4 >>${" ".repeat(400)}`).toString("base64");
    const base64 = { type: "base64", media_type: "application/pdf", data: pdf };
    const model = "plain/claude-sonnet-4-5";
    expect(await tokensOf(ask(document(base64), {}, model))).toBe(4 * 2250 + 11);
    const plain = { type: "text", media_type: "text/plain", data: "Hello, world!" };
    expect(await tokensOf(ask(document(plain)))).toBe(11);
    for (const source of [
      { type: "url", url: "https://example.com/a.pdf" },
      { type: "file", file_id: "file_1" },
    ]) {
      const { status, body } = await count(ask(document(source), {}, model));
      expect([status, body["error"]]).toMatchObject([400, { type: "invalid_request_error", param: "messages" }]);
    }
  });

  test("a megabyte of one character takes well under a second", async () => {
    await tokensOf(ask("warm"));
    const work = countWork();
    const tokens = await tokensOf(ask("a".repeat(1_000_000)));
    expect(work()).toBeLessThan(1_000);
    expect(tokens).toBeGreaterThan(100_000);
  });

  test("a model of any vendor counts, the built-in ones too, and says that it was counted here", async () => {
    expect(await count(ask("Hello, world!", {}, "sluice/echo"))).toMatchObject({ status: 200, by: "local" });
    expect(await count(ask("Hello, world!", {}, "plain/anything"))).toMatchObject({ status: 200, by: "local" });
    expect(upstream.calls).toEqual([]);
  });
});

describe("counted by the vendor", () => {
  const body = {
    model: CLAUDE,
    max_tokens: 100,
    stream: true,
    temperature: 1,
    metadata: { user_id: "u" },
    service_tier: "auto",
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    messages: [{ role: "user", content: "Hello, world!" }],
    tools: [{ type: "web_search_20250305", name: "web_search" }],
    a_field_to_come: { kept: true },
  };

  test("its number is told; only what it counts is sent, with the key of the gateway", async () => {
    upstream.answer(PATH, json({ input_tokens: 2345 }));
    const headers = { "anthropic-beta": "token-counting-2024-11-01", "anthropic-version": "2023-06-01" };
    const asked = { ...body, model: "anthropic/claude-sonnet-5" };
    expect(await count(asked, { headers })).toMatchObject({ status: 200, by: "vendor", tokens: 2345 });
    const call = await upstream.called();
    expect(call.headers).toMatchObject({ ...headers, "x-api-key": "vendor-key-of-anthropic" });
    expect(JSON.stringify(call.headers)).not.toContain(app.key);
    expect(call.json).toEqual({
      model: "claude-sonnet-5",
      system: body.system,
      messages: body.messages,
      tools: body.tools,
      a_field_to_come: { kept: true },
      // What a generation would send of its own accord (interface 4.8) is counted as well.
      thinking: { type: "disabled" },
    });
    expect(app.log.some((line) => line["event"] === "count-fallback")).toBe(false);
  });

  test("what it left out of the conversation first is told beside its number, and not held against it", async () => {
    const context_management = { original_input_tokens: 24_000 };
    upstream.answer(PATH, json({ input_tokens: 60, context_management }));
    const edits = [{ type: "clear_tool_uses_20250919" }];
    const long = ask("The gate stands open. ".repeat(5_000), { context_management: { edits } }, CLAUDE);
    const { by, body: told } = await count(long);
    expect([by, told]).toEqual(["vendor", { input_tokens: 60, context_management }]);
    expect((await upstream.called()).json).toMatchObject({ context_management: { edits } });
  });

  test.each([
    ["an error", json({ type: "error", error: { type: "overloaded_error", message: "busy" } }, { status: 529 })],
    ["a refused key", json({ type: "error", error: { type: "authentication_error", message: "no" } }, { status: 401 })],
    ["an unknown path", json({ detail: "Not Found" }, { status: 404 })],
    ["an error with a number in it", json({ input_tokens: 2345 }, { status: 500 })],
    ["a web page", html(200)],
    ["zero", json({ input_tokens: 0 })],
    ["no number", json({ input_tokens: "2345" })],
    ["half an answer", truncatedJson({ input_tokens: 2345 })],
    ["a broken connection", reset()],
    ["a redirect", { status: 302, headers: { location: "/x" }, parts: [], framing: "length", finish: "end" } as const],
  ])("%s instead of a count: counted here", async (_name, answer) => {
    upstream.answer(PATH, answer);
    const counted = await count(body);
    expect(counted).toMatchObject({ status: 200, by: "local" });
    // The vendor's own tool, which only this vendor is sent, is not forgotten.
    expect(counted.tokens).toBeGreaterThan(1_000);
    expect(upstream.calls.length).toBe(1);
    const lines = app.log.filter((line) => line["event"] === "count-fallback");
    expect(lines).toMatchObject([{ level: "warn", vendor: "anthropic" }]);
  });

  test("a vendor that does not answer has three seconds, then it is left and counted here", async () => {
    insideOnly(CLOCK_BY_HAND);
    upstream.answer(PATH, neverAnswer());
    const counting = count(body);
    const call = await upstream.called();
    await clock.armed(VENDOR_COUNT_MS);
    await clock.advance(VENDOR_COUNT_MS - 1);
    expect(call.aborted).toBe(false);
    await clock.advance(1);
    expect(await counting).toMatchObject({ status: 200, by: "local" });
    await call.whenAborted;
    expect(upstream.calls.length).toBe(1);
  });

  test("a client that leaves ends the vendor's call, and nothing is counted here", async () => {
    upstream.answer(PATH, neverAnswer());
    const leaving = new AbortController();
    const counting = app.post(PATH, body, { signal: leaving.signal });
    const call = await upstream.called();
    leaving.abort();
    await call.whenAborted;
    await counting.catch(() => undefined);
    expect(app.log.filter((line) => line["event"] === "count-fallback")).toEqual([]);
  });

  test("an adviser is named as the vendor does", async () => {
    upstream.answer(PATH, json({ input_tokens: 2345 }));
    const adviser = { type: "advisor_20260301", name: "advisor", model: CLAUDE };
    expect(await count({ ...body, tools: [adviser] })).toMatchObject({ by: "vendor", tokens: 2345 });
    expect((await upstream.called()).json).toMatchObject({ tools: [{ ...adviser, model: "claude-sonnet-4-6" }] });
  });

  test("a vendor without the flag is not asked, though it speaks the dialect", async () => {
    expect(await count({ ...body, model: "plain/claude-sonnet-4-6" })).toMatchObject({ by: "local" });
    expect(upstream.calls).toEqual([]);
  });
});

describe("refused as everywhere", () => {
  test.each([
    [
      "an unknown model",
      { model: "nobody/nothing", messages: [{ role: "user", content: "x" }] },
      404,
      "not_found_error",
    ],
    ["a model without prefix", { model: "gpt-4o", messages: [{ role: "user", content: "x" }] }, 404, "not_found_error"],
    ["no model", { messages: [{ role: "user", content: "x" }] }, 400, "invalid_request_error"],
    ["no messages", { model: GPT }, 400, "invalid_request_error"],
    ["empty messages", { model: GPT, messages: [] }, 400, "invalid_request_error"],
    ["a block without a type", ask([{ text: "x" }]), 400, "invalid_request_error"],
    ["a picture without a source", ask([{ type: "image" }]), 400, "invalid_request_error"],
    ["no JSON", "{", 400, "invalid_request_error"],
  ])("%s", async (_name, body, status, type) => {
    const answer = await count(body);
    expect(answer).toMatchObject({ status, by: null, body: { type: "error", error: { type } } });
    expect("input_tokens" in answer.body).toBe(false);
  });

  test("no key, a wrong method, too large a body", async () => {
    const headers = { "content-type": "application/json" };
    const noKey = await app.call(PATH, { method: "POST", headers, body: JSON.stringify(ask("x")) });
    expect([noKey.status, await noKey.json()]).toMatchObject([401, { error: { type: "authentication_error" } }]);
    const read = await app.call(PATH);
    expect([read.status, read.headers.get("allow")]).toEqual([405, "POST"]);
    const large = await app.post(PATH, ask("x".repeat(32 * 1024 * 1024)));
    expect([large.status, await large.json()]).toMatchObject([413, { error: { type: "request_too_large" } }]);
  });
});

test("what a generation takes can be counted too: a picture of 20 MiB", async () => {
  const padded = Buffer.concat([Buffer.from(png(1_000, 1_000), "base64"), Buffer.alloc(15 * 1024 * 1024)]);
  const small = await tokensOf(ask([image(png(1_000, 1_000))]));
  expect(await tokensOf(ask([image(padded.toString("base64"))]))).toBe(small);
});

test("a place of its own class is taken for each count and given back, whatever came of it; without one nothing is read", async () => {
  const { services } = app.app;
  const { limiter } = services;
  const taken: string[] = [];
  let released = 0;
  let full = false;
  services.limiter = {
    take(caller, requestClass) {
      if (full) throw new GatewayError("rate_limit_exceeded", "Too many.", { retryAfterSeconds: 2 });
      taken.push(`${caller.accountId} ${requestClass}`);
      return { state: undefined, release: () => void released++ };
    },
  };
  try {
    expect((await count(ask("x"))).status).toBe(200);
    expect((await count(ask("x", {}, "nobody/nothing"))).status).toBe(404);
    expect([taken, released]).toEqual([Array(2).fill(`${app.accountId} count-tokens`), 2]);
    full = true;
    expect(await count("{")).toMatchObject({ status: 429, body: { error: { type: "rate_limit_error" } } });
    expect(released).toBe(2);
  } finally {
    services.limiter = limiter;
  }
});

test("the official SDK counts, with either answer", async () => {
  const client = new Anthropic({
    apiKey: app.key,
    baseURL: "http://localhost",
    maxRetries: 0,
    fetch: fetchBy(app),
  });
  const messages = [{ role: "user" as const, content: "Hello, world!" }];
  expect((await client.messages.countTokens({ model: GPT, messages })).input_tokens).toBe(11);
  upstream.answer(PATH, json({ input_tokens: 77 }));
  const { data, response } = await client.messages.countTokens({ model: CLAUDE, messages }).withResponse();
  expect([data.input_tokens, response.headers.get("x-sluice-token-count")]).toEqual([77, "vendor"]);
  const missing = await client.messages.countTokens({ model: "nobody/nothing", messages }).catch((error) => error);
  expect(missing).toBeInstanceOf(Anthropic.NotFoundError);
});
