import { afterAll, beforeAll, expect, test } from "bun:test";
import { startApp, type TestApp } from "../support/app.ts";

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

async function lookFor(path: string) {
  const response = await app.post(path, { model: "sluice/echo", messages: [] });
  const { error } = (await response.json()) as { error: { message: string; code?: string } };
  return { status: response.status, message: error.message };
}

test.each([
  ["/chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/v1/v1/chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/v1/chat/completions/", "/v1/chat/completions", "ends in /v1"],
  ["/v1//chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/responses", "/v1/responses", "ends in /v1"],
  ["/responses/input_tokens", "/v1/responses/input_tokens", "ends in /v1"],
  ["/v1/v1/messages", "/v1/messages", "without /v1"],
  ["/v1/v1/messages/count_tokens", "/v1/messages/count_tokens", "without /v1"],
  // Its client appends no /v1, so that the address alone would lead it here again.
  ["/messages", "/v1/messages", "ends in /v1"],
  ["/messages/count_tokens", "/v1/messages/count_tokens", "ends in /v1"],
  // A program's field for the base URL was given an endpoint of this gateway, or another provider's address with the host changed alone.
  ["/v1/chat/completions/chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/v1/chat/completions/v1/chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/v1/chat/completions/models", "/v1/models", "ends in /v1"],
  ["/v1/responses/responses", "/v1/responses", "ends in /v1"],
  ["/v1/messages/v1/messages", "/v1/messages", "without /v1"],
  ["/v1/messages/v1/messages/count_tokens", "/v1/messages/count_tokens", "without /v1"],
  ["/v1/messages/messages", "/v1/messages", "ends in /v1"],
  ["/api/v1/chat/completions", "/v1/chat/completions", "ends in /v1"],
  ["/openai/v1/responses", "/v1/responses", "ends in /v1"],
  ["/anthropic/v1/messages", "/v1/messages", "without /v1"],
  ["/mcp", "/mcp/web", "at this path alone"],
  ["/mcp/web/", "/mcp/web", "at this path alone"],
  ["/sse", "/mcp/web", "at this path alone"],
])("%s is told of %s", async (path, meant, base) => {
  const { status, message } = await lookFor(path);
  expect(status).toBe(404);
  expect(message).toContain(`Did you mean ${meant}?`);
  expect(message).toContain(base);
});

test.each(["/v1/completions", "/v1/embeddings", "/", "/v1", "/v1/", "/api/chat", "/v1/chat", "/v1/messages/batches"])(
  "%s is nearly nothing, and told so or otherwise",
  async (path) => {
    const response = await app.post(path, {});
    expect(response.status).toBeGreaterThanOrEqual(404);
    expect(await response.text()).not.toContain("Did you mean");
  },
);

test.each([
  ["/v1/embeddings", "Embeddings are not served."],
  ["/v1/completions", "Text completions are not served: models are asked at /v1/chat/completions."],
  ["/v1/audio/speech", "Speech is not served."],
  ["/v1/audio/transcriptions", "Transcription is not served."],
  ["/v1/moderations", "Moderation is not served."],
  ["/v1/rerank", "Reranking is not served."],
])("%s: %s", async (path, words) => {
  expect(await lookFor(path)).toEqual({ status: 404, message: `There is nothing at this path. ${words}` });
});
