import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createCatalog } from "../../src/catalog/catalog.ts";
import { builtInRows } from "../../src/catalog/rows.ts";
import { isObject } from "../../src/lib/json.ts";
import { pricesOf as pricesFor } from "../../src/relay/payment.ts";
import { registry } from "../../src/vendors/registry.ts";
import { GREETING } from "../sdk/replies.ts";
import { chat } from "../sdk/vendors/chat.ts";
import { gemini } from "../sdk/vendors/gemini.ts";
import { messages } from "../sdk/vendors/messages.ts";
import { responses } from "../sdk/vendors/responses.ts";
import { GENERATION_PATH, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import { manualClock } from "../support/clock.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

/** Claude models that cannot be kept from thinking: they take `thinking.type` `adaptive` and show nothing of it unless they are asked to. */
const MODELS = ["claude-opus-5-5", "claude-fable-5", "claude-fable-5-1", "claude-fable-5-2"];

/** What a vendor is asked for a client's request, and what of that was left out. */
async function sentBy(app: TestApp, upstream: Upstream, client: "chat" | "messages", body: object) {
  upstream.calls.length = 0;
  const response = await app.post(GENERATION_PATH[client], body);
  expect(response.status).toBe(200);
  await response.arrayBuffer();
  const call = upstream.calls[0]?.json;
  if (!isObject(call)) throw new Error("the vendor was not asked");
  return { call, dropped: response.headers.get("x-sluice-dropped") };
}

describe("models of the catalog that always think", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    for (const model of MODELS) upstream.always(messages.path(model, false), json(messages.whole(GREETING, model)));
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "messages", "anthropic"), models: "catalog" }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  async function sent(client: "chat" | "messages", body: object) {
    const { call, dropped } = await sentBy(app, upstream, client, body);
    const { thinking, output_config } = call;
    return { thinking, output_config, dropped };
  }
  const user = [{ role: "user", content: "Hi" }];

  test.each(MODELS)("%s keeps what a client says of its thinking", async (name) => {
    const model = `anthropic/${name}`;
    const thinking = {
      type: "adaptive",
      display: "summarized",
      block_binding: { prefix_mismatch_behavior: "drop_block" },
    };
    const own = { model, max_tokens: 2000, messages: user, thinking, output_config: { effort: "high" } };
    expect(await sent("messages", own)).toEqual({ thinking, output_config: { effort: "high" }, dropped: null });
  });

  test.each(MODELS)(
    "%s is asked to show its thinking where it is asked to think, and told nothing otherwise",
    async (name) => {
      const model = `anthropic/${name}`;
      const asked = await sent("chat", { model, messages: user, reasoning_effort: "low" });
      expect(asked.thinking).toEqual({ type: "adaptive", display: "summarized" });
      expect(asked.output_config).toEqual({ effort: "low" });
      const silent = await sent("messages", {
        model,
        max_tokens: 2000,
        messages: user,
        thinking: { type: "disabled" },
      });
      expect(silent).toEqual({ thinking: undefined, output_config: undefined, dropped: "thinking" });
      const plain = await sent("chat", { model, messages: user });
      expect(plain).toEqual({ thinking: undefined, output_config: undefined, dropped: null });
    },
  );
});

/** The interface's word on Anthropic's models (4.8): nothing asked, they do not reason. Off is said to those that would reason, and to no others. */
describe("Claude models of which nothing is asked", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    upstream.always(messages.path("claude", false), json(messages.whole(GREETING, "claude")));
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "messages", "anthropic"), models: "catalog" }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  const user = [{ role: "user", content: "Hi" }];
  test.each([
    ["claude-opus-4-8", undefined],
    ["claude-opus-4-7", undefined],
    ["claude-opus-4-6", undefined],
    ["claude-opus-4-5", undefined],
    ["claude-sonnet-4-6", undefined],
    ["claude-sonnet-4-5", undefined],
    ["claude-haiku-4-5", undefined],
    ["claude-opus-5", { type: "disabled" }],
    ["claude-sonnet-5", { type: "disabled" }],
    ["claude-haiku-5-5", { type: "disabled" }],
    ["claude-sonnet-5-5", { type: "between_tools" }],
  ])("%s is told %j", async (name, thinking) => {
    const body = { model: `anthropic/${name}`, max_tokens: 2000, messages: user };
    for (const client of ["chat", "messages"] as const) {
      const { call, dropped } = await sentBy(app, upstream, client, body);
      expect([client, call["thinking"], call["output_config"], dropped]).toEqual([client, thinking, undefined, null]);
    }
  });
});

const isOff = (thinking: unknown): boolean => isObject(thinking) && thinking["type"] === "disabled";

/** Their vendor fixes how these draw their words: any value of a client's own is a 400, whether they think or not. */
describe("Kimi models", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    upstream.always(chat.path("kimi", false), ({ json: body }) => {
      const { model, tool_choice: choice, thinking } = body as Record<string, unknown>;
      const word = isObject(choice) ? "specified" : choice;
      const isRefused = word === "specified" || (word === "required" && !String(model).startsWith("kimi-k3"));
      if (!isRefused || isOff(thinking)) return json(chat.whole(GREETING, "kimi"));
      const message = `tool_choice '${word}' is incompatible with thinking enabled`;
      return json({ error: { message, type: "invalid_request_error" } }, { status: 400 });
    });
    const quirks = registry.find(({ id }) => id === "moonshotai")?.quirks ?? {};
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "chat", "moonshotai", quirks), models: "catalog" }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  const sampling = { temperature: 0.3, top_p: 0.5, presence_penalty: 0.1, frequency_penalty: 0.1 };
  const fields = Object.keys(sampling);
  test.each(["kimi-k3.1-pro", "kimi-k3", "kimi-k2.7-code", "kimi-k2.6"])(
    "%s is told nothing of sampling",
    async (name) => {
      for (const asked of [{}, { reasoning_effort: "none" }, { reasoning_effort: "high" }]) {
        upstream.calls.length = 0;
        const messages = [{ role: "user", content: "Hi" }];
        const body = { model: `moonshotai/${name}`, messages, stop: ["a"], ...sampling, ...asked };
        const response = await app.post(GENERATION_PATH.chat, body);
        expect(response.status).toBe(200);
        await response.arrayBuffer();
        const sent = upstream.calls[0]?.json;
        expect(sent).toMatchObject({ stop: ["a"] });
        for (const field of fields) expect(sent).not.toHaveProperty(field);
        const dropped = response.headers.get("x-sluice-dropped")?.split(", ");
        for (const field of fields) expect(dropped).toContain(field);
      }
    },
  );

  test.each([
    ["kimi-k3.1-pro", {}, "required"],
    ["kimi-k3", { reasoning_effort: "high" }, "required"],
    ["kimi-k2.6", { reasoning_effort: "none" }, "required"],
    ["kimi-k2.6", {}, "auto"],
    ["kimi-k2.7-code", {}, "auto"],
  ])("%s is held to a forced tool where it can be (%p)", async (name, asked, told) => {
    const functions = ["f", "g"].map((called) => ({ name: called, parameters: { type: "object", properties: {} } }));
    const tools = functions.map((called) => ({ type: "function", function: called }));
    const messages = [{ role: "user", content: "Hi" }];
    for (const choice of ["required", { type: "function", function: { name: "g" } }]) {
      const body = { model: `moonshotai/${name}`, messages, tools, tool_choice: choice, ...asked };
      const response = await app.post(GENERATION_PATH.chat, body);
      expect(response.status).toBe(200);
      await response.arrayBuffer();
      const sent = upstream.calls.at(-1)?.json;
      const isAlone = told === "required" && choice !== "required";
      expect(sent).toMatchObject({ tool_choice: told, tools: isAlone ? tools.slice(1) : tools });
      const isSaid = JSON.stringify(sent).includes("Answer this time by calling");
      expect(isSaid).toBe(told === "auto");
    }
  });
});

/** Their vendor refuses what is said of a penalty, be it that there is none, also where they are told not to think. */
describe("GLM models that always think", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    upstream.always(chat.path("glm", false), json(chat.whole(GREETING, "glm")));
    const quirks = registry.find(({ id }) => id === "zai")?.quirks ?? {};
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "chat", "zai", quirks), models: "catalog" }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  test.each(["glm-5.3", "glm-5.3-flash"])("%s keeps what a client says of its earlier thinking", async (name) => {
    const body = { model: `zai/${name}`, messages: [{ role: "user", content: "Hi" }] };
    const thinking = { type: "enabled", clear_thinking: false };
    for (const [asked, effort] of [
      [{ thinking }, "high"],
      [{ thinking, reasoning_effort: "max" }, "max"],
    ] as const) {
      const { call, dropped } = await sentBy(app, upstream, "chat", { ...body, ...asked });
      expect([call["thinking"], call["reasoning_effort"], dropped]).toEqual([thinking, effort, null]);
    }
    const { call } = await sentBy(app, upstream, "messages", {
      ...body,
      max_tokens: 9,
      thinking: { type: "adaptive" },
    });
    expect(call).toMatchObject({ thinking: { type: "enabled" }, reasoning_effort: "high" });
  });

  test("and tell a call's arguments as they are written, which their vendor does to who asks for it alone", async () => {
    const messages = [{ role: "user", content: "Write it down" }];
    const tool = { name: "write", input_schema: { type: "object", properties: {} } };
    const body = { model: "zai/glm-5.3", max_tokens: 9, messages, tools: [tool] };
    const streamed = await sentBy(app, upstream, "messages", { ...body, stream: true });
    expect(streamed.call).toMatchObject({ stream: true, tool_stream: true });
    const whole = await sentBy(app, upstream, "messages", body);
    expect(whole.call["tool_stream"]).toBeUndefined();
  });
});

describe("Grok models", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    upstream.always(chat.path("grok", false), json(chat.whole(GREETING, "grok")));
    const quirks = registry.find(({ id }) => id === "xai")?.quirks ?? {};
    app = await startApp({
      vendors: [{ ...vendorAt(upstream, "chat", "xai", quirks), models: "catalog" }],
      models: [{ id: "xai/grok-of-ones-own" }],
    });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  test.each([
    ["grok-4.7", ["stop"]],
    ["grok-4.3", ["stop"]],
    ["grok-of-ones-own", []],
  ])("%s is told of no penalty, whether it thinks or not", async (name, more) => {
    for (const asked of [{}, { reasoning_effort: "none" }, { reasoning_effort: "high" }]) {
      upstream.calls.length = 0;
      const penalties = { presence_penalty: 0.1, frequency_penalty: 0 };
      const body = { model: `xai/${name}`, messages: [{ role: "user", content: "Hi" }], stop: ["a"] };
      const response = await app.post(GENERATION_PATH.chat, { ...body, ...penalties, ...asked });
      await response.arrayBuffer();
      const sent = upstream.calls[0]?.json;
      for (const field of [...Object.keys(penalties), ...more]) expect(sent).not.toHaveProperty(field);
      expect(response.headers.get("x-sluice-dropped")).toContain("presence_penalty");
    }
  });
});

describe("Gemini models", () => {
  const upstream = startUpstream();
  let app: TestApp;
  const continuing = ["gemini-2.5-pro", "gemini-3.1-pro-preview", "gemini-3.1-flash-lite"];
  const refusing = [
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.6-flash",
    "gemini-3.8-flash",
    "gemini-4-argon",
  ];
  beforeAll(async () => {
    for (const model of [...continuing, ...refusing]) {
      upstream.always(gemini.path(model, false), json(gemini.whole(GREETING, model)));
    }
    const own = { dialect: "gemini" as const, baseUrl: gemini.base(upstream.url), models: "catalog" as const };
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "chat", "google"), ...own }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  const sent = (client: "chat" | "messages", body: object) => sentBy(app, upstream, client, body);

  const user = { role: "user", content: "Hi" };
  const begun = [user, { role: "assistant", content: "So:" }];
  const contents = [
    { role: "user", parts: [{ text: "Hi" }] },
    { role: "model", parts: [{ text: "So:" }] },
  ];

  // "Requests ending with a model turn are not supported", says their vendor.
  test.each(refusing)("%s is answered where the assistant's turn is the last, and that is named", async (name) => {
    const body = { model: `google/${name}`, max_tokens: 900, messages: begun };
    const answered = [...contents, { role: "user", parts: [{ text: "(continue)" }] }];
    for (const client of ["chat", "messages"] as const) {
      expect(await sent(client, body)).toMatchObject({ call: { contents: answered }, dropped: "prefill" });
    }
  });

  test.each(continuing)("%s continues it", async (name) => {
    const body = { model: `google/${name}`, max_tokens: 900, messages: begun };
    for (const client of ["chat", "messages"] as const) {
      const { call, dropped } = await sent(client, body);
      expect([call["contents"], dropped]).toEqual([contents, null]);
    }
  });

  // Half as much is what the vendor tells of one whole reply over plain HTTP, which ends there by itself and says that it is cut.
  test.each([
    [64_000, 64_000],
    [128_000, 65_536],
  ])("Gemini 4 Argon: of %i tokens that a client allows, %i are allowed", async (asked, allowed) => {
    const { call } = await sent("messages", { model: "google/gemini-4-argon", max_tokens: asked, messages: [user] });
    expect(call).toMatchObject({ generationConfig: { maxOutputTokens: allowed } });
  });
});

/** docs.mistral.ai, "Prompt caching": of every model "billed at 10% of the standard input token price". */
test("what Mistral's models read from the cache costs a tenth", async () => {
  const row = { ...vendorAt({ url: "http://127.0.0.1:1" }, "chat", "mistral"), models: "catalog" as const };
  const app = await startApp({ vendors: [row] });
  const { data } = (await (await app.call("/v1/models")).json()) as {
    data: { id: string; pricing: { input: number; cache_read?: number } }[];
  };
  const own = data.filter(({ id }) => id.startsWith("mistral/"));
  expect(own.length).toBeGreaterThan(5);
  for (const { id, pricing } of own) expect([id, pricing.cache_read]).toEqual([id, expect.closeTo(pricing.input / 10)]);
  await app.stop();
});

/**
 * Google's pages: half price through November 2026, and through December (ai.google.dev, "Latest model" and "Pricing"); from December on 3.8 Flash answers
 * for 2.5 Pro, at its own price ("Deprecations").
 */
describe("prices that were announced for a day", () => {
  const upstream = startUpstream();
  const vendors = [{ ...vendorAt(upstream, "chat", "google"), models: "catalog" as const }];
  const CHANGES: readonly [string, number, number[], number[]][] = [
    ["google/gemini-4-argon", Date.UTC(2026, 11, 1, 8), [2, 10, 0.1], [4, 20, 0.2]],
    ["google/gemini-2.5-pro", Date.UTC(2026, 11, 1, 8), [1.25, 10, 0.125], [0.75, 3.75, 0.075]],
    ["google/gemini-2.5-pro", Date.UTC(2027, 0, 1, 8), [0.75, 3.75, 0.075], [1.5, 7.5, 0.15]],
    ["google/gemini-3.8-flash", Date.UTC(2027, 0, 1, 8), [0.75, 3.75, 0.075], [1.5, 7.5, 0.15]],
  ];
  afterAll(() => upstream.close());

  type Listed = { id: string; pricing: { input: number; output: number; cache_read: number } };
  async function pricesOf(app: TestApp, model: string): Promise<number[]> {
    const { data } = (await (await app.call("/v1/models")).json()) as { data: Listed[] };
    const { input, output, cache_read: read } = data.find(({ id }) => id === model)!.pricing;
    return [input, output, read];
  }

  test.each(CHANGES)(
    "%s has another price from then on, in a server that runs and in one that starts",
    async (...row) => {
      insideOnly(CLOCK_BY_HAND);
      const [model, at, before, after] = row;
      const clock = manualClock(at - 1);
      const app = await startApp({ clock, vendors });
      expect(await pricesOf(app, model)).toEqual(before);
      await clock.advance(1);
      expect(await pricesOf(app, model)).toEqual(after);
      // A clock that stood ahead for a moment leaves no trace.
      clock.setWall(at - 60_000);
      expect(await pricesOf(app, model)).toEqual(before);
      await app.stop();
      const later = await startApp({ clock: manualClock(at), vendors });
      expect(await pricesOf(later, model)).toEqual(after);
      await later.stop();
    },
  );

  test("a price of the operator's own stays", async () => {
    const [model, at] = CHANGES[0]!;
    const app = await startApp({
      ...{ clock: manualClock(at), vendors },
      models: [{ id: model, pricing: { input: 3, output: 4, cache_read: 1 } }],
    });
    expect(await pricesOf(app, model)).toEqual([3, 4, 1]);
    await app.stop();
  });

  test("what is billed is the price of the moment", async () => {
    const [model, at] = CHANGES[0]!;
    const clock = manualClock(at - 1);
    const catalog = createCatalog({ rows: builtInRows, vendors: [{ id: "google", models: "catalog" }] }, clock.now);
    const { version } = catalog;
    const first = catalog.find(model)!;
    expect(catalog.find(model)).toBe(first);
    await clock.advance(1);
    expect(catalog.version).toBe(version + 1);
    expect(pricesFor(catalog.find(model)!)?.prices.output).toBe(2n * pricesFor(first)!.prices.output);
    expect(catalog.version).toBe(version + 1);
  });
});

/** OpenAI's page of the model: beyond 272K tokens of input "input and cache rates double and output costs 1.5 times" for the whole request. */
describe("GPT-6.2 Sol", () => {
  const upstream = startUpstream();
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp({ vendors: [{ ...vendorAt(upstream, "responses", "openai"), models: "catalog" }] });
  });
  afterAll(async () => {
    await app.stop();
    upstream.close();
  });

  const body = (effort?: string) => ({
    ...{ model: "openai/gpt-6.2-sol", messages: [{ role: "user", content: "Hi" }], temperature: 0.5 },
    ...(effort && { reasoning_effort: effort }),
  });

  test.each([
    [272_000, "0.364100000"],
    [272_001, "0.723204000"],
  ])("costs of %i tokens in what its vendor asks", async (tokens, cost) => {
    const usage = {
      ...{ input_tokens: tokens, output_tokens: 1_000, total_tokens: tokens + 1_000 },
      input_tokens_details: { cached_tokens: 101_000, cache_write_tokens: 4_000 },
    };
    const whole = responses.whole(GREETING, "gpt-6.2-sol") as object;
    upstream.always("/v1/responses", json({ ...whole, usage }));
    const response = await app.post(GENERATION_PATH.chat, body());
    await response.arrayBuffer();
    const receipt = await app.call(`/v1/usage/${response.headers.get("x-request-id")}`, {
      headers: { authorization: `Bearer ${app.key}` },
    });
    expect(await receipt.json()).toMatchObject({ cost });
  });

  // "The API rejects requests that set reasoning effort to none."
  test.each([
    [undefined, "medium"],
    ["none", "low"],
    ["max", "max"],
  ])("asked for the effort %p it is asked for %s, and told no temperature", async (asked, effort) => {
    upstream.always("/v1/responses", json(responses.whole(GREETING, "gpt-6.2-sol")));
    const { call, dropped } = await sentBy(app, upstream, "chat", body(asked));
    expect(call).toMatchObject({ model: "gpt-6.2-sol", reasoning: { effort } });
    expect(call).not.toHaveProperty("temperature");
    expect(dropped).toBe("temperature");
  });
});
