import { afterAll, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

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
  gateway = await startApp({ vendors: [vendorAt(upstream, "messages", "lab")], models });
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
