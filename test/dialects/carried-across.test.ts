import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";
import type { ClientName, Wire } from "./crossing.ts";

/** What reaches an upstream of another dialect, and its client, though it comes in an unusual place or order. */

let upstream: Upstream;
let gateway: TestApp;
beforeAll(async () => {
  upstream = startUpstream();
  gateway = await startApp({
    vendors: [
      vendorAt(upstream, "chat"),
      vendorAt(upstream, "messages"),
      vendorAt(upstream, "responses"),
      { ...vendorAt(upstream, "chat", "gemini"), dialect: "gemini" },
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

const GEMINI_PATH = "/v1/models/x:generateContent";
const geminiReply = (parts: Wire[]) =>
  json({
    candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1 },
  });

/** A client's request that says no more than "Hi". */
const asking = (client: ClientName, model: string, more: Wire = {}): Wire =>
  client === "responses"
    ? { model, input: "Hi", ...more }
    : {
        ...{ model, messages: [{ role: "user", content: "Hi" }] },
        ...(client === "messages" && { max_tokens: 99 }),
        ...more,
      };

test("a user's turn that is a film and nothing else reaches Gemini, which sees films; others are not asked", async () => {
  upstream.always(GEMINI_PATH, geminiReply([{ text: "A cat." }]));
  const film = { type: "video_url", video_url: { url: "data:video/mp4;base64,AAAAIGZ0eXBpc29t" } };
  const turn = { messages: [{ role: "user", content: [film] }] };
  const seen = await gateway.post("/v1/chat/completions", asking("chat", "gemini/x", turn));
  expect([seen.status, seen.headers.get("x-sluice-dropped")]).toEqual([200, null]);
  const parts = [{ inlineData: { mimeType: "video/mp4", data: "AAAAIGZ0eXBpc29t" } }];
  expect(upstream.calls[0]?.json).toMatchObject({ contents: [{ role: "user", parts }] });
  for (const model of ["messages/x", "responses/x"]) {
    const refused = await gateway.post("/v1/chat/completions", asking("chat", model, turn));
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { param: "messages[0].content[0]" } });
  }
  expect(upstream.calls).toHaveLength(1);
});

test.each<[string, Wire, string | null]>([
  ["both", { user: "bucket-7", safety_identifier: "ann" }, "user"],
  ["the newer alone", { safety_identifier: "ann" }, null],
  ["the older alone", { user: "ann" }, null],
])("whom OpenAI is to hold responsible is named as the client names it: %s", async (_which, said, dropped) => {
  upstream.always("/v1/responses", json({ id: "r", status: "completed", output: [], usage: {} }));
  const response = await gateway.post("/v1/chat/completions", asking("chat", "responses/x", said));
  expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
  expect(upstream.calls[0]?.json).toMatchObject({ safety_identifier: "ann" });
});
