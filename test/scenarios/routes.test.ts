import { afterAll, beforeEach, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, sse, startUpstream } from "../support/upstream.ts";

const upstream = startUpstream();
const REPLY = chatReply("Yes.");
const apps: TestApp[] = [];

async function appWith(...options: Parameters<typeof startApp>): Promise<TestApp> {
  const app = await startApp(...options);
  apps.push(app);
  return app;
}

beforeEach(() => upstream.reset());
afterAll(async () => {
  for (const app of apps) await app.stop();
  upstream.close();
});

const ask = { messages: [{ role: "user", content: "Well?" }], seed: 7, temperature: 0.5, user: "u" };

test("a field that the model refuses is taken out and named, the rest arrives", async () => {
  upstream.always("/v1/chat/completions", json(REPLY));
  const app = await appWith({
    vendors: [vendorAt(upstream, "chat", "lab")],
    models: [{ id: "lab/strict", refuses: ["seed", "logprobs"] }],
  });
  const response = await app.post("/v1/chat/completions", { ...ask, model: "lab/strict" });
  expect(response.status).toBe(200);
  expect(response.headers.get("x-sluice-dropped")).toBe("seed");
  expect(upstream.calls[0]?.json).toEqual({ model: "strict", messages: ask.messages, temperature: 0.5, user: "u" });
});

test("sampling that goes while a model reasons is named; without reasoning nothing is", async () => {
  upstream.always("/v1/chat/completions", json(REPLY));
  const app = await appWith({
    vendors: [vendorAt(upstream, "chat", "lab")],
    models: [{ id: "lab/thinker", reasoning_efforts: { levels: ["low", "high"], default: "low" } }],
  });
  const thinking = await app.post("/v1/chat/completions", { ...ask, model: "lab/thinker", reasoning_effort: "high" });
  expect(thinking.headers.get("x-sluice-dropped")).toBe("temperature");
  const plain = await app.post("/v1/chat/completions", { ...ask, model: "lab/thinker" });
  expect(plain.headers.has("x-sluice-dropped")).toBe(false);
  expect(upstream.calls.map((call) => (call.json as { temperature?: number }).temperature)).toEqual([undefined, 0.5]);
});

test("a route may name the dialect in which its vendor serves the model best", async () => {
  upstream.always("/v1/chat/completions", json(REPLY));
  const vendor = { ...vendorAt(upstream, "responses", "openai"), models: "catalog" as const };
  const app = await appWith({ vendors: [vendor] });
  const response = await app.post("/v1/chat/completions", { ...ask, model: "openai/gpt-4o" });
  expect(response.status).toBe(200);
  expect(response.headers.has("x-sluice-dropped")).toBe(false);
  expect(upstream.calls.map((call) => call.path)).toEqual(["/v1/chat/completions"]);
  expect(upstream.calls[0]?.json).toEqual({ ...ask, model: "gpt-4o" });
  expect(upstream.unexpected).toEqual([]);
});

test("a vendor's own words about its model are told of the model that was asked for", async () => {
  const text = "The model hidden-weights-7b does not take temperature";
  upstream.always(
    "/v1/chat/completions",
    json({ error: { message: text, type: "invalid_request_error" } }, { status: 400 }),
  );
  const app = await appWith({
    vendors: [vendorAt(upstream, "chat", "lab")],
    models: [{ id: "lab/open", routes: [{ vendor: "lab", model: "hidden-weights-7b" }] }],
  });
  const response = await app.post("/v1/chat/completions", { ...ask, model: "lab/open" });
  expect(response.status).toBe(400);
  const body = await response.text();
  expect(body).toContain("The model lab/open does not take temperature");
  expect(body).not.toContain("hidden-weights");
  expect(app.rows()).toEqual([]);
});

test("a book that cannot be closed changes nothing of what the client is told, and leaves nothing running", async () => {
  upstream.always("/v1/chat/completions", json({ error: { message: "No." } }, { status: 400 }));
  const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
  const broken = () => Promise.reject(new Error("no room on the disk"));
  const hold = {
    ceiling: undefined,
    short: false,
    asStream: false,
    growAt: Number.POSITIVE_INFINITY,
    extend: () => true,
  };
  app.app.services.ledger = { hold: async () => ({ ...hold, settle: broken, release: broken }) };
  const response = await app.post("/v1/chat/completions", { ...ask, model: "lab/any" });
  expect(response.status).toBe(400);
  expect(app.app.running.count).toBe(0);
  expect(app.log.some((line) => line["event"] === "settle" && line["level"] === "error")).toBe(true);
});

test("an answer nested beyond the stack is the vendor's fault, and costs nothing", async () => {
  const depth = 200_000;
  const input = `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  const reply = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"f","input":${input}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`;
  const headers = { "content-type": "application/json" };
  upstream.always("/v1/messages", { status: 200, headers, parts: [reply], framing: "length", finish: "end" });
  const app = await appWith({ vendors: [vendorAt(upstream, "messages", "lab")] });
  const response = await app.post("/v1/chat/completions", { messages: ask.messages, model: "lab/any" });
  expect([response.status, app.rows()]).toEqual([502, []]);
});

const SILENT_ON_USAGE = [
  {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: { role: "assistant", content: "Twelve letters" }, finish_reason: null }],
  },
  {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: {}, finish_reason: "stop" }],
  },
];
const UNCOUNTED = `${SILENT_ON_USAGE.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;

test("a vendor that sends no counts: the client is told what it is billed", async () => {
  upstream.always("/v1/chat/completions", sse(UNCOUNTED));
  const app = await appWith({ vendors: [vendorAt(upstream, "chat", "lab")] });
  const stream = { messages: ask.messages, model: "lab/any", stream: true };
  const chat = await app.post("/v1/chat/completions", { ...stream, stream_options: { include_usage: true } });
  const told = /"prompt_tokens":(\d+),"completion_tokens":(\d+)/.exec(await chat.text());
  const messages = await app.post("/v1/messages", { ...stream, max_tokens: 9 });
  const delta = /event: message_delta\ndata: (.*)/.exec(await messages.text());
  const usage = (JSON.parse(delta?.[1] ?? "{}") as { usage: Record<string, number> }).usage;
  const rows = app.rows().map(({ input, output, estimated }) => ({ input, output, estimated }));
  expect(rows).toEqual([
    { input: Number(told?.[1]), output: Number(told?.[2]), estimated: true },
    { input: usage["input_tokens"] ?? 0, output: usage["output_tokens"] ?? 0, estimated: true },
  ]);
  expect(rows[0]?.output).toBe(4);
});
