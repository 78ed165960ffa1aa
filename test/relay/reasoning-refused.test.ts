import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { packProof } from "../../src/dialects/gemini/proof.ts";
import { packReasoning } from "../../src/dialects/reasoning/proof.ts";
import { PIECES, soundAnswer, WIRES } from "../scenarios/wires.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

const REFUSALS = [
  "messages.1.content.0: Invalid `signature` in `thinking` block",
  "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
  "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
  // SGLang
  "Anthropic redacted_thinking history is not supported",
];
const text = { type: "text", text: "hm" };
const thinking = { type: "thinking", thinking: "another's", signature: "Zm9yZWlnbg==" };

let upstream: Upstream;
let app: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const lab = { ...vendorAt(upstream, "messages", "lab"), quirks: { unsignedThinking: true } };
  app = await startApp({ vendors: [vendorAt(upstream, "messages", "claude"), lab] });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await app.stop();
  upstream.close();
});

/** A vendor that refuses all thinking that is brought back, in these words. */
function refuseThinking(words: string): void {
  upstream.always("/v1/messages", (call) => {
    if (call.text.includes("another's") || call.text.includes("redacted_thinking"))
      return json({ type: "error", error: { type: "invalid_request_error", message: words } }, { status: 400 });
    const isStream = (call.json as { stream?: boolean }).stream === true;
    return soundAnswer(WIRES.messages, isStream ? "stream" : "blocking");
  });
}

const ask = (content: unknown[], more: object = {}, headers: Record<string, string> = {}) =>
  app.post(
    "/v1/messages",
    {
      model: "claude/m",
      max_tokens: 50,
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content },
        { role: "user", content: "Go on" },
      ],
      ...more,
    },
    { headers },
  );

describe("proofs of reasoning that nobody here has seen, and their vendor refuses", () => {
  for (const stream of [false, true]) {
    test.each(REFUSALS)(`are left out, and the request is told again, stream ${stream}: %s`, async (words) => {
      refuseThinking(words);
      const before = app.rows().length;
      const response = await ask([thinking, { type: "redacted_thinking", data: "Zm9v" }, text], { stream });
      const told = await response.text();
      expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
      for (const piece of PIECES) expect(told).toContain(piece.trim());
      expect(upstream.calls.length).toBe(2);
      const { messages } = upstream.calls[1]!.json as { messages: { content: unknown }[] };
      expect(messages[1]?.content).toEqual([text]);
      expect(app.rows().length).toBe(before + 1);
    });
  }

  test("of which those are a part that nobody signed, where their server was thought to take them", async () => {
    refuseThinking("messages.1.content.0.thinking.signature: Field required");
    const unsigned = { ...thinking, signature: "" };
    const response = await ask([unsigned, text], { model: "lab/m" });
    expect(response.status).toBe(200);
    const sent = upstream.calls.map(({ json }) => (json as { messages: { content: unknown }[] }).messages[1]?.content);
    expect(sent).toEqual([[unsigned, text], [text]]);
  });

  test("only once, and nothing is charged when that does not help", async () => {
    upstream.always("/v1/messages", () =>
      json({ type: "error", error: { type: "invalid_request_error", message: REFUSALS[0] } }, { status: 400 }),
    );
    const before = app.rows().length;
    const response = await ask([thinking, text]);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("Invalid `signature`");
    expect([upstream.calls.length, app.rows().length]).toEqual([2, before]);
  });

  test("another refusal is told at once", async () => {
    const message = "messages.1.content.0.thinking.thinking: Field required";
    upstream.always("/v1/messages", () =>
      json({ type: "error", error: { type: "invalid_request_error", message } }, { status: 400 }),
    );
    expect((await ask([thinking, text])).status).toBe(400);
    expect(upstream.calls.length).toBe(1);
  });
});

const BOUND =
  'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".';
const DROPS = { prefix_mismatch_behavior: "drop_block" };

/** A vendor that refuses thinking behind other words than it was thought after, unless it is told to leave it out; `knows`: it can be told. */
function bindThinking(knows = true): void {
  upstream.always("/v1/messages", ({ json: body, text: sent, headers }) => {
    const { thinking: asked, stream } = body as { thinking?: Record<string, unknown>; stream?: boolean };
    const refuse = (message: string) =>
      json({ type: "error", error: { type: "invalid_request_error", message } }, { status: 400 });
    const isTold = asked?.["block_binding"] !== undefined;
    const beta = headers["anthropic-beta"] ?? "";
    if (isTold && !(knows && beta.split(",").includes("thinking-binding-controls-2026-08-01")))
      return refuse("thinking.adaptive.block_binding: Extra inputs are not permitted");
    if (!isTold && sent.includes("another's")) return refuse(BOUND);
    return soundAnswer(WIRES.messages, stream === true ? "stream" : "blocking");
  });
}

describe("thinking of which its vendor says that it is bound to another conversation", () => {
  const sent = () =>
    upstream.calls.map((call) => {
      const { messages, thinking: asked } = call.json as { messages: { content: unknown }[]; thinking: unknown };
      return [messages[1]?.content, asked, call.headers["anthropic-beta"] ?? null];
    });
  const adaptive = { type: "adaptive" };

  test.each([false, true])("is left out by that vendor alone, which keeps the rest, stream %p", async (stream) => {
    bindThinking();
    const response = await ask([thinking, text], { thinking: adaptive, stream }, { "anthropic-beta": "a-2026-01-01" });
    for (const piece of PIECES) expect(await response.clone().text()).toContain(piece.trim());
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(sent()).toEqual([
      [[thinking, text], adaptive, "a-2026-01-01"],
      [[thinking, text], { ...adaptive, block_binding: DROPS }, "a-2026-01-01,thinking-binding-controls-2026-08-01"],
    ]);
  });

  test("is left out by the gateway, all of it, where the vendor cannot be told so", async () => {
    bindThinking(false);
    const response = await ask([thinking, text], { thinking: adaptive });
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "3"]);
    expect(sent()[2]).toEqual([[text], adaptive, null]);
  });

  test("also where the request says nothing of thinking, which such models do by themselves", async () => {
    bindThinking();
    expect((await ask([thinking, text])).status).toBe(200);
    expect(sent()[1]?.slice(0, 2)).toEqual([[thinking, text], { ...adaptive, block_binding: DROPS }]);
  });

  test("is left out by the gateway at once where the client has said itself what shall become of it", async () => {
    upstream.always("/v1/messages", (call) =>
      call.text.includes("another's")
        ? json({ type: "error", error: { type: "invalid_request_error", message: BOUND } }, { status: 400 })
        : soundAnswer(WIRES.messages, "blocking"),
    );
    const asked = { ...adaptive, block_binding: { prefix_mismatch_behavior: "error" } };
    expect((await ask([thinking, text], { thinking: asked })).status).toBe(200);
    expect(sent()).toEqual([
      [[thinking, text], asked, null],
      [[text], asked, null],
    ]);
  });
});

/** How each other vendor of proofs refuses one that it cannot read: another account's, as after a change of its key (OpenAI, a reseller of it, Google); and servers that can read none (vLLM, llama.cpp, LMDeploy). */
const OTHERS_REFUSALS = [
  ["responses", "The encrypted content gAAA...ng== could not be verified.", "invalid_encrypted_content"],
  [
    "responses",
    "The encrypted content gAAA...WA== could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
    0,
  ],
  ["responses", "Encrypted content is not supported.", 400],
  ["responses", "item['content'] is not an array", 400],
  ["responses", "item['content'] is empty", 400],
  ["responses", "Unsupported Responses input item type: 'reasoning'.", 400],
  ["gemini", "Corrupted thought signature.", 400],
  ["gemini", "Invalid thought signature.", 400],
  ["gemini", "Thought signature is not valid.", 400],
] as const;

const REPLIES = {
  responses: {
    ...{ id: "resp_1", object: "response", status: "completed", model: "gpt-5" },
    output: [{ type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "Yes" }] }],
    usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
  },
  gemini: {
    candidates: [{ content: { role: "model", parts: [{ text: "Yes" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  },
};

describe("proofs that OpenAI's and Google's dialects carry, and their vendor refuses", () => {
  const vendors = { responses: startUpstream(), gemini: startUpstream() };
  const model = { responses: "gpt-5", gemini: "gemini-3-pro" };
  let gateway: TestApp;
  beforeAll(async () => {
    gateway = await startApp({
      vendors: [
        vendorAt(vendors.responses, "responses", "oa"),
        { ...vendorAt(vendors.gemini, "chat", "gg"), dialect: "gemini" as const, baseUrl: `${vendors.gemini.url}/v1` },
      ],
    });
  });
  afterEach(() => {
    for (const vendor of Object.values(vendors)) vendor.reset();
  });
  afterAll(async () => {
    await gateway.stop();
    for (const vendor of Object.values(vendors)) vendor.close();
  });

  const proofs = {
    responses: packReasoning({ id: "rs_1", encrypted: "gAAAforeign" }),
    gemini: packProof({ place: "call", signature: "Zm9yZWlnbg==" }),
  };
  const paths = { responses: "/v1/responses", gemini: "/v1/models/gemini-3-pro:generateContent" };
  const call = { type: "tool_use", id: "call_1", name: "look", input: {} };

  test.each(OTHERS_REFUSALS)("are left out, and the request is told again: %s, %s", async (dialect, message, code) => {
    const vendor = vendors[dialect];
    vendor.always(paths[dialect], ({ text }) =>
      text.includes("gAAAforeign") || text.includes("Zm9yZWlnbg==")
        ? json({ error: { message, type: "invalid_request_error", code, status: "INVALID_ARGUMENT" } }, { status: 400 })
        : json(REPLIES[dialect]),
    );
    const response = await gateway.post("/v1/messages", {
      model: `${dialect === "gemini" ? "gg" : "oa"}/${model[dialect]}`,
      max_tokens: 2_000,
      thinking: { type: "enabled", budget_tokens: 1_024 },
      tools: [{ name: "look", input_schema: { type: "object", properties: {} } }],
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: proofs[dialect] }, call] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "there" }] },
      ],
    });
    expect([response.status, response.headers.get("x-sluice-attempts"), vendor.calls.length]).toEqual([200, "2", 2]);
    const told = vendor.calls[1]!.text;
    expect(told).toContain("look");
    expect(await response.text()).toContain("Yes");
    if (dialect === "gemini") expect(told).toContain('"thoughtSignature":"skip_thought_signature_validator"');
    else expect(told).not.toContain('"type":"reasoning"');
  });
});
