import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import type { ListedModel } from "../../src/canon/listed-model.ts";
import { listModels } from "../../src/vendors/models-list.ts";
import { probeLocal } from "../../src/vendors/probe-local.ts";
import type { Vendor, VendorRow } from "../../src/vendors/vendor.ts";
import { listed } from "../support/listed.ts";
import { html, json, neverAnswer, startUpstream } from "../support/upstream.ts";

const upstream = startUpstream();
afterAll(() => upstream.close());
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});

const never = new AbortController().signal;
const vendorAt = (more: Partial<Vendor> = {}): Vendor => ({
  id: "lab",
  name: "Lab",
  dialect: "chat",
  baseUrl: `${upstream.url}/v1`,
  auth: "bearer",
  apiKey: "sk-lab",
  models: "discover",
  quirks: {},
  ...more,
});

describe("listModels", () => {
  test.each([
    ["data", { object: "list", data: [{ id: "a" }, { id: "b" }] }, ["a", "b"]],
    ["a bare array (Together)", [{ id: "a" }, { id: "b" }], ["a", "b"]],
    ["models by name", { models: [{ name: "a" }, { model: "b", name: "B" }] }, ["a", "b"]],
    ["plain names", ["a", "b"], ["a", "b"]],
    ["Ollama without models", { object: "list", data: null }, []],
    ["none", { data: [] }, []],
    ["twice the same", { data: [{ id: "b" }, { id: "a" }, { id: "b" }] }, ["b", "a"]],
  ])("reads %s", async (_name, body, names) => {
    upstream.answer("/v1/models", json(body));
    expect(await listModels(vendorAt(), never, { userAgent: "sluice/1" })).toEqual(listed(...names));
    expect(upstream.calls.map((call) => [call.method, call.text, call.headers["user-agent"]])).toEqual([
      ["GET", "", "sluice/1"],
    ]);
    expect(upstream.calls[0]?.headers["authorization"]).toBe("Bearer sk-lab");
  });

  test("leaves out what is no name, and what says that it neither chats nor draws", async () => {
    const data = [
      { id: "ok/model:free" },
      { id: "" },
      { id: 7 },
      null,
      { id: "Two Words (v2).gguf" },
      { id: " led" },
      { id: "trailed " },
      { id: "tab\tbed" },
      { id: "line\nbreak" },
      { id: "x".repeat(201) },
      { id: "y".repeat(200) },
      { id: "flux", type: "image" },
      { id: "e5", type: "embedding" },
      { id: "dall", mode: "image_generation" },
      ...["image_edit", "embedding", "audio_speech", "realtime", "video_generation"].map((mode) => ({
        id: mode,
        mode,
      })),
      { id: "chatty", type: "chat" },
      { id: "codex", mode: "responses" },
      { id: "mistral-embed", capabilities: { completion_chat: false } },
      { id: "no-chat", supports_chat: false },
      { id: "flumina", supports_chat: false, kind: "FLUMINA_BASE_MODEL" },
      { id: "painter", architecture: { output_modalities: ["image"] } },
      { id: "singer", architecture: { output_modalities: ["audio"] } },
      { id: "both", architecture: { output_modalities: ["image", "text"] } },
      // Xinference
      ...["embedding", "rerank", "audio", "video"].map((model_type) => ({ id: model_type, model_type })),
      { id: "kolors", model_type: "image" },
      { id: "qwen", model_type: "LLM" },
      // Lemonade
      ...["embeddings", "reranking", "transcription", "tts"].map((label) => ({ id: label, labels: ["hot", label] })),
      { id: "sd-turbo", labels: ["image"] },
      { id: "user.gemma", labels: ["custom", "transcription", "chat-transcription"] },
      // Speaches
      ...["automatic-speech-recognition", "text-to-speech"].map((task) => ({ id: task, owned_by: "x", task })),
      // Infinity
      { id: "bge-m3", owned_by: "infinity", capabilities: ["embed"] },
      { id: "clip", owned_by: "infinity", capabilities: ["image_embed", "embed"] },
    ];
    upstream.answer("/v1/models", json({ data }), json({ data }));
    const draws = (name: string): ListedModel => ({ name, draws: true });
    expect(await listModels(vendorAt(), never)).toEqual([
      ...listed("ok/model:free", "Two Words (v2).gguf", "y".repeat(200)),
      ...[
        draws("flux"),
        draws("dall"),
        ...listed("chatty", "codex"),
        draws("flumina"),
        draws("painter"),
        ...listed("both"),
        draws("kolors"),
        ...listed("qwen"),
        draws("sd-turbo"),
        ...listed("user.gemma"),
      ],
    ]);
    // The messages dialect has no protocol of images.
    const talkers = await listModels(vendorAt({ dialect: "messages", baseUrl: upstream.url }), never);
    expect(talkers).toEqual(
      listed("ok/model:free", "Two Words (v2).gguf", "y".repeat(200), "chatty", "codex", "both", "qwen", "user.gemma"),
    );
  });

  test.each([
    ["chat", `${upstream.url}/v1`, "output_modalities=all"],
    ["messages", upstream.url, "limit=1000&output_modalities=all"],
  ] as const)("OpenRouter is asked for those that draw too, in the dialect %s", async (dialect, baseUrl, query) => {
    upstream.answer("/v1/models", json({ data: [] }));
    await listModels(vendorAt({ id: "openrouter", dialect, baseUrl }), never);
    expect(upstream.calls.map((call) => call.query)).toEqual([query]);
  });

  test.each([
    [
      "OpenRouter",
      {
        context_length: 200_000,
        architecture: { input_modalities: ["text", "image", "file"], output_modalities: ["text"] },
        supported_parameters: ["max_tokens", "reasoning", "tools"],
      },
      { contextLength: 200_000, tools: true, vision: true, pdf: true, reasoning: "reasoning-object" },
    ],
    [
      "OpenRouter of one that reasons",
      {
        supported_parameters: ["reasoning"],
        reasoning: { mandatory: false, supported_efforts: ["max", "high", "low"], default_effort: "high" },
      },
      { reasoning: "reasoning-object", efforts: { levels: ["none", "low", "high", "max"], default: "high" } },
    ],
    [
      "OpenRouter of one that has to reason",
      {
        supported_parameters: ["reasoning"],
        reasoning: { mandatory: true, supported_efforts: null, default_effort: "medium" },
      },
      { reasoning: "reasoning-object", mustReason: true },
    ],
    ["vLLM", { max_model_len: 32_768 }, { contextLength: 32_768 }],
    [
      "OpenRouter's hosts",
      {
        ...{ input_modalities: ["text", "image", "file"], output_modalities: ["text"], supported_features: ["tools"] },
        ...{ context_length: 131_072, max_output_length: 32_768 },
      },
      { contextLength: 131_072, maxOutputTokens: 32_768, tools: true, vision: true, pdf: true },
    ],
    [
      "SambaNova",
      { context_length: 131_072, max_completion_tokens: 7168 },
      { contextLength: 131_072, maxOutputTokens: 7168 },
    ],
    [
      "Featherless of a model whose answer may be as long as all it reads",
      { context_length: 32_768, max_completion_tokens: 32_768 },
      { contextLength: 32_768 },
    ],
    [
      "Vercel's gateway",
      { type: "language", context_window: 200_000, max_tokens: 64_000, tags: ["reasoning", "tool-use", "vision"] },
      { contextLength: 200_000, tools: true, vision: true },
    ],
    [
      "Hugging Face's router",
      {
        architecture: { input_modalities: ["text", "image"], output_modalities: ["text"] },
        providers: [
          { provider: "a", status: "live", context_length: 262_144, supports_tools: true },
          { provider: "b", status: "live", context_length: 131_072, supports_tools: false },
          { provider: "c", status: "live" },
        ],
      },
      { contextLength: 131_072, tools: true, vision: true },
    ],
    [
      "exo",
      { context_length: 262_144, capabilities: ["text", "thinking", "vision"] },
      { contextLength: 262_144, vision: true },
    ],
    ["TabbyAPI", { parameters: { max_seq_len: 65_536, draft: null } }, { contextLength: 65_536 }],
    [
      "Xinference",
      { model_type: "LLM", context_length: 40_960, model_ability: ["chat", "tools", "vision"] },
      { contextLength: 40_960, tools: true, vision: true },
    ],
    [
      "Lemonade",
      { context_length: 8192, max_context_window: 131_072, labels: ["vision", "tool-calling"] },
      { contextLength: 8192, tools: true, vision: true },
    ],
    ["llama.cpp", { meta: { n_ctx: 16_384, n_ctx_train: 131_072 } }, { contextLength: 16_384 }],
    ["llama.cpp's router", { context_length: 131_072, meta: { n_ctx: 16_384 } }, { contextLength: 16_384 }],
    ["llama.cpp's router of what it has not loaded", { context_length: 131_072 }, { contextLength: 131_072 }],
    [
      "Mistral",
      { max_context_length: 128_000, capabilities: { completion_chat: true, function_calling: true, vision: false } },
      { contextLength: 128_000, tools: true },
    ],
    [
      "Fireworks",
      { context_length: 131_072, supports_chat: true, supports_tools: true, supports_image_input: true },
      { contextLength: 131_072, tools: true, vision: true },
    ],
    [
      "Anthropic",
      {
        max_input_tokens: 1_000_000,
        capabilities: { image_input: { supported: true }, pdf_input: { supported: true } },
      },
      { contextLength: 1_000_000, vision: true, pdf: true },
    ],
    [
      "another gateway of this kind",
      {
        ...{ context_length: 200_000, max_output_tokens: 64_000, capabilities: { vision: true, tools: true } },
        reasoning_efforts: { levels: ["low", "high"], default: "high" },
      },
      {
        ...{ contextLength: 200_000, maxOutputTokens: 64_000, tools: true, vision: true },
        efforts: { levels: ["low", "high"], default: "high" },
      },
    ],
    ["nobody (levels)", { max_output_tokens: "9", reasoning_efforts: { levels: ["low", 3], default: "low" } }, {}],
    ["nobody (default)", { reasoning_efforts: { levels: ["low"], default: "high" } }, {}],
    [
      "nobody",
      {
        context_length: -1,
        max_model_len: "4096",
        supported_parameters: "tools",
        architecture: [],
        meta: { n_ctx: 0 },
      },
      {},
    ],
  ])("reads what its list says of a model as %s does", async (_who, said, known) => {
    upstream.answer("/v1/models", json({ data: [{ id: "m", ...said }] }));
    expect(await listModels(vendorAt(), never)).toEqual([{ name: "m", ...known } as ListedModel]);
  });

  test("follows the messages dialect's pages", async () => {
    upstream.answer(
      "/v1/models",
      json({ data: [{ id: "a" }], has_more: true, last_id: "a&b" }),
      json({ data: [{ id: "b" }], has_more: false, last_id: "b" }),
    );
    const vendor = vendorAt({
      dialect: "messages",
      baseUrl: upstream.url,
      auth: "x-api-key",
      headers: { "anthropic-version": "2023-06-01" },
    });
    expect(await listModels(vendor, never)).toEqual(listed("a", "b"));
    expect(upstream.calls.map((call) => call.query)).toEqual(["limit=1000", "limit=1000&after_id=a%26b"]);
    expect(upstream.calls[1]?.headers).toMatchObject({ "x-api-key": "sk-lab", "anthropic-version": "2023-06-01" });
  });

  test("a server that repeats its first page for ever is asked twice, no more", async () => {
    upstream.always("/v1/models", json({ data: [{ id: "a" }], has_more: true, last_id: "a" }));
    expect(await listModels(vendorAt(), never)).toEqual(listed("a"));
    expect(upstream.calls.length).toBe(2);
  });

  test("keeps fifty thousand names", async () => {
    upstream.answer("/v1/models", json({ data: Array.from({ length: 50_050 }, (_, index) => ({ id: `m${index}` })) }));
    const models = await listModels(vendorAt(), never);
    expect([models.length, models.at(-1)?.name]).toEqual([50_000, "m49999"]);
  });

  test("of 22,000 names in 8 MB, as Featherless has it, is read", async () => {
    const about = {
      is_gated: false,
      model_class: "llama31-8b-16k",
      description: "x".repeat(250),
      context_length: 32_768,
    };
    upstream.answer(
      "/v1/models",
      json({ data: Array.from({ length: 22_000 }, (_, at) => ({ id: `m${at}`, ...about })) }),
    );
    const models = await listModels(vendorAt(), never);
    expect([models.length, models.at(-1)]).toEqual([22_000, { name: "m21999", contextLength: 32_768 }]);
  });

  test.each([
    ["a page", html(200), "upstream_error"],
    ["something else", json({ hello: "world" }), "upstream_error"],
    ["more than 16 MiB", json({ data: [], padding: "x".repeat(16 * 1024 * 1024) }), "upstream_error"],
    ["a refused key", json({ error: { message: "sk-lab is wrong" } }, { status: 401 }), "upstream_auth"],
  ])("refuses %s", async (_name, answer, code) => {
    upstream.answer("/v1/models", answer);
    const thrown = await listModels(vendorAt(), never).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(GatewayError);
    expect((thrown as GatewayError).code).toBe(code as GatewayError["code"]);
    expect((thrown as GatewayError).message).not.toContain("sk-lab");
  });

  const keysAsked = () => upstream.calls.map(({ headers }) => headers["authorization"]);
  const two = () => vendorAt({ apiKeys: ["sk-lab", "sk-second"] });

  test.each([
    ["is refused", 401],
    ["may not see the list", 403],
    ["has no credit", 402],
    ["is limited", 429],
  ])("a key that %s leaves the next one to ask", async (_what, status) => {
    upstream.answer("/v1/models", json({ error: { message: "No" } }, { status }));
    upstream.answer("/v1/models", json({ data: [{ id: "a" }] }));
    expect(await listModels(two(), never)).toEqual(listed("a"));
    expect(keysAsked()).toEqual(["Bearer sk-lab", "Bearer sk-second"]);
  });

  test("each key is asked with once, and what no key can mend is not asked twice", async () => {
    upstream.always("/v1/models", json({ error: { message: "No" } }, { status: 401 }));
    await expect(listModels(two(), never)).rejects.toMatchObject({ code: "upstream_auth" });
    expect(keysAsked()).toEqual(["Bearer sk-lab", "Bearer sk-second"]);
    upstream.reset();
    upstream.always("/v1/models", json({ error: { message: "No" } }, { status: 500 }));
    await expect(listModels(two(), never)).rejects.toMatchObject({ code: "upstream_error" });
    expect(keysAsked()).toEqual(["Bearer sk-lab"]);
  });

  test("has its own deadline, and the caller's abort stays the caller's", async () => {
    upstream.always("/v1/models", neverAnswer());
    const late = await listModels(vendorAt(), never, { timeoutMs: 20 }).catch((error: unknown) => error);
    expect((late as GatewayError).code).toBe("upstream_unreachable");
    const reason = new Error("stopping");
    await expect(listModels(vendorAt(), AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

describe("probeLocal", () => {
  const rowAt = (id: string, baseUrl: string): VendorRow => ({
    id,
    name: id,
    dialect: "chat",
    baseUrl,
    auth: "none",
    models: "discover",
    quirks: {},
    local: true,
  });

  test("gives the servers that answer with a model list, in order, and only those; rows that are not local are not asked", async () => {
    upstream.answer("/one/models", json({ data: [{ id: "tiny" }, { id: "small" }] }));
    upstream.answer("/two/models", html(200));
    upstream.answer("/three/models", neverAnswer());
    upstream.answer("/four/models", json({ object: "list", data: null }));
    const { local: _, ...remote } = rowAt("remote", `${upstream.url}/remote`);
    const found = await probeLocal(
      [
        rowAt("one", `${upstream.url}/one`),
        rowAt("two", `${upstream.url}/two`),
        rowAt("three", `${upstream.url}/three`),
        rowAt("four", `${upstream.url}/four`),
        rowAt("closed", "http://127.0.0.1:1/v1"),
        remote,
      ],
      // Those that answer have to be in time as well, on a machine that stands still for a moment.
      { timeoutMs: 1_000 },
    );
    expect(found.map(({ vendor, models }) => [vendor.id, models])).toEqual([
      ["one", listed("tiny", "small")],
      ["four", []],
    ]);
    expect(Object.keys(found[0]?.vendor ?? {})).not.toContain("local");
    expect(upstream.calls.map((call) => call.path).toSorted()).toEqual([
      "/four/models",
      "/one/models",
      "/three/models",
      "/two/models",
    ]);
  });

  test.each([
    ["is passed over where something else lives there", html(200), "old"],
    ["comes before the older one", json({ data: [{ id: "new" }] }), "new"],
  ])("of a server that may be at two ports the newer one %s", async (_name, newer, model) => {
    upstream.answer("/newer/models", newer);
    upstream.answer("/older/models", json({ data: [{ id: "old" }] }));
    const rows = ["newer", "older"].map((path) => rowAt("one", `${upstream.url}/${path}`));
    const found = await probeLocal(rows, { timeoutMs: 5_000 });
    expect(found.map(({ vendor, models }) => [vendor.id, models])).toEqual([["one", listed(model)]]);
  });

  test("one that is at work is waited for a while", async () => {
    upstream.answer("/busy/models", { ...json({ data: [{ id: "tiny" }] }), headersAfter: Bun.sleep(500) });
    const [found] = await probeLocal([rowAt("busy", `${upstream.url}/busy`)]);
    expect(found?.models).toEqual(listed("tiny"));
  });

  test("an address where nobody says yes or no is given up in time", async () => {
    expect(await probeLocal([rowAt("dark", "http://192.0.2.1:81/v1")], { timeoutMs: 50 })).toEqual([]);
  });
});
