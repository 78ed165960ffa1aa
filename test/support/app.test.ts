import { afterEach, beforeEach, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "./app.ts";
import { json, startUpstream, type Upstream } from "./upstream.ts";

let upstream: Upstream;
let gateway: TestApp;
beforeEach(async () => {
  upstream = startUpstream();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")] });
});
afterEach(async () => {
  await gateway.stop();
  upstream.close();
});

const REPLY = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "tiny",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

test("a request goes through the front door to the scripted vendor and into the ledger", async () => {
  upstream.always("/v1/chat/completions", json(REPLY));
  const body = { model: "lab/tiny", messages: [{ role: "user", content: "Hi" }] };
  const response = await gateway.post("/v1/chat/completions", body);
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual({ ...REPLY, model: "lab/tiny" });
  expect(upstream.calls.map((call) => [call.headers["authorization"], call.json])).toEqual([
    ["Bearer vendor-key-of-lab", { ...body, model: "tiny" }],
  ]);
  expect(upstream.unexpected).toEqual([]);
  const [row, ...more] = gateway.rows();
  expect(more).toEqual([]);
  expect(row).toMatchObject({ accountId: gateway.accountId, model: "lab/tiny", vendor: "lab", outcome: "completed" });
  expect(row).toMatchObject({ input: 3, output: 2, estimated: false, attempts: 1 });
});

test("without the key nothing reaches the vendor or the ledger", async () => {
  const response = await gateway.call("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"model":"lab/tiny","messages":[{"role":"user","content":"Hi"}]}',
  });
  expect(response.status).toBe(401);
  expect([upstream.calls, gateway.rows()]).toEqual([[], []]);
});

test("a vendor found after the start is called, and asked for its models", async () => {
  const late = startUpstream();
  try {
    late.always("/v1/models", json({ object: "list", data: [{ id: "small", object: "model" }] }));
    late.always("/v1/chat/completions", json({ ...REPLY, model: "small" }));
    const ask = (model: string) =>
      gateway.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "Hi" }] });
    expect((await ask("found/small")).status).toBe(404);
    gateway.app.addVendor({ ...vendorAt(late, "chat", "found"), models: "discover" });
    expect(await gateway.app.discovery.askAll()).toBe(true);
    expect((await ask("found/small")).status).toBe(200);
    expect((await ask("found/other")).status).toBe(404);
    // One that is on is not replaced.
    gateway.app.addVendor({ ...vendorAt(late, "chat", "lab") });
    upstream.always("/v1/chat/completions", json(REPLY));
    expect((await ask("lab/tiny")).status).toBe(200);
    expect(late.calls.map((call) => call.path)).toEqual(["/v1/models", "/v1/chat/completions"]);
  } finally {
    late.close();
  }
});
