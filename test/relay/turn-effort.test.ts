import { afterAll, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const reasoning_efforts = { levels: ["low", "medium", "high"], default: "medium" };
const row = (id: string, vendor: string, form: "adaptive-effort" | "effort") => ({
  ...{ id, reasoning_efforts, reasoning: { form } },
  routes: [{ vendor, model: id.slice(4) }],
});

let upstream: Upstream;
let app: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  const models = [row("lab/claude-opus-5-5", "own", "adaptive-effort"), row("lab/other", "other", "effort")];
  app = await startApp({
    vendors: [vendorAt(upstream, "messages", "own"), vendorAt(upstream, "chat", "other")],
    models,
  });
  const choices = [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  upstream.always("/v1/chat/completions", json({ id: "c", object: "chat.completion", model: "m", choices, usage }));
  const whole = { id: "m", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" };
  const content = [{ type: "text", text: "ok" }];
  upstream.always("/v1/messages", json({ ...whole, content, usage: { input_tokens: 1, output_tokens: 1 } }));
});
afterAll(async () => {
  await app.stop();
  upstream.close();
});

const ask = (model: string) => {
  const output_config = { effort: "high" };
  const messages = [
    { role: "user", content: "Plan it." },
    { role: "assistant", content: "So." },
    { role: "system", content: [], output_config: { effort: "low" } },
    { role: "user", content: "Sum it up." },
  ];
  return { model, max_tokens: 100, thinking: { type: "adaptive" }, output_config, messages };
};

test("an effort that a conversation has set since is its own vendor's to read, where it stands", async () => {
  const asked = ask("lab/claude-opus-5-5");
  const response = await app.post("/v1/messages", asked);
  expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
  const { model: _model, ...sent } = upstream.calls.at(-1)!.json as Wire;
  const { model: _asked, ...said } = asked;
  expect(sent).toEqual(said);
});

test("and what a vendor of another dialect is asked for", async () => {
  const response = await app.post("/v1/messages", ask("lab/other"));
  expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
  expect(upstream.calls.at(-1)!.json).toMatchObject({ reasoning_effort: "low" });
});
