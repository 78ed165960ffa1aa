import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Writer } from "../../src/db/writer.ts";
import { PLAIN_MS } from "../../src/relay/lessons/plain-servers.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";
import { PNG } from "../vendors/image-lab.ts";

type Wire = Record<string, unknown>;

const REPLY = {
  ...{ id: "resp_1", object: "response", status: "completed", model: "m" },
  output: [{ type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "ok" }] }],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
};
const user = { type: "message", role: "user", content: "Hi" };
const custom = { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "s: X" } };
/** What Codex sends that only OpenAI knows. */
const ODD: Wire = { input: [{ type: "message", role: "developer", content: "Be brief." }, user], tools: [custom] };
const PLAIN: Wire = { input: [user], tools: [{ type: "function", name: "f", parameters: {} }] };

const kindsIn = (body: Wire) => [
  ...(body["input"] as Wire[]).map(({ role }) => role),
  ...((body["tools"] ?? []) as Wire[]).map(({ type }) => type),
];
const AS_IT_CAME = ["developer", "user", "custom"];
const PLAINLY = ["user", "function"];

const FORCED_F = { type: "tool", name: "f" };

describe("a responses server of which nothing is known", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const clock = manualClock();

  beforeAll(async () => {
    upstream = startUpstream();
    const all = { ...vendorAt(upstream, "responses", "all"), quirks: { customTools: true } };
    const thinker = (vendor: string, name = "thinker") => ({
      ...{ id: `${vendor}/${name}`, pricing: "free" as const, routes: [{ vendor, model: name }] },
      ...{ reasoning_efforts: { levels: ["low", "high"], default: "low" }, reasoning: { form: "effort" as const } },
    });
    const models = [thinker("lab"), thinker("all"), thinker("all", "unproven")];
    gateway = await startApp({ vendors: [vendorAt(upstream, "responses", "lab"), all], models, clock });
  });
  afterEach(async () => {
    upstream.reset();
    await clock.advance(PLAIN_MS);
  });
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const refuse = (message = "tools[0].type: unsupported tool type custom") =>
    json({ error: { message, type: "invalid_request_error" } }, { status: 400 });
  const refusing = (isTaken: (body: Wire) => boolean) =>
    upstream.always("/v1/responses", ({ json: body }) => (isTaken(body as Wire) ? json(REPLY) : refuse()));
  const takesFunctions = (body: Wire) => !kindsIn(body).some((kind) => kind === "custom" || kind === "developer");
  const ask = (body: Wire, vendor = "lab", key?: string) =>
    gateway.post(
      "/v1/responses",
      { model: `${vendor}/m`, ...body },
      key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
    );
  const seen = () => upstream.calls.map((call) => kindsIn(call.json as Wire));

  test("is told all as it came; what it refuses is told again plainly, and so are the next ones at once, for a while", async () => {
    refusing(takesFunctions);
    const response = await ask(ODD);
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(response.headers.get("x-sluice-dropped")).toBe("tools[0].format");
    expect(seen()).toEqual([AS_IT_CAME, PLAINLY]);
    expect((await ask(ODD)).status).toBe(200);
    expect(seen().slice(2)).toEqual([PLAINLY]);
    await clock.advance(PLAIN_MS);
    expect((await ask(ODD)).headers.get("x-sluice-attempts")).toBe("2");
    expect(seen().slice(3)).toEqual([AS_IT_CAME, PLAINLY]);
  });

  test("takes what it takes as it came", async () => {
    refusing(() => true);
    const response = await ask(ODD);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(seen()).toEqual([AS_IT_CAME]);
  });

  test("refuses for good what it refuses plainly told, and nothing is learnt of that", async () => {
    refusing(() => false);
    const before = gateway.rows().length;
    for (const round of [0, 1]) {
      expect((await ask(ODD)).status).toBe(400);
      expect(seen().slice(round * 2)).toEqual([AS_IT_CAME, PLAINLY]);
    }
    expect(gateway.rows()).toHaveLength(before);
  });

  test("is asked once for what every server knows, and so is one whose row says that it knows all", async () => {
    refusing(() => false);
    expect((await ask(PLAIN)).status).toBe(400);
    expect((await ask(ODD, "all")).status).toBe(400);
    expect(seen()).toEqual([PLAINLY, AS_IT_CAME]);
  });

  /** The gateway asks for one of its own accord, so that clients of other dialects see what was thought. */
  test.each([
    ["all", "Your organization must be verified to generate reasoning summaries. Please verify it."],
    ["lab", "Unsupported parameter: 'reasoning.summary' is not supported with this model."],
  ])(
    "%s refuses a summary of its reasoning that no client asked for: it is asked for none, for a while",
    async (vendor, message) => {
      const refused = refuse(message);
      const summaryIn = (body: unknown) => (body as { reasoning?: Wire }).reasoning?.["summary"];
      upstream.always("/v1/responses", ({ json: body }) => (summaryIn(body) === "auto" ? refused : json(REPLY)));
      const summaries = () => upstream.calls.map((call) => summaryIn(call.json));
      const say = async (path: string, body: Wire) => {
        const response = await gateway.post(path, { model: `${vendor}/thinker`, ...body });
        return [response.status, response.headers.get("x-sluice-dropped")];
      };
      const thinking = { messages: [{ role: "user", content: "Hi" }], reasoning_effort: "high" };
      for (const _ of [0, 1]) expect(await say("/v1/chat/completions", thinking)).toEqual([200, null]);
      expect(summaries()).toStrictEqual(["auto", undefined, undefined]);
      expect(upstream.calls.map((call) => (call.json as Wire)["reasoning"])).toMatchObject(
        Array(3).fill({ effort: "high" }),
      );
      // Of what else it knows nothing is learnt by that.
      expect(await say("/v1/responses", ODD)).toEqual([200, null]);
      expect(seen().slice(3)).toEqual([AS_IT_CAME]);
      // Who asks for one is told that there is none.
      expect(await say("/v1/responses", { input: "Hi", reasoning: { effort: "high", summary: "auto" } })).toEqual([
        400,
        null,
      ]);
      expect(summaries().slice(4)).toEqual(["auto"]);
      await clock.advance(PLAIN_MS);
      expect(await say("/v1/chat/completions", thinking)).toEqual([200, null]);
      expect(summaries().slice(5)).toStrictEqual(["auto", undefined]);
    },
  );

  test("a model that gives no proof of what it thought is not asked for any, for a while", async () => {
    const includes = (body: unknown) => (body as Wire)["include"];
    const refused = refuse("Encrypted content is not supported with this model.");
    upstream.always("/v1/responses", ({ json: body }) => (includes(body) ? refused : json(REPLY)));
    const say = async (path: string, body: Wire) => {
      const response = await gateway.post(path, { model: "all/unproven", ...body });
      return [response.status, response.headers.get("x-sluice-dropped")];
    };
    const thinking = { messages: [{ role: "user", content: "Hi" }], reasoning_effort: "high" };
    expect(await say("/v1/chat/completions", thinking)).toEqual([200, null]);
    const before = upstream.calls.length;
    expect(await say("/v1/chat/completions", thinking)).toEqual([200, null]);
    const own = { input: "Hi", reasoning: { effort: "high" }, include: ["reasoning.encrypted_content"] };
    expect(await say("/v1/responses", own)).toEqual([200, "include"]);
    expect(upstream.calls.slice(before).map((call) => (call.json as Wire)["reasoning"])).toMatchObject([
      ...[{ effort: "high" }, { effort: "high" }],
    ]);
  });

  test("what one account's requests have shown changes no other's", async () => {
    refusing(takesFunctions);
    await ask(ODD);
    const { app, store } = gateway;
    const writer = new Writer(store, clock);
    const other = await new Accounts(store, writer, app.keys, clock).create({ name: "other", plan: "local" });
    await writer.close();
    const { key } = await app.keys.create({ accountId: other.id, name: "other", kind: "api" });
    await ask(ODD, "lab", key);
    expect(seen().slice(2)).toEqual([AS_IT_CAME, PLAINLY]);
  });
});

describe("a messages server of which nothing is known", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const KNOWN = new Set<unknown>(["text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking"]);
  const MESSAGE = {
    ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
    content: [{ type: "text", text: "ok" }],
    usage: { input_tokens: 3, output_tokens: 2 },
  };

  /** As vLLM reads a request: tools have schemas, and blocks are of the kinds that it knows. */
  function takes({ tools = [], messages }: { tools?: Wire[]; messages: Wire[] }): boolean {
    const heldBy = ({ content }: Wire) => (Array.isArray(content) ? (content as Wire[]) : []);
    const blocks = messages.flatMap(heldBy);
    const all = [...blocks, ...blocks.flatMap(heldBy)];
    return tools.every((tool) => "input_schema" in tool) && all.every(({ type }) => KNOWN.has(type));
  }

  beforeAll(async () => {
    upstream = startUpstream();
    const row = (id: string, plainBlocks: boolean) => vendorAt(upstream, "messages", id, { plainBlocks });
    const vendors = [vendorAt(upstream, "messages", "lab"), row("plain", true), row("all", false)];
    gateway = await startApp({ vendors });
  });
  beforeEach(() => {
    const refusal = { type: "error", error: { type: "invalid_request_error", message: "1 validation error" } };
    upstream.always("/v1/messages", ({ json: body }) =>
      takes(body as Parameters<typeof takes>[0]) ? json(MESSAGE) : json(refusal, { status: 400 }),
    );
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const said = (...content: Wire[]) => ({ messages: [{ role: "user", content }] });
  const asText = (words: string) => ({ type: "text", text: words });
  const told = (...texts: string[]) => said(...texts.map(asText));
  const answered = (...content: Wire[]) => ({
    messages: [user, { role: "assistant", content }, user].map(({ role, content: words }) => ({
      role,
      content: words,
    })),
  });
  const text = { type: "text", text: "?" };
  const source = { type: "text", media_type: "text/plain", data: "words" };
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
  const search = { type: "search_result", source: "s", title: "t", content: [asText("x")] };
  const call = { type: "tool_use", id: "toolu_1", name: "f", input: {} };
  const calledFor = (...content: Wire[]) => ({
    messages: [
      { role: "user", content: "Look." },
      { role: "assistant", content: [call] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content }] },
    ],
  });
  const found = { type: "bash_code_execution_tool_result", tool_use_id: "srvtoolu_1", content: {} };

  test.each<[string, Wire, Wire, string | null]>([
    [
      "a client's own tools",
      { ...told("?"), tools: [{ type: "bash_20250124", name: "bash" }] },
      { tools: [{ name: "bash", input_schema: { type: "object" } }] },
      null,
    ],
    [
      "tools that the vendor runs",
      { ...told("?"), tools: [{ type: "code_execution_20250825", name: "c" }], tool_choice: { type: "auto" } },
      told("?"),
      "tools[0]",
    ],
    ["a document of text", said({ type: "document", source, title: "T" }, text), told("T\nwords", "?"), null],
    [
      "a document of text and pictures",
      said({ type: "document", title: "T", source: { type: "content", content: [asText("x"), image] } }),
      said(asText("T"), asText("x"), image),
      null,
    ],
    ["a search result", said(search, text), told("t\ns", "x", "?"), null],
    [
      "what a tool has found",
      calledFor(text, { type: "document", source }, search, { type: "browser_state", tabs: [] }),
      calledFor(text, ...["words", "t\ns", "x", '{"type":"browser_state","tabs":[]}'].map(asText)),
      null,
    ],
    ["what only the vendor knows", answered(found, text), answered(text), "messages[1].content[0]"],
  ])("is told %s as it came, and plainly where it refuses that", async (_name, odd, plainly, dropped) => {
    const ask = (model: string) => gateway.post("/v1/messages", { model, max_tokens: 64, ...odd });
    const response = await ask(`lab/${Bun.hash(JSON.stringify(odd))}`);
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(response.headers.get("x-sluice-dropped")).toBe(dropped);
    expect(upstream.calls[0]?.json).toMatchObject(odd);
    expect(upstream.calls[1]?.json).toMatchObject(plainly);
    if (plainly["tools"] === undefined) expect(upstream.calls[1]?.json).not.toHaveProperty("tools");
    expect((await ask("plain/m")).status).toBe(200);
    expect((await ask("all/m")).status).toBe(400);
    expect(upstream.calls).toHaveLength(4);
  });
});

/** How servers of the messages dialect want back what was thought before calls: DeepSeek, in both of its ways, MiMo and Moonshot. */
const MISSED = [
  "The `content[].thinking` in the thinking mode must be passed back to the API.",
  "The reasoning_content in the thinking mode must be passed back to the API.",
  "Missing thinking block in the assistant message at message index 1. For more information, please refer to the guide.",
  "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
];

describe("a messages server whose model thinks, and that wants it back behind calls", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  let words = "";
  const call = { type: "tool_use", id: "toolu_1", name: "f", input: {} };
  const thought = { type: "thinking", thinking: "I must look.", signature: "c2ln" };
  const MESSAGE = {
    ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
    content: [{ type: "text", text: "ok" }],
    usage: { input_tokens: 3, output_tokens: 2 },
  };

  beforeAll(async () => {
    upstream = startUpstream();
    gateway = await startApp({ vendors: [vendorAt(upstream, "messages", "lab")] });
  });
  beforeEach(() => {
    upstream.always("/v1/messages", ({ json: body }) => {
      const { thinking, messages } = body as { thinking?: { type: string }; messages: { content: Wire[] }[] };
      const isMissed = messages.some(({ content }) => {
        const types = Array.isArray(content) ? content.map(({ type }) => type) : [];
        return types.includes("tool_use") && !types.includes("thinking");
      });
      const error = { message: words, type: "invalid_request_error", param: null, code: "invalid_request_error" };
      return isMissed && thinking?.type !== "disabled" ? json({ error }, { status: 400 }) : json(MESSAGE);
    });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const loop = (...content: Wire[]) => ({
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "done" }] },
      { role: "assistant", content: "It is done." },
      { role: "user", content: "And now?" },
    ],
    tools: [{ name: "f", input_schema: { type: "object" } }],
  });
  const ask = (body: Wire) => gateway.post("/v1/messages", { model: "lab/m", max_tokens: 4_096, ...body });
  const seen = () => upstream.calls.map((one) => (one.json as { thinking?: unknown }).thinking);
  const OFF = { type: "disabled" };

  test.each(
    MISSED.flatMap((one) =>
      [undefined, { type: "adaptive" }, { type: "enabled", budget_tokens: 2_000 }].map((thinking) => ({
        one,
        thinking,
      })),
    ),
  )(
    "is told again that its model is not to think, where nobody has any of it: $thinking, $one",
    async ({ one, thinking }) => {
      words = one;
      const response = await ask({ ...loop(call), ...(thinking && { thinking }) });
      expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
      expect(response.headers.get("x-sluice-dropped")).toBe("thinking");
      expect(seen()).toEqual([thinking, OFF]);
      // Of the next conversation nothing is known.
      expect((await ask({ ...loop(thought, call), ...(thinking && { thinking }) })).status).toBe(200);
      expect(seen().slice(2)).toEqual([thinking]);
    },
  );

  /**
   * DeepSeek's thinking goes by itself; Claude Code forces its search of the web (deepseek-ai/awesome-deepseek-integration #606). Bedrock's words are
   * those of its recorded refusal (vercel/ai #17729).
   */
  test.each(
    [
      "Thinking mode does not support this tool_choice",
      "Thinking may not be enabled when tool_choice forces tool use.",
    ].flatMap((refusal) => [{ type: "any" }, { type: "tool", name: "f" }].map((choice) => ({ refusal, choice }))),
  )(
    "is told the same where it calls no tool that it is forced to while it thinks: $choice, $refusal",
    async ({ refusal, choice }) => {
      upstream.always("/v1/messages", ({ json: body }) => {
        const { thinking, tool_choice: told } = body as { thinking?: Wire; tool_choice?: Wire };
        const isRefused = told !== undefined && told["type"] !== "auto" && thinking?.["type"] !== "disabled";
        const error = { message: refusal, type: "invalid_request_error" };
        return isRefused ? json({ error }, { status: 400 }) : json(MESSAGE);
      });
      const { tools } = loop();
      const body = { messages: [{ role: "user", content: "Hi" }], tools };
      const response = await ask({ ...body, tool_choice: choice });
      expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, "thinking"]);
      expect(upstream.calls.map((one) => (one.json as Wire)["tool_choice"])).toEqual([choice, choice]);
      expect((await ask(body)).status).toBe(200);
      expect(seen()).toStrictEqual([undefined, OFF, undefined]);
    },
  );

  /** LM Studio's words, those of Claude's older models at Bedrock, and SGLang's. */
  test.each([
    "request.thinking.type: Invalid discriminator value. Expected 'enabled' | 'disabled'",
    "The model returned the following errors: thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'disabled', 'enabled'",
    "[{'type': 'literal_error', 'loc': ('body', 'thinking', 'type'), 'msg': \"Input should be 'enabled' or 'disabled'\"}]",
  ])("is told a budget where it knows no adaptive thinking, and later ones at once: %s", async (refusal) => {
    // Each gateway learns for itself.
    const own = await startApp({ vendors: [vendorAt(upstream, "messages", "lab")] });
    upstream.always("/v1/messages", ({ json: body }) => {
      const { thinking } = body as { thinking?: Wire };
      const error = { message: refusal, type: "invalid_request_error" };
      return thinking?.["type"] === "adaptive" ? json({ type: "error", error }, { status: 400 }) : json(MESSAGE);
    });
    const adaptive = { messages: [{ role: "user", content: "Hi" }], thinking: { type: "adaptive" } };
    const post = async (body: Wire) => {
      const { status, headers } = await own.post("/v1/messages", { model: "lab/m", max_tokens: 30_000, ...body });
      return [status, headers.get("x-sluice-dropped")];
    };
    try {
      expect(await post(adaptive)).toEqual([200, null]);
      expect(await post({ ...adaptive, output_config: { effort: "low" } })).toEqual([200, null]);
      // Where no budget fits there is no thinking, and that is said.
      expect(await post({ ...adaptive, max_tokens: 900 })).toEqual([200, "thinking"]);
      // Who asks for an effort alone asks for no thinking.
      expect(await post({ ...adaptive, thinking: undefined, output_config: { effort: "low" } })).toEqual([200, null]);
    } finally {
      await own.stop();
    }
    const budget = (tokens: number) => ({ type: "enabled", budget_tokens: tokens });
    expect(seen()).toStrictEqual([{ type: "adaptive" }, budget(10_000), budget(4_000), OFF, undefined]);
  });

  /** TensorRT-LLM's words for each choice, and LMDeploy's for the one that its parsers may lack. */
  test.each([
    ["Anthropic tool_choice type 'any' is not supported because nothing can require a call", { type: "any" }],
    ["Anthropic tool_choice type 'tool' is not supported because a call would lack its arguments", FORCED_F],
    ['The configured tool-call parser does not support `tool_choice={"type":"any"}`.', { type: "any" }],
  ])("is told in words what it forces nobody to do: %s", async (refusal, choice) => {
    upstream.always("/v1/messages", ({ json: body }) => {
      const { tool_choice: told } = body as { tool_choice?: Wire };
      const error = { message: refusal, type: "invalid_request_error" };
      return told?.["type"] === choice.type ? json({ type: "error", error }, { status: 400 }) : json(MESSAGE);
    });
    const asked = { messages: [{ role: "user", content: "Hi" }], tools: loop().tools, system: "Be brief." };
    expect((await ask({ ...asked, tool_choice: choice })).status).toBe(200);
    const told = upstream.calls.map((one) => one.json as { tool_choice: Wire; system: string });
    expect(told.map(({ tool_choice: one }) => one)).toEqual([choice, { type: "auto" }]);
    const named = choice === FORCED_F ? "the tool f" : "one of the tools";
    expect(told[1]?.system).toBe(`Be brief.\nAnswer this time by calling ${named}.`);
    // So is what another dialect's client forces.
    const { messages } = asked;
    const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
    const forced = choice === FORCED_F ? { type: "function", function: { name: "f" } } : "required";
    const chat = { model: "lab/m", messages, tools, tool_choice: forced };
    expect((await gateway.post("/v1/chat/completions", chat)).status).toBe(200);
  });

  test("so is the request of a client of another dialect", async () => {
    words = MISSED[0] ?? "";
    const tool = { type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } };
    const messages = [
      { role: "user", content: "Hi" },
      { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "c", content: "done" },
    ];
    const response = await gateway.post("/v1/chat/completions", { model: "lab/m", messages, tools: [tool] });
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(seen()).toEqual([undefined, OFF]);
  });

  test("only once, and one that it says so of though its model does not think is told at once", async () => {
    upstream.always(
      "/v1/messages",
      json({ error: { message: MISSED[0], type: "invalid_request_error" } }, { status: 400 }),
    );
    expect((await ask(loop(call))).status).toBe(400);
    expect((await ask({ ...loop(call), thinking: OFF })).status).toBe(400);
    expect(seen()).toEqual([undefined, OFF, OFF]);
  });
});

describe("a server whose model sees nothing", () => {
  const data = Buffer.from(PNG).toString("base64");
  const text = "What is it?";
  const VLLM = "big/m is not a multimodal model None";
  const LMDEPLOY = "Unsupported Responses input content part type: 'input_image'.";
  /** An agent's tool has read a picture, and the user has spoken since. */
  const messages: Wire = {
    max_tokens: 50,
    messages: [
      { role: "user", content: "Look." },
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "read", input: {} }] },
      {
        role: "user",
        content: [
          {
            ...{ type: "tool_result", tool_use_id: "toolu_1" },
            content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }],
          },
        ],
      },
      { role: "assistant", content: [{ type: "text", text: "A square." }] },
      { role: "user", content: [{ type: "text", text }] },
    ],
    tools: [{ name: "read", input_schema: { type: "object" } }],
  };
  const responses: Wire = {
    input: [
      { role: "user", content: [{ type: "input_image", image_url: `data:image/png;base64,${data}` }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "A square." }] },
      { role: "user", content: text },
    ],
  };
  const MESSAGE = {
    ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
    ...{ content: [{ type: "text", text: "ok" }], usage: { input_tokens: 3, output_tokens: 2 } },
  };

  test.each([
    ["messages", VLLM, "/v1/messages", messages, MESSAGE, "messages[2].content[0].content[0]"],
    ["responses", VLLM, "/v1/responses", responses, REPLY, "input[0].content[0]"],
    ["responses", LMDEPLOY, "/v1/responses", responses, REPLY, "input[0].content[0]"],
  ] as const)(
    "is told of the dialect %s without earlier images, once it has refused one: %s",
    async (dialect, words, path, body, reply, place) => {
      const upstream = startUpstream();
      upstream.always(path, ({ text: told }) =>
        told.includes(data)
          ? json({ error: { message: words, type: "BadRequestError" } }, { status: 400 })
          : json(reply),
      );
      const app = await startApp({ vendors: [vendorAt(upstream, dialect, "lab")] });
      for (const attempts of ["2", null]) {
        const response = await app.post(path, { model: "lab/m", ...body });
        expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, attempts]);
        expect(response.headers.get("x-sluice-dropped")).toBe(place);
        expect(upstream.calls.at(-1)?.text).toContain("[Left out here: an image.");
      }
      await app.stop();
      upstream.close();
    },
  );
});
