import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { PLAIN_MS } from "../../src/relay/lessons/plain-servers.ts";
import { PRICED, startPayingLab } from "../scenarios/paying.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { type Call, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const UNVERIFIED =
  "Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.";
const UNSTREAMED = "'stream' is not supported";
const parameters = { type: "object", properties: {} };
const user = { role: "user", content: "Hi" };
const CLIENTS: Record<string, Wire> = {
  "/v1/chat/completions": { messages: [user], tools: [{ type: "function", function: { name: "find", parameters } }] },
  "/v1/messages": { max_tokens: 100, messages: [user], tools: [{ name: "find", input_schema: parameters }] },
  "/v1/responses": { input: "Hi", tools: [{ type: "function", name: "find", parameters }] },
};
const call = { id: "call_1", type: "function", function: { name: "find", arguments: '{"a":1}' } };
const CHAT_REPLY = {
  ...{ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "m" },
  choices: [
    { index: 0, message: { role: "assistant", content: "Good day", tool_calls: [call] }, finish_reason: "stop" },
  ],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};
const NEWER_REPLY = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m" },
  output: [
    {
      ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
      content: [{ type: "output_text", text: "Good day", annotations: [] }],
    },
    { type: "function_call", id: "fc_1", call_id: "call_1", name: "find", arguments: '{"a":1}', status: "completed" },
  ],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
};

const refuse = (message: string) => ({ error: { message, type: "invalid_request_error", param: "stream" } });
const isStreamed = (body: unknown) => (body as Wire)["stream"] === true;
/** A vendor that gives whole replies alone. */
const unstreaming = (message: string, reply: Wire) => (call: Call) =>
  isStreamed(call.json) ? json(refuse(message), { status: 400 }) : json(reply);

describe("a vendor that refuses to stream", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const clock = manualClock();
  let models = 0;
  beforeAll(async () => {
    upstream = startUpstream();
    const newer = vendorAt(upstream, "responses", "newer", { customTools: true });
    gateway = await startApp({ clock, vendors: [vendorAt(upstream, "chat", "lab"), newer] });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const streams = () => upstream.calls.splice(0).map((asked) => isStreamed(asked.json));

  for (const [vendor, path, message, reply] of [
    ["lab", "/v1/chat/completions", UNSTREAMED, CHAT_REPLY],
    ["lab", "/v1/chat/completions", UNVERIFIED, CHAT_REPLY],
    ["newer", "/v1/responses", UNVERIFIED, NEWER_REPLY],
  ] as const)
    test.each(Object.keys(CLIENTS))(
      `is asked for the whole reply (${vendor}: ${message.slice(0, 20)}): %s`,
      async (client) => {
        upstream.always(path, unstreaming(message, reply));
        const ask = async () => {
          const response = await gateway.post(client, { model, ...CLIENTS[client], stream: true });
          return [response.status, response.headers.get("content-type"), await response.text()] as const;
        };
        const model = `${vendor}/m${models++}`;
        for (const tries of [[true, false], [false]]) {
          const [status, type, text] = await ask();
          expect([status, type]).toEqual([200, "text/event-stream; charset=utf-8"]);
          expect(text).toContain("Good day");
          expect(text).toMatch(/"name":"find"/);
          expect(text).toMatch(/\[DONE\]|event: message_stop|event: response.completed/);
          expect(streams()).toEqual(tries);
        }
        await clock.advance(PLAIN_MS);
        await ask();
        expect(streams()).toEqual([true, false]);
      },
    );

  test("is not, of what the events of a whole reply do not tell", async () => {
    upstream.always("/v1/chat/completions", unstreaming(UNSTREAMED, CHAT_REPLY));
    const asked = { model: `lab/m${models++}`, messages: [user], stream: true };
    for (const more of [{ logprobs: true }, { n: 2 }])
      expect((await gateway.post("/v1/chat/completions", { ...asked, ...more })).status).toBe(400);
    expect(streams()).toEqual([true, true]);
  });
});

test("a reply that is paid for while it is made is not asked for whole", async () => {
  const lab = await startPayingLab();
  try {
    await lab.fund(1_000_000_000n);
    lab.vendors.chat.always("/v1/chat/completions", unstreaming(UNSTREAMED, CHAT_REPLY));
    const asked = { model: PRICED.chat, messages: [user], stream: true };
    expect((await lab.gateway.post("/v1/chat/completions", asked)).status).toBe(400);
    expect(lab.vendors.chat.calls.map((call) => isStreamed(call.json))).toEqual([true]);
    expect(lab.wallet()).toEqual({ posted: 1_000_000_000n, held: 0n });
  } finally {
    await lab.stop();
  }
});
