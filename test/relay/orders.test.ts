import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";

const PATH = "/v1/messages";
const reply = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn", stop_sequence: null },
  ...{ content: [{ type: "text", text: "ok" }], usage: { input_tokens: 3, output_tokens: 1 } },
};

let upstream: Upstream;
let gateway: TestApp;

beforeAll(async () => {
  upstream = startUpstream();
  upstream.always(PATH, json(reply));
  const models = [
    { id: "lab/small", context_length: 8_192 },
    { id: "lab/large", context_length: 200_000 },
    { id: "lab/told", context_length: 8_192, max_output_tokens: 6_000 },
    { id: "lab/unknown" },
  ];
  upstream.always("/v1/chat/completions", json(chatReply("ok")));
  const local = registry.filter(({ local, modality }) => local && modality === undefined);
  const servers = local.map(({ id, quirks }) => vendorAt(upstream, "chat", id, quirks));
  gateway = await startApp({ vendors: [vendorAt(upstream, "messages", "lab"), ...servers], models });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

test.each([
  ["lab/small", 4_096],
  ["lab/large", 8_192],
  ["lab/told", 6_000],
  ["lab/unknown", 8_192],
])("a ceiling that the client did not name leaves room for its prompt: %s is told %d", async (model, ceiling) => {
  const messages = [{ role: "user", content: "Hi" }];
  expect((await gateway.post("/v1/chat/completions", { model, messages })).status).toBe(200);
  expect(upstream.calls.at(-1)?.json).toMatchObject({ max_tokens: ceiling });
  await gateway.post("/v1/chat/completions", { model, messages, max_tokens: 5_000 });
  expect(upstream.calls.at(-1)?.json).toMatchObject({ max_tokens: 5_000 });
});

describe("a model server of this machine, of whose models nobody knows how they are steered", () => {
  const messages = [{ role: "user", content: "Hi" }];
  const thinking = { type: "disabled" };

  async function sent(path: string, body: Record<string, unknown>): Promise<unknown[]> {
    const response = await gateway.post(path, body);
    expect(response.status).toBe(200);
    const told = upstream.calls.at(-1)?.json as Record<string, unknown>;
    const { reasoning_effort, chat_template_kwargs } = told;
    return [{ reasoning_effort, chat_template_kwargs }, response.headers.get("x-sluice-dropped")];
  }

  test.each([
    ["ollama", { reasoning_effort: "none" }],
    ["llamacpp", { chat_template_kwargs: { enable_thinking: false } }],
    ["vllm", { chat_template_kwargs: { enable_thinking: false } }],
  ])("%s is told by clients of the other dialects not to think", async (id, told) => {
    const model = `${id}/m`;
    expect(await sent(PATH, { model, max_tokens: 50, messages, thinking })).toEqual([told, null]);
    expect(await sent("/v1/responses", { model, input: "Hi", reasoning: { effort: "none" } })).toEqual([told, null]);
  });

  test("others are not, and what is said in the server's own dialect stays as it is", async () => {
    const none = { reasoning_effort: undefined, chat_template_kwargs: undefined };
    const off = { model: "lmstudio/m", max_tokens: 50, messages, thinking };
    expect(await sent(PATH, off)).toEqual([none, "thinking"]);
    expect(await sent(PATH, { model: "llamacpp/m", max_tokens: 50, messages })).toEqual([none, null]);
    const own = { reasoning_effort: "none" };
    expect(await sent("/v1/chat/completions", { model: "llamacpp/m", messages, ...own })).toEqual([own, null]);
  });

  test("a model that has no template is told nothing of it, and the client that so it is: Mistral's at vLLM", async () => {
    upstream.always("/v1/chat/completions", ({ json: body }) =>
      "chat_template_kwargs" in (body as Record<string, unknown>)
        ? json({ error: { message: "chat_template is not supported for Mistral tokenizers." } }, { status: 400 })
        : json(chatReply("ok")),
    );
    const none = { reasoning_effort: undefined, chat_template_kwargs: undefined };
    const before = upstream.calls.length;
    const body = { model: "vllm/mistral", max_tokens: 50, messages, thinking };
    for (const _turn of [1, 2]) expect(await sent(PATH, body)).toEqual([none, "thinking"]);
    expect(upstream.calls.length - before).toBe(3);
    const own = { model: "vllm/mistral", messages, chat_template_kwargs: { enable_thinking: false } };
    expect(await sent("/v1/chat/completions", own)).toEqual([none, "chat_template_kwargs"]);
    upstream.always("/v1/chat/completions", json(chatReply("ok")));
  });
});
