import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { isObject } from "../../src/lib/json.ts";
import { PRICED, startPayingLab } from "../scenarios/paying.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type Answer, chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const MESSAGE = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
  content: [{ type: "text", text: "ok" }],
  usage: { input_tokens: 3, output_tokens: 2 },
};
const RESPONSE = {
  ...{ id: "resp_1", object: "response", status: "completed", model: "m" },
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "ok", annotations: [] }] }],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
};
const CANDIDATE = {
  candidates: [{ content: { role: "model", parts: [{ text: "ok" }] }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
};

/** Where a server of each dialect is asked, what it answers, and where the ceiling stands. */
const DIALECTS = {
  chat: ["/v1/chat/completions", chatReply("ok"), (body: Wire) => body["max_completion_tokens"] ?? body["max_tokens"]],
  messages: ["/v1/messages", MESSAGE, (body: Wire) => body["max_tokens"]],
  responses: ["/v1/responses", RESPONSE, (body: Wire) => body["max_output_tokens"]],
  gemini: [
    "/v1/models/m:generateContent",
    CANDIDATE,
    ({ generationConfig: config }: Wire) => (isObject(config) ? config["maxOutputTokens"] : undefined),
  ],
} as const;

const MOST = 32_768;
const user = { role: "user", content: "Hi" };

/** How servers refuse a ceiling of 64,000 tokens. */
const REFUSALS: readonly [keyof typeof DIALECTS, words: string][] = [
  [
    "chat",
    "The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, expected a value <= 32768, but got 64000 instead. Request id: 0217752964393142fa50af54",
  ],
  ["chat", "Invalid 'max_tokens': integer above maximum value. Expected a value <= 32768, but got 64000 instead."],
  ["chat", "max_tokens (current value: 64000) must be between 0 and 32768 "],
  ["chat", "max_tokens (64000) exceeds model's maximum output tokens (32768) for model glm (ref: dd793cb9-4998)"],
  ["chat", "Invalid max_tokens value, the valid range of max_tokens is [1, 32768]"],
  [
    "chat",
    "too many tokens: max tokens must be less than or equal to 32768, the maximum output for this model - received 64000.",
  ],
  ["chat", "The max_tokens parameter is illegal.：限制数值范围[1,32768]"],
  ["chat", "max_tokens参数非法：限制数值范围[1,32768]"],
  ["chat", "max_tokens: 64000 > 32768, which is the maximum allowed number of output tokens for claude"],
  [
    "chat",
    "Unable to submit request because it has a maxOutputTokens value of 64000 but the supported range is from 1 (inclusive) to 32769 (exclusive). Update the value and try again.",
  ],
  [
    "messages",
    "The parameter max_tokens specified in the request is not valid: integer above maximum value, expected a value <= 32768, but got 64000 instead. Request id: 0217724325966514087c9e55",
  ],
  ["messages", "max_tokens: 64000 > 32768, which is the maximum allowed number of output tokens for claude"],
  [
    "messages",
    "The maximum tokens you requested exceeds the model limit of 32768. Try again with a maximum tokens value that is lower than 32768.",
  ],
  ["messages", "max_tokens (64000) exceeds model's maximum output tokens (32768) for model glm (ref: dd793cb9-4998)"],
  [
    "responses",
    "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 32768, but got 64000 instead.",
  ],
  [
    "gemini",
    "Unable to submit request because it has a maxOutputTokens value of 64000 but the supported range is from 1 (inclusive) to 32769 (exclusive). Update the value and try again.",
  ],
];

describe("a server that refuses more output than its model writes", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  let models = 0;

  beforeAll(async () => {
    upstream = startUpstream();
    const rows = (["chat", "messages", "responses"] as const).map((dialect) => vendorAt(upstream, dialect));
    const gemini = { ...vendorAt(upstream, "chat", "gemini"), dialect: "gemini" as const };
    const all = vendorAt(upstream, "chat", "all", { customTools: true });
    gateway = await startApp({ vendors: [...rows, gemini, all] });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const ceilings = (dialect: keyof typeof DIALECTS) =>
    upstream.calls.map(({ json: body }) => DIALECTS[dialect][2](body as Wire));

  /** Answers what wants no more than it writes, and refuses the rest. */
  function refuseMore(dialect: keyof typeof DIALECTS, name: string, message: string): void {
    const [path, reply, ceilingOf] = DIALECTS[dialect];
    const answer = ({ json: body }: { json: unknown }): Answer =>
      Number(ceilingOf(body as Wire)) > MOST ? json({ error: { message } }, { status: 400 }) : json(reply);
    upstream.always(path.replace("/m:", `/${name}:`), answer);
  }

  const clients: readonly [path: string, ask: (model: string) => Wire][] = [
    ["/v1/messages", (model) => ({ model, max_tokens: 64_000, messages: [user] })],
    ["/v1/chat/completions", (model) => ({ model, max_tokens: 64_000, messages: [user] })],
    ["/v1/responses", (model) => ({ model, max_output_tokens: 64_000, input: "Hi" })],
  ];

  test.each(REFUSALS)(
    "of %s is asked for as much as it names, and the next time at once: %s",
    async (dialect, words) => {
      for (const [path, ask] of clients) {
        const name = `m${models++}`;
        refuseMore(dialect, name, words);
        for (const attempts of ["2", null]) {
          const { status, headers } = await gateway.post(path, ask(`${dialect}/${name}`));
          expect([status, headers.get("x-sluice-attempts")]).toEqual([200, attempts]);
        }
        expect(ceilings(dialect)).toEqual([64_000, MOST, MOST]);
        upstream.reset();
      }
    },
  );

  test("is asked for less where it knows all else of its dialect, too", async () => {
    refuseMore("chat", "m", "max_tokens is too large: 64000. This model supports at most 32768 completion tokens");
    for (const [path, ask] of clients) expect((await gateway.post(path, ask("all/m"))).status).toBe(200);
    expect(ceilings("chat")).toEqual([64_000, MOST, MOST, MOST]);
  });

  test("is not told what the money of a reply that comes whole pays for, where that is more", async () => {
    const lab = await startPayingLab();
    try {
      await lab.fund(10_000_000_000n);
      const ceilingOf = DIALECTS.chat[2];
      lab.vendors.chat.always(DIALECTS.chat[0], ({ json: body }) => {
        const asked = Number(ceilingOf(body as Wire));
        const message = `max_tokens is too large: ${asked}. This model supports at most 4096 completion tokens`;
        return asked > 4096 ? json({ error: { message } }, { status: 400 }) : json(DIALECTS.chat[1]);
      });
      const asked = { model: PRICED.chat, messages: [user] };
      for (const attempts of ["2", null]) {
        const { status, headers } = await lab.gateway.post("/v1/chat/completions", asked);
        expect([status, headers.get("x-sluice-attempts")]).toEqual([200, attempts]);
      }
      expect(lab.vendors.chat.calls.map(({ json: body }) => ceilingOf(body as Wire))).toEqual([16_384, 4096, 4096]);
    } finally {
      await lab.stop();
    }
  });

  test("is told no larger budget to think with than fits below", async () => {
    refuseMore(
      "messages",
      "m",
      "max_tokens: 64000 > 32768, which is the maximum allowed number of output tokens for m",
    );
    const thinking = { type: "enabled", budget_tokens: 63_999 };
    const asked = { model: "messages/budget", max_tokens: 64_000, thinking, messages: [user] };
    expect((await gateway.post("/v1/messages", asked)).status).toBe(200);
    expect(
      (await gateway.post("/v1/messages", { ...asked, thinking: { ...thinking, budget_tokens: 9_000 } })).status,
    ).toBe(200);
    expect(upstream.calls.map(({ json: body }) => (body as Wire)["thinking"])).toEqual([
      thinking,
      { type: "enabled", budget_tokens: 28_672 },
      { type: "enabled", budget_tokens: 9_000 },
    ]);
  });
});
