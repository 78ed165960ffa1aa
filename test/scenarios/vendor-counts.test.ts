import { afterAll, beforeAll, expect, test } from "bun:test";
import type { UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { MODES, type Mode } from "./wires.ts";

type Wire = Record<string, unknown>;

const SAID = "Hello there, world.";
const DEPOSIT = 1_000_000_000n;
/** USD for a million tokens. */
const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 };
/** What is kept for longer than usual costs more: for an hour, or for the twelve of OpenAI's. */
const pricingOf = (dialect: UpstreamDialectName) =>
  dialect === "responses" ? { ...PRICING, cache_write_12h: 6 } : { ...PRICING, cache_write_1h: 6 };

/**
 * What a vendor says, at the beginning of a stream too where its dialect does, and the tokens that are paid: fresh, from the cache, into it, made; and
 * of those into the cache the ones that are kept for longer than usual.
 */
type Paid = readonly [input: number, cacheRead: number, cacheWrite: number, output: number, long?: number];
type Case = [name: string, said: Wire, paid: Paid, first?: Wire];

const CASES: Record<UpstreamDialectName, Case[]> = {
  chat: [
    [
      "a part from the cache",
      {
        prompt_tokens: 1_000,
        completion_tokens: 50,
        total_tokens: 1_050,
        prompt_tokens_details: { cached_tokens: 400 },
      },
      [600, 400, 0, 50],
    ],
    [
      "what Claude has written for an hour, as new-api says it",
      {
        prompt_tokens: 1_000,
        completion_tokens: 50,
        total_tokens: 1_050,
        prompt_tokens_details: { cached_tokens: 100, cached_creation_tokens: 300 },
        ...{ claude_cache_creation_5_m_tokens: 100, claude_cache_creation_1_h_tokens: 200 },
      },
      [600, 100, 300, 50, 200],
    ],
    [
      "a part from the cache, as Mistral may say it",
      { prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_050, num_cached_tokens: 400 },
      [600, 400, 0, 50],
    ],
    [
      "a part from the cache, as Mistral may say it inside",
      {
        prompt_tokens: 1_000,
        completion_tokens: 50,
        total_tokens: 1_050,
        prompt_token_details: { cached_tokens: 400 },
      },
      [600, 400, 0, 50],
    ],
    [
      "reasoning left out",
      {
        prompt_tokens: 1_000,
        completion_tokens: 50,
        total_tokens: 1_250,
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [1_000, 0, 0, 250],
    ],
    [
      "reasoning inside",
      {
        prompt_tokens: 1_000,
        completion_tokens: 250,
        total_tokens: 1_250,
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [1_000, 0, 0, 250],
    ],
    [
      "the cache beside the prompt, larger than it",
      { prompt_tokens: 100, completion_tokens: 50, total_tokens: 450, prompt_tokens_details: { cached_tokens: 300 } },
      [100, 300, 0, 50],
    ],
    [
      "the cache beside the prompt, smaller than it",
      { prompt_tokens: 500, completion_tokens: 50, total_tokens: 850, prompt_tokens_details: { cached_tokens: 300 } },
      [500, 300, 0, 50],
    ],
    [
      "the cache beside the prompt, and reasoning left out",
      {
        ...{ prompt_tokens: 500, completion_tokens: 50, total_tokens: 1_050, cache_read_input_tokens: 300 },
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [500, 300, 0, 250],
    ],
    [
      "thoughts that its total alone tells of, as Google's endpoint in this dialect has them",
      {
        prompt_tokens: 1_000,
        completion_tokens: 50,
        total_tokens: 1_250,
        prompt_tokens_details: { cached_tokens: 400 },
      },
      [600, 400, 0, 250],
    ],
    ["thoughts and no answer", { prompt_tokens: 1_000, completion_tokens: 0, total_tokens: 1_250 }, [1_000, 0, 0, 250]],
    [
      "a cache larger than the prompt, without totals",
      { prompt_tokens: 100, completion_tokens: 50, prompt_tokens_details: { cached_tokens: 300 } },
      [0, 100, 0, 50],
    ],
    [
      "what is read and what is written of the cache beside the prompt",
      {
        ...{ prompt_tokens: 500, completion_tokens: 50, total_tokens: 1_050 },
        prompt_tokens_details: { cached_tokens: 300, cache_write_tokens: 200 },
      },
      [500, 300, 200, 50],
    ],
    [
      "more into the cache than there is of the prompt",
      {
        ...{ prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_050, cache_creation_input_tokens: 900 },
        prompt_tokens_details: { cached_tokens: 400 },
      },
      [0, 400, 600, 50],
    ],
    [
      "reasoning left out that is less than the rest, beside a cache",
      {
        ...{ prompt_tokens: 1_000, completion_tokens: 250, total_tokens: 1_450 },
        prompt_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [500, 400, 100, 450],
    ],
    [
      "as much reasoning left out as comes from the cache",
      {
        ...{ prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_250, cached_tokens: 200 },
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [800, 200, 0, 250],
    ],
    [
      "the cache beside the prompt, reasoning inside",
      {
        ...{ prompt_tokens: 500, completion_tokens: 250, total_tokens: 1_050, cache_read_input_tokens: 300 },
        completion_tokens_details: { reasoning_tokens: 200 },
      },
      [500, 300, 0, 250],
    ],
    [
      "nothing but reasoning, without totals",
      { prompt_tokens: 1_000, completion_tokens: 200, reasoning_tokens: 200 },
      [1_000, 0, 0, 200],
    ],
    [
      "details that are no counts",
      { prompt_tokens: 100, completion_tokens: 50, prompt_tokens_details: { cached_tokens: "3e1" }, cached_tokens: -5 },
      [100, 0, 0, 50],
    ],
    [
      "in text",
      {
        ...{ prompt_tokens: "1000", completion_tokens: "250", total_tokens: "1250" },
        prompt_tokens_details: { cached_tokens: "400" },
        completion_tokens_details: { reasoning_tokens: "200" },
      },
      [600, 400, 0, 250],
    ],
  ],
  messages: [
    [
      "a summary that the vendor made on top",
      {
        ...{ input_tokens: 600, output_tokens: 50 },
        iterations: [
          { type: "compaction", input_tokens: 900, cache_read_input_tokens: 70, output_tokens: 300 },
          { type: "message", input_tokens: 600, output_tokens: 50 },
        ],
      },
      [1_500, 70, 0, 350],
      { input_tokens: 900, output_tokens: 5 },
    ],
    [
      "another model's advice on top",
      {
        ...{ input_tokens: 1_000, output_tokens: 80 },
        iterations: [
          { type: "message", input_tokens: 400, output_tokens: 30 },
          { type: "advisor_message", model: "adviser", input_tokens: 700, output_tokens: 300 },
          { type: "message", input_tokens: 600, output_tokens: 50 },
        ],
      },
      [1_700, 0, 0, 380],
    ],
    [
      "a model that declined, and the one that took over",
      {
        ...{ input_tokens: 412, output_tokens: 50 },
        iterations: [
          { type: "message", model: "first", input_tokens: 408, output_tokens: 0 },
          { type: "fallback_message", model: "second", input_tokens: 412, output_tokens: 50 },
        ],
      },
      [412, 0, 0, 50],
    ],
    [
      "the prompt at the beginning",
      { output_tokens: 50 },
      [1_000, 400, 100, 50],
      { input_tokens: 1_000, cache_read_input_tokens: 400, cache_creation_input_tokens: 100, output_tokens: 1 },
    ],
    [
      "the prompt at the beginning, noughts at the end",
      { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 50 },
      [1_000, 400, 0, 50],
      { input_tokens: 1_000, cache_read_input_tokens: 400, output_tokens: 0 },
    ],
    [
      "the prompt and its cache at the beginning, a nought for the prompt alone at the end",
      { input_tokens: 0, output_tokens: 50 },
      [1_000, 400, 0, 50],
      { input_tokens: 1_000, cache_read_input_tokens: 400, output_tokens: 1 },
    ],
    [
      "more of a prompt at the end",
      { input_tokens: 200, cache_read_input_tokens: 1_300, output_tokens: 50 },
      [200, 1_300, 0, 50],
      { input_tokens: 1_000, output_tokens: 1 },
    ],
    ["all of it at the end", { input_tokens: 1_000, output_tokens: 50 }, [1_000, 0, 0, 50], { input_tokens: 0 }],
    [
      "a cache of five minutes and one of an hour",
      { output_tokens: 50 },
      [100, 300, 1_000, 50, 800],
      {
        ...{ input_tokens: 100, cache_read_input_tokens: 300, cache_creation_input_tokens: 1_000, output_tokens: 1 },
        cache_creation: { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 800 },
      },
    ],
    [
      "a cache of an hour, larger than all that is written",
      { cache_creation_input_tokens: 700, cache_creation: { ephemeral_1h_input_tokens: 900 }, output_tokens: 50 },
      [100, 0, 700, 50, 700],
      { input_tokens: 100, cache_creation_input_tokens: 700, output_tokens: 1 },
    ],
    [
      "what is written to the cache at the end alone",
      { cache_creation_input_tokens: 700, output_tokens: 50 },
      [100, 0, 700, 50],
      { input_tokens: 100, output_tokens: 50 },
    ],
    [
      "parts in the words of the chat dialect beside what is not of the cache",
      {
        ...{ input_tokens: 600, cache_read_input_tokens: 400, output_tokens: 50 },
        prompt_tokens_details: { cached_tokens: 400 },
      },
      [600, 400, 0, 50],
      { input_tokens: 1_000, output_tokens: 0 },
    ],
    [
      "for how long it is written at the end alone",
      { cache_creation: { ephemeral_1h_input_tokens: 800 }, output_tokens: 50 },
      [100, 0, 1_000, 50, 800],
      { input_tokens: 100, cache_creation_input_tokens: 1_000, output_tokens: 50 },
    ],
    [
      "in text",
      { output_tokens: "50" },
      [1_000, 400, 0, 50],
      { input_tokens: "1000", cache_read_input_tokens: "400", output_tokens: "1" },
    ],
  ],
  responses: [
    [
      "under the names of the chat dialect, as SGLang has them",
      {
        ...{ prompt_tokens: 1_000, completion_tokens: 250, total_tokens: 1_250, reasoning_tokens: 200 },
        prompt_tokens_details: { cached_tokens: 400 },
      },
      [600, 400, 0, 250],
    ],
    [
      "a part from the cache, reasoning inside",
      {
        ...{ input_tokens: 1_000, output_tokens: 250, total_tokens: 1_250 },
        input_tokens_details: { cached_tokens: 400 },
        output_tokens_details: { reasoning_tokens: 200 },
      },
      [600, 400, 0, 250],
    ],
    [
      "reasoning left out",
      {
        ...{ input_tokens: 1_000, output_tokens: 50, total_tokens: 1_250 },
        output_tokens_details: { reasoning_tokens: 200 },
      },
      [1_000, 0, 0, 250],
    ],
    [
      "thoughts that its total alone tells of",
      { input_tokens: 1_000, output_tokens: 50, total_tokens: 1_250, output_tokens_details: { reasoning_tokens: 0 } },
      [1_000, 0, 0, 250],
    ],
    [
      "the cache beside the prompt, larger than it",
      { input_tokens: 100, output_tokens: 50, total_tokens: 450, input_tokens_details: { cached_tokens: 300 } },
      [100, 300, 0, 50],
    ],
    [
      "a cache larger than the prompt",
      { input_tokens: 100, output_tokens: 50, input_tokens_details: { cached_tokens: 300 } },
      [0, 100, 0, 50],
    ],
    [
      "a part from the cache and a part into it",
      {
        ...{ input_tokens: 1_000, output_tokens: 50 },
        input_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
      },
      [500, 400, 100, 50],
    ],
    [
      "a part from the cache and a part into it, as Perplexity names them",
      {
        ...{ input_tokens: 1_000, output_tokens: 50, total_tokens: 1_050 },
        input_tokens_details: { cached_tokens: 400, cache_read_input_tokens: 400, cache_creation_input_tokens: 100 },
      },
      [500, 400, 100, 50],
    ],
    [
      "what Claude has written for an hour, as new-api says it",
      {
        input_tokens: 1_000,
        output_tokens: 50,
        total_tokens: 1_050,
        input_tokens_details: { cached_tokens: 100, cached_creation_tokens: 300 },
        ...{ claude_cache_creation_5_m_tokens: 100, claude_cache_creation_1_h_tokens: 200 },
      },
      [600, 100, 300, 50, 200],
    ],
    [
      "a part into the cache for twelve hours",
      {
        ...{ input_tokens: 1_000, output_tokens: 50 },
        input_tokens_details: {
          ...{ cached_tokens: 400, cache_write_tokens: 100 },
          cache_write_tokens_details: { ttl_30m_tokens: 40, ttl_12h_tokens: 60 },
        },
      },
      [500, 400, 100, 50, 60],
    ],
    [
      "more into the cache than there is of the prompt",
      {
        ...{ input_tokens: 1_000, output_tokens: 50 },
        input_tokens_details: { cached_tokens: 400, cache_write_tokens: 900 },
      },
      [0, 400, 600, 50],
    ],
    [
      "in text",
      { input_tokens: "1000", output_tokens: "50", input_tokens_details: { cached_tokens: "400" } },
      [600, 400, 0, 50],
    ],
  ],
  gemini: [
    [
      "thoughts beside the candidates",
      { promptTokenCount: 1_000, cachedContentTokenCount: 400, candidatesTokenCount: 50, thoughtsTokenCount: 200 },
      [600, 400, 0, 250],
    ],
    [
      "what tools brought in",
      { promptTokenCount: 1_000, toolUsePromptTokenCount: 70, candidatesTokenCount: 50 },
      [1_070, 0, 0, 50],
    ],
    [
      "a cache larger than the prompt and what tools brought in",
      { promptTokenCount: 100, toolUsePromptTokenCount: 70, cachedContentTokenCount: 300, candidatesTokenCount: 50 },
      [0, 170, 0, 50],
    ],
    [
      "in text",
      { promptTokenCount: "1000", cachedContentTokenCount: "400", candidatesTokenCount: "50" },
      [600, 400, 0, 50],
    ],
  ],
};

const records = (...all: Wire[]) => all.map((record) => `data: ${JSON.stringify(record)}\n\n`).join("");

/** An answer of a dialect that says a few words and counts this. */
const ANSWERS: Record<UpstreamDialectName, (mode: Mode, said: Wire, first: Wire) => ReturnType<typeof json>> = {
  chat(mode, usage) {
    const head = { id: "c1", created: 1, model: "m" };
    const choice = { index: 0, finish_reason: "stop" };
    if (mode === "blocking") {
      return json({ ...head, choices: [{ ...choice, message: { role: "assistant", content: SAID } }], usage });
    }
    const told = { ...head, choices: [{ ...choice, delta: { role: "assistant", content: SAID } }] };
    return sse(`${records(told, { ...head, choices: [], usage })}data: [DONE]\n\n`);
  },
  messages(mode, usage, first) {
    const head = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };
    if (mode === "blocking") {
      const content = [{ type: "text", text: SAID }];
      const told = Object.entries(usage).filter(([, count]) => count !== 0);
      return json({ ...head, content, stop_reason: "end_turn", usage: { ...first, ...Object.fromEntries(told) } });
    }
    return sse(
      records(
        { type: "message_start", message: { ...head, content: [], stop_reason: null, usage: first } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: SAID } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
        { type: "message_stop" },
      ),
    );
  },
  responses(mode, usage) {
    const content = [{ type: "output_text", text: SAID, annotations: [] }];
    const item = { id: "msg_1", type: "message", role: "assistant", status: "completed", content };
    const whole = { id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m", output: [item] };
    if (mode === "blocking") return json({ ...whole, usage });
    const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
    return sse(
      records(
        { type: "response.created", response: { ...whole, status: "in_progress", output: [] } },
        { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
        { type: "response.output_text.delta", ...place, delta: SAID },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { ...whole, usage } },
      ),
    );
  },
  gemini(mode, usageMetadata) {
    const content = { role: "model", parts: [{ text: SAID }] };
    const whole = { candidates: [{ content, finishReason: "STOP", index: 0 }], usageMetadata };
    return mode === "blocking" ? json(whole) : sse(records(whole));
  },
};

const PATHS: Record<UpstreamDialectName, (mode: Mode) => string> = {
  chat: () => "/v1/chat/completions",
  messages: () => "/v1/messages",
  responses: () => "/v1/responses",
  gemini: (mode) => `/v1beta/models/m:${mode === "blocking" ? "generateContent" : "streamGenerateContent"}`,
};

const DIALECTS = ["chat", "messages", "responses", "gemini"] as const;

let upstream: Upstream;
/** One for each dialect of vendors: an account may not look at a receipt for each row of the table at once. */
const gateways = new Map<UpstreamDialectName, TestApp>();
const gatewayOf = (dialect: UpstreamDialectName): TestApp => gateways.get(dialect) as TestApp;

async function startFor(dialect: (typeof DIALECTS)[number]): Promise<TestApp> {
  const gateway = await startApp({
    vendors: [
      {
        ...{ id: "vendor", name: dialect, dialect, auth: "bearer", apiKey: "k", models: "any", quirks: {} },
        baseUrl: `${upstream.url}${{ chat: "/v1", responses: "/v1", messages: "", gemini: "/v1beta" }[dialect]}`,
      },
    ],
    models: [{ id: `lab/${dialect}`, pricing: pricingOf(dialect), routes: [{ vendor: "vendor", model: "m" }] }],
    config: { plans: { paying: { requests_per_minute: 1_000_000, concurrent_generations: 1_000 } } },
  });
  gateway.store.database.run("UPDATE account SET plan = 'paying' WHERE id = ?", [gateway.accountId]);
  gateway.app.keys.reload();
  await gateway.app.book.deposit({ accountId: gateway.accountId, amountNano: DEPOSIT, reference: "first" });
  return gateway;
}

beforeAll(async () => {
  upstream = startUpstream();
  for (const dialect of DIALECTS) gateways.set(dialect, await startFor(dialect));
});
afterAll(async () => {
  for (const gateway of gateways.values()) {
    expect(gateway.app.book.verify()).toEqual([]);
    await gateway.stop();
  }
  expect(upstream.unexpected).toEqual([]);
  upstream.close();
});

const TABLE = DIALECTS.flatMap((dialect) =>
  CASES[dialect].flatMap(([name, said, paid, first = {}]) =>
    MODES.flatMap((mode) =>
      (["chat", "messages"] as const).map((client) => ({ dialect, name, said, paid, first, mode, client })),
    ),
  ),
);

test.each(TABLE)("$dialect counts $name: $client, $mode", async ({ dialect, said, paid, first, mode, client }) => {
  const gateway = gatewayOf(dialect);
  upstream.answer(PATHS[dialect](mode), ANSWERS[dialect](mode, said, first));
  const before = gateway.app.book.balance(gateway.accountId).postedNano;
  const body = {
    ...{ model: `lab/${dialect}`, max_tokens: 1_000, stream: mode === "stream" },
    messages: [{ role: "user", content: "Hello?" }],
  };
  const response = await gateway.post(client === "chat" ? "/v1/chat/completions" : "/v1/messages", body);
  const text = await response.text();
  expect([response.status, text.includes(SAID)]).toEqual([200, true]);
  const [input, cacheRead, cacheWrite, output, cacheWriteLong = 0] = paid;
  const row = gateway.rows().at(-1);
  expect(row).toMatchObject({ input, cacheRead, cacheWrite, cacheWriteLong, output, estimated: false, flags: 0 });
  const short = cacheWrite - cacheWriteLong;
  const written = BigInt(short) * 3_750n + BigInt(cacheWriteLong) * 6_000n;
  const cost = BigInt(input) * 3_000n + BigInt(cacheRead) * 300n + written + BigInt(output) * 15_000n;
  expect([row?.costNano, before - gateway.app.book.balance(gateway.accountId).postedNano]).toEqual([cost, cost]);
  const headers = { authorization: `Bearer ${gateway.key}` };
  const told = await gateway.call(`/v1/usage/${row?.requestId}`, { headers });
  const receipt = (await told.json()) as { lines: Wire[]; cost: string };
  const buckets = receipt.lines.map(({ bucket, count }) => [bucket, count]);
  const long = cacheWriteLong > 0 ? [["cache_write_1h", cacheWriteLong]] : [];
  expect(buckets).toEqual([
    ...[
      ["input", input],
      ["cache_read", cacheRead],
      ["cache_write", short],
    ],
    ...[...long, ["output", output]],
  ]);
  const lines = receipt.lines.reduce((sum, line) => sum + Number(line["usd"]), 0);
  expect(lines).toBeCloseTo(Number(receipt.cost), 9);
  // A plan lets an account look so often: those of an hour alone.
  if (cacheWriteLong === 0) return;
  const csv = await (await gateway.call("/v1/usage?format=csv", { headers })).text();
  const [names = [], ...rows] = csv.split("\r\n").map((line) => line.split(","));
  const own = rows.find(([id]) => id === row?.requestId) ?? [];
  const counts = ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cache_write_1h_tokens"];
  const exported = counts.map((name) => Number(own[names.indexOf(name)]));
  expect(exported).toEqual([input, cacheRead, cacheWrite, output, cacheWriteLong]);
});

test.each([
  {
    dialect: "messages",
    marked: (ttl: string) => ({ cache_control: { type: "ephemeral", ttl } }),
    times: ["5m", "1h"],
  },
  { dialect: "responses", marked: (ttl: string) => ({ prompt_cache_options: { ttl } }), times: ["30m", "12h"] },
] as const)(
  "what is to be kept for longer than usual is set aside for at its own price: $dialect",
  async ({ dialect, marked, times }) => {
    const gateway = gatewayOf(dialect);
    const [, said, , first = {}] = CASES[dialect][0] as Case;
    // Read in whole: of a longer one places are looked at that are chosen at random, and its estimate is another one each time.
    const prompt = "word ".repeat(300);
    const { asked, output } = {
      messages: { asked: { max_tokens: 10, messages: [{ role: "user", content: prompt }] }, output: 10 },
      responses: { asked: { max_output_tokens: 16, input: prompt }, output: 16 },
    }[dialect];
    const held: bigint[] = [];
    for (const ttl of times) {
      upstream.answer(PATHS[dialect]("blocking"), () => {
        held.push(gateway.app.book.balance(gateway.accountId).heldNano);
        return ANSWERS[dialect]("blocking", said, first);
      });
      const answer = await gateway.post(PATHS[dialect]("blocking"), {
        model: `lab/${dialect}`,
        ...asked,
        ...marked(ttl),
      });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(SAID)]);
    }
    // A token of the prompt costs 6,000 nano there where it costs 3,750 otherwise.
    const made = output * 15_000;
    const tokens = (Number(held[0]) - made) / 3_750;
    expect(tokens).toBeGreaterThan(300);
    expect(held.map(Number)).toEqual([tokens * 3_750 + made, tokens * 6_000 + made]);
  },
);

/** Each client's own way to ask, and what its dialect counts of the vendor's 1,000 read, 400 of them from the cache, and 50 made. */
const ASKING = {
  chat: {
    asked: { messages: [{ role: "user", content: "Hello?" }] },
    read: "prompt_tokens",
    made: "completion_tokens",
  },
  messages: {
    ...{ asked: { max_tokens: 1_000, messages: [{ role: "user", content: "Hello?" }] } },
    ...{ read: "input_tokens", made: "output_tokens" },
  },
  responses: { asked: { input: "Hello?" }, read: "input_tokens", made: "output_tokens" },
} as const;

const SAME = (["chat", "messages", "responses"] as const).flatMap((dialect) =>
  MODES.map((mode) => ({ dialect, mode })),
);

test.each(SAME)(
  "counts in text are numbers to a client of the same dialect: $dialect, $mode",
  async ({ dialect, mode }) => {
    const { asked, read, made } = ASKING[dialect];
    const [, said, , first = {}] = CASES[dialect].find(([name]) => name === "in text") as Case;
    upstream.answer(PATHS[dialect](mode), ANSWERS[dialect](mode, said, first));
    const wish = dialect === "chat" && mode === "stream" ? { stream_options: { include_usage: true } } : {};
    const body = { model: `lab/${dialect}`, stream: mode === "stream", ...asked, ...wish };
    const text = await (await gatewayOf(dialect).post(PATHS[dialect](mode), body)).text();
    expect(text).toMatch(new RegExp(`"${read}": ?1000\\b`));
    expect(text).toMatch(new RegExp(`"${made}": ?${dialect === "chat" ? 250 : 50}\\b`));
    expect(text).not.toMatch(/_tokens": ?"/);
  },
);

test.each(SAME.filter(({ dialect }) => dialect !== "messages"))(
  "what a vendor counts beside its output is inside it to a client of the same dialect: $dialect, $mode",
  async ({ dialect, mode }) => {
    const { asked, read, made } = ASKING[dialect];
    const said = { [read]: 1_000, [made]: 50, total_tokens: 1_250 };
    upstream.answer(PATHS[dialect](mode), ANSWERS[dialect](mode, said, {}));
    const wish = dialect === "chat" && mode === "stream" ? { stream_options: { include_usage: true } } : {};
    const body = { model: `lab/${dialect}`, stream: mode === "stream", ...asked, ...wish };
    const text = await (await gatewayOf(dialect).post(PATHS[dialect](mode), body)).text();
    expect(text).toMatch(new RegExp(`"${made}": ?250,"total_tokens": ?1250`));
  },
);

test("counts inside the choice that ends, as Moonshot has them, are the vendor's own", async () => {
  const head = { id: "c1", created: 1, model: "m" };
  const usage = { prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_050, cached_tokens: 400 };
  const said = { ...head, choices: [{ index: 0, delta: { role: "assistant", content: SAID }, finish_reason: null }] };
  const end = { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop", usage }] };
  const gateway = gatewayOf("chat");
  for (const client of ["chat", "messages"] as const) {
    upstream.answer("/v1/chat/completions", sse(`${records(said, end)}data: [DONE]\n\n`));
    const { asked } = ASKING[client];
    const wish = client === "chat" ? { stream_options: { include_usage: true } } : {};
    const body = { model: "lab/chat", stream: true, ...asked, ...wish };
    const text = await (await gateway.post(PATHS[client]("stream"), body)).text();
    expect(gateway.rows().at(-1)).toMatchObject({ input: 600, cacheRead: 400, output: 50, estimated: false, flags: 0 });
    expect(text).toContain(client === "chat" ? '"usage":{"prompt_tokens":1000,' : '"output_tokens":50');
  }
});

test.each([
  [400, 100, { input: 500, cacheRead: 400, cacheWrite: 100 }],
  [1_002, 0, { input: 0, cacheRead: 1_002, cacheWrite: 0 }],
])(
  "of a prompt counted whole at first, %p read and %p written are told at the end in two dialects' words (DashScope)",
  async (read, written, counts) => {
    const said = {
      ...{ cache_creation_input_tokens: written, cache_read_input_tokens: read, output_tokens: 50 },
      prompt_tokens_details: { cached_tokens: read },
    };
    const gateway = gatewayOf("messages");
    for (const client of ["chat", "messages"] as const) {
      upstream.answer("/v1/messages", ANSWERS.messages("stream", said, { input_tokens: 1_000, output_tokens: 0 }));
      const body = { model: "lab/messages", max_tokens: 1_000, stream: true, messages: ASKING.messages.asked.messages };
      expect(await (await gateway.post(PATHS[client]("stream"), body)).text()).toContain(SAID);
      expect(gateway.rows().at(-1)).toMatchObject({ ...counts, output: 50, estimated: false, flags: 0 });
    }
  },
);

test("a stream that begins again takes back no count of its first beginning", async () => {
  const head = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null };
  const start = (usage: Wire) => ({ type: "message_start", message: { ...head, usage } });
  const counts = { input_tokens: 100, cache_read_input_tokens: 400, cache_creation_input_tokens: 1_000 };
  const noughts = { cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  const [long, none] = [800, 0].map((ephemeral_1h_input_tokens) => ({ cache_creation: { ephemeral_1h_input_tokens } }));
  const stream = records(
    start({ ...counts, ...long, output_tokens: 7 }),
    start({ ...counts, ...noughts, ...none, output_tokens: 1 }),
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: SAID } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 50 } },
    { type: "message_stop" },
  );
  const gateway = gatewayOf("messages");
  for (const client of ["chat", "messages"] as const) {
    upstream.answer("/v1/messages", sse(stream));
    const body = { model: "lab/messages", max_tokens: 1_000, stream: true, messages: ASKING.messages.asked.messages };
    expect(await (await gateway.post(PATHS[client]("stream"), body)).text()).toContain(SAID);
    const row = { input: 100, cacheRead: 400, cacheWrite: 1_000, cacheWriteLong: 800, output: 50, flags: 0 };
    expect(gateway.rows().at(-1)).toMatchObject(row);
  }
});

test.each(MODES)("a reply that stops behind its summary costs the summary alone: %s", async (mode) => {
  const head = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };
  const said = { input_tokens: 0, output_tokens: 0 };
  const usage = { ...said, iterations: [{ type: "compaction", input_tokens: 900, output_tokens: 300 }] };
  const content = { type: "compaction", content: "They greeted each other." };
  const ending = { stop_reason: "compaction", stop_sequence: null };
  const stream = records(
    { type: "message_start", message: { ...head, content: [], usage: { input_tokens: 900, output_tokens: 5 } } },
    { type: "content_block_start", index: 0, content_block: { type: "compaction", content: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "compaction_delta", content: content.content } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: ending, usage },
    { type: "message_stop" },
  );
  upstream.answer(
    "/v1/messages",
    mode === "blocking" ? json({ ...head, ...ending, content: [content], usage }) : sse(stream),
  );
  const body = { model: "lab/messages", max_tokens: 1_000, stream: mode === "stream" };
  const gateway = gatewayOf("messages");
  const response = await gateway.post("/v1/messages", { ...body, messages: [{ role: "user", content: "Hello?" }] });
  const text = await response.text();
  expect([response.status, text.includes(content.content)]).toEqual([200, true]);
  // What the client reads is what its vendor wrote.
  expect(text).toContain(JSON.stringify(usage));
  expect(gateway.rows().at(-1)).toMatchObject({ input: 900, output: 300, estimated: false, flags: 0 });
});
