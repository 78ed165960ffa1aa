import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, messagesReply, responsesReply, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const rows = [vendorAt(upstream, "responses"), vendorAt(upstream, "messages"), vendorAt(upstream, "chat")];
  gateway = await startApp({ vendors: rows });
});
afterEach(() => upstream.reset());
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const turns = { messages: [{ role: "user", content: "Hi" }] };
const effort = "xhigh";

/** How a depth is asked for in each dialect, what is left of the request without it, and an answer. */
const DIALECTS = {
  responses: {
    path: "/v1/responses",
    asked: { input: "Hi", reasoning: { effort, summary: "auto" } },
    left: { reasoning: { summary: "auto" } },
    lost: "reasoning.effort",
    reply: responsesReply("ok"),
  },
  messages: {
    path: "/v1/messages",
    asked: { ...turns, max_tokens: 90, thinking: { type: "adaptive" }, output_config: { effort } },
    left: { thinking: { type: "adaptive" } },
    lost: "output_config.effort",
    reply: messagesReply("ok"),
  },
  chat: {
    path: "/v1/chat/completions",
    asked: { ...turns, reasoning_effort: effort },
    left: {},
    lost: "reasoning_effort",
    reply: chatReply("ok"),
  },
} as const;
type Dialect = keyof typeof DIALECTS;

const refusing = (words: string) => json({ error: { message: words, type: "invalid_request_error" } }, { status: 400 });

describe("a depth that its server does not have is left out, once", () => {
  test.each<[Dialect, string]>([
    // Ollama's, OpenVINO's, vLLM's, and OpenAI's models behind others.
    ["responses", 'invalid reasoning value: "xhigh" (must be "high", "medium", "low", "max", or "none")'],
    ["responses", "reasoning.effort must be one of: low, medium, high"],
    [
      "responses",
      "[{'type': 'literal_error', 'loc': ('body', 'reasoning', 'effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\"}]",
    ],
    [
      "responses",
      "Unsupported value: 'xhigh' is not supported with the 'gpt-5-mini' model. Supported values are: 'minimal', 'low', 'medium', and 'high'.",
    ],
    ["responses", "Invalid value: 'xhigh'. Supported values are: 'low', 'medium', and 'high'."],
    // LM Studio's, vLLM's, GitHub Copilot's.
    [
      "messages",
      "request.output_config.effort: Invalid enum value. Expected 'low' | 'medium' | 'high' | 'max', received 'xhigh'",
    ],
    [
      "messages",
      "[{'type': 'literal_error', 'loc': ('body', 'output_config', 'effort'), 'msg': \"Input should be 'low' or 'high'\"}]",
    ],
    ["messages", 'output_config.effort "xhigh" is not supported by model m; supported values: [medium]'],
    // Google's, also behind OpenRouter and others.
    ["chat", "Thinking budget is not supported for this model."],
    ["chat", "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level."],
    ["chat", "Thinking level is unsupported: THINKING_LEVEL_MINIMAL"],
    // vLLM's of Mistral's models.
    ["chat", "reasoning_effort=xhigh is not supported by Mistral models. Supported values are: ['none', 'high']."],
    [
      "chat",
      "Unsupported value: 'xhigh' is not supported with the 'gpt-5-mini' model. Supported values are: 'low', 'medium', and 'high'.",
    ],
  ])("%s: %s", async (dialect, words) => {
    const { path, asked, left, lost, reply } = DIALECTS[dialect];
    upstream.always(path, ({ json: body }) => (JSON.stringify(body).includes(effort) ? refusing(words) : json(reply)));
    const response = await gateway.post(path, { model: `${dialect}/m`, ...asked });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, lost]);
    const [first, second] = upstream.calls.map((one) => one.json as Wire);
    expect(first).toMatchObject(asked);
    expect(second).toMatchObject(left);
    expect(JSON.stringify(second)).not.toContain("effort");
    // Another depth may be one that it has.
    const other = JSON.parse(JSON.stringify(asked).replace(effort, "high")) as Wire;
    expect((await gateway.post(path, { model: `${dialect}/m`, ...other })).status).toBe(200);
    expect(upstream.calls.slice(2).map((one) => one.json)).toMatchObject([other]);
  });

  test.each([
    "Unsupported value: 'low' is not supported with the 'gpt-5-chat' model. Supported values are: 'medium'.",
    "Invalid value: 'original'. Supported values are: 'low', 'high', and 'auto'.",
  ])("what is refused of something else stays refused: %s", async (words) => {
    const { path, asked } = DIALECTS.responses;
    upstream.always(path, refusing(words));
    expect((await gateway.post(path, { model: "responses/m", ...asked })).status).toBe(400);
    expect(upstream.calls.length).toBe(1);
  });
});

test("how wordy it is to be is not told a model that is so in one way alone", async () => {
  const words =
    "Unsupported value: 'low' is not supported with the 'gpt-5.2-codex' model. Supported values are: 'medium'.";
  upstream.always("/v1/responses", ({ text }) =>
    text.includes("verbosity") ? refusing(words) : json(responsesReply("ok")),
  );
  const format = { type: "text" };
  const asked = { model: "responses/wordy", input: "Hi", reasoning: { effort }, text: { format, verbosity: "low" } };
  for (const attempts of ["2", null]) {
    const { status, headers } = await gateway.post("/v1/responses", asked);
    expect([status, headers.get("x-sluice-attempts"), headers.get("x-sluice-dropped")]).toEqual([
      ...[200, attempts, "text.verbosity"],
    ]);
  }
  expect(upstream.calls.at(-1)?.json).toMatchObject({ text: { format }, reasoning: { effort } });
});
