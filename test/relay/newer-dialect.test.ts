import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { KEPT_MS } from "../../src/relay/lessons/refused-extras.ts";
import { registry } from "../../src/vendors/registry.ts";
import { GREETING } from "../sdk/replies.ts";
import { responses } from "../sdk/vendors/responses.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { chatReply, json, sse, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const CHAT = "/v1/chat/completions";
const RESPONSES = "/v1/responses";
const parameters = { type: "object", properties: {} };
const user = { role: "user", content: "Hi" };
const ASKED: Record<string, Wire> = {
  [CHAT]: { messages: [user], tools: [{ type: "function", function: { name: "f", parameters } }] },
  "/v1/messages": { max_tokens: 100, messages: [user], tools: [{ name: "f", input_schema: parameters }] },
  [RESPONSES]: { input: "Hi", tools: [{ type: "function", name: "f", parameters }] },
};
const WITH_TOOLS =
  "Function tools with reasoning_effort are not supported for gpt-6-astra in /v1/chat/completions. Please use /v1/responses instead.";
const operation = (name: string) =>
  `The ${name} operation does not work with the specified model, gpt-5.3-codex. Please choose different model and try again.`;

/** Azure is asked in the chat dialect, which all that one can deploy there speaks; OpenAI's newer models call no tools in it (maximhq/bifrost #7275). */
describe("a vendor of the chat dialect that knows a model in OpenAI's newer one alone", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const clock = manualClock();
  beforeAll(async () => {
    upstream = startUpstream();
    const quirks = registry.find(({ id }) => id === "azure")?.quirks ?? {};
    const vendors = [vendorAt(upstream, "chat", "azure", quirks), vendorAt(upstream, "chat", "lab")];
    gateway = await startApp({ clock, vendors });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const refuse = (message: string, status = 400) =>
    json({ error: { message, type: "invalid_request_error", param: null, code: null } }, { status });
  const paths = () => upstream.calls.splice(0).map(({ path }) => path);
  const say = async (path: string, model: string, more: Wire = {}) => {
    const response = await gateway.post(path, { model, ...ASKED[path], ...more });
    const text = await response.text();
    return [response.status, /"ok"|Grüße/.test(text), paths()];
  };

  test.each([
    [CHAT, WITH_TOOLS, 400],
    ["/v1/messages", WITH_TOOLS, 400],
    [RESPONSES, WITH_TOOLS, 400],
    [CHAT, operation("chatCompletion"), 400],
    ["/v1/messages", "This model is only supported in v1/responses and not in v1/chat/completions.", 404],
    [CHAT, "The model 'openai.gpt-5.6-terra' does not support the '/v1/chat/completions' API", 400],
    ["/v1/messages", "The model 'openai.gpt-5.6-sol' does not support the '/openai/v1/chat/completions' API", 400],
  ])("is asked in that one, and for the next hour at once: %s (%s)", async (path, message, status) => {
    const model = `azure/${path.length}-${message.length}`;
    upstream.always(CHAT, refuse(message, status));
    upstream.always(RESPONSES, ({ json: body }) =>
      (body as Wire)["stream"] === true ? sse(responses.records(GREETING, "m")) : json(responses.whole(GREETING, "m")),
    );
    expect(await say(path, model)).toEqual([200, true, [CHAT, RESPONSES]]);
    for (const stream of [false, true]) expect(await say(path, model, { stream })).toEqual([200, true, [RESPONSES]]);
    await clock.advance(KEPT_MS);
    expect(await say(path, model, { stream: true })).toEqual([200, true, [CHAT, RESPONSES]]);
    expect(await say(path, `${model}-other`)).toEqual([200, true, [CHAT, RESPONSES]]);
  });

  test.each([
    ["a server that repeats it and has no such path", json({ detail: "Not Found" }, { status: 404 })],
    ["a model that is had in none of both", refuse(operation("responses"))],
    ["one of Bedrock's", refuse("The model 'openai.gpt-5.6-terra' does not support the '/openai/v1/responses' API")],
  ])("is not asked so again where that is refused: %s", async (_, answer) => {
    const model = `lab/none-${_.length}`;
    upstream.always(CHAT, ({ json: body }) =>
      "reasoning_effort" in (body as Wire) ? refuse(WITH_TOOLS) : json(chatReply("ok")),
    );
    upstream.always(RESPONSES, answer);
    const asked = { reasoning_effort: "high" };
    expect(await say(CHAT, model, asked)).toEqual([200, true, [CHAT, RESPONSES, CHAT, CHAT]]);
    expect(await say(CHAT, model, asked)).toEqual([200, true, [CHAT, CHAT]]);
  });

  test("and of another refusal is told as the vendor tells it", async () => {
    upstream.always(CHAT, refuse(WITH_TOOLS));
    upstream.always(RESPONSES, refuse("Invalid schema for function 'f'."));
    expect(await say(CHAT, "azure/bad")).toEqual([400, false, [CHAT, RESPONSES]]);
  });
});
