import { describe, expect, test } from "bun:test";
import { gemini } from "../../src/dialects/gemini/index.ts";
import { faultOf } from "../support/fault.ts";
import { plain } from "./gemini-run.ts";

const decode = (body: unknown) => plain(gemini.decodeReply(body, { quirks: {} }));

const REPLY = {
  candidates: [
    {
      content: {
        role: "model",
        parts: [
          { text: "Hm.", thought: true },
          { text: "Ulm: ", thoughtSignature: "dGV4dA==" },
          { functionCall: { id: "fc-1", name: "weather", args: { city: "Ulm" } } },
        ],
      },
      finishReason: "STOP",
      index: 0,
    },
  ],
  usageMetadata: { promptTokenCount: 40, cachedContentTokenCount: 32, candidatesTokenCount: 6, thoughtsTokenCount: 3 },
  modelVersion: "vendor-model-1",
  responseId: "resp-1",
};

describe("whole replies", () => {
  test("are a short stream", () => {
    const events = [
      { type: "start", id: "resp-1", model: "vendor-model-1" },
      { type: "block-start", block: { kind: "reasoning" } },
      { type: "block-delta", text: "Hm." },
      { type: "block-signature", signature: "gm:text:dGV4dA==" },
      { type: "block-end" },
      { type: "block-start", block: { kind: "text" } },
      { type: "block-delta", text: "Ulm: " },
      { type: "block-end" },
      { type: "block-start", block: { kind: "tool-call", id: "fc-1", name: "weather" } },
      { type: "block-delta", text: '{"city":"Ulm"}' },
      { type: "block-end" },
      { type: "usage", usage: { input: 8, cacheRead: 32, cacheWrite: 0, output: 9, reasoning: 3 } },
      { type: "finish", finish: { reason: "tool-calls", raw: "STOP" } },
    ];
    expect(decode(REPLY)).toEqual(events);
    expect(decode([REPLY])).toEqual(events);
  });

  test("a blocked prompt is an answer without content, not an error", () => {
    expect(decode({ promptFeedback: { blockReason: "SAFETY" } })).toEqual([
      { type: "start" },
      { type: "finish", finish: { reason: "content-filter", raw: "SAFETY" } },
    ]);
  });

  test("why it declined is said where the vendor says it", () => {
    const promptFeedback = { blockReason: "PROHIBITED_CONTENT", blockReasonMessage: "Not this." };
    expect(decode({ promptFeedback }).at(-1)).toEqual({
      type: "finish",
      finish: { reason: "content-filter", raw: "PROHIBITED_CONTENT", explanation: "Not this." },
    });
    const candidate = { content: { parts: [{ text: "So" }] }, finishMessage: "Cited too much." };
    expect(decode({ candidates: [{ ...candidate, finishReason: "RECITATION" }] }).at(-1)).toMatchObject({
      finish: { reason: "content-filter", explanation: "Cited too much." },
    });
    expect(decode({ candidates: [{ ...candidate, finishReason: "STOP" }] }).at(-1)).toEqual({
      type: "finish",
      finish: { reason: "stop", raw: "STOP" },
    });
  });

  test("what is no reply is an error", () => {
    for (const body of [undefined, null, "text", {}, [], { candidates: {} }, { choices: [] }, { candidates: [] }]) {
      expect(faultOf(() => decode(body)).code).toBe("upstream_error");
    }
  });

  test("one that does not say why it ended, or that went wrong, is an error", () => {
    const withReason = (reason?: string) => ({
      candidates: [{ content: { parts: [{ text: "a" }] }, finishReason: reason }],
    });
    expect(decode(withReason("STOP")).at(-1)).toMatchObject({ type: "finish" });
    expect(faultOf(() => decode(withReason())).code).toBe("upstream_error");
    expect(faultOf(() => decode(withReason("MALFORMED_FUNCTION_CALL"))).retry).toBe(true);
    const [candidate] = withReason("MALFORMED_FUNCTION_CALL").candidates;
    const told = { candidates: [{ ...candidate, finishMessage: "Malformed function call:\nprint(x)" }] };
    expect(faultOf(() => decode(told)).message).toBe(
      "The vendor ended its answer with MALFORMED_FUNCTION_CALL: Malformed function call: print(x)",
    );
  });

  test("an error inside a 200 is what it says", () => {
    const error = { code: 503, message: "overloaded", status: "UNAVAILABLE" };
    expect(faultOf(() => decode({ error })).code).toBe("upstream_overloaded");
    expect(faultOf(() => decode([{ error }])).code).toBe("upstream_overloaded");
  });
});

describe("error answers", () => {
  const errorOf = (status: number, error: object, retryAfter?: number) =>
    gemini.decodeError(status, JSON.stringify({ error: { code: status, ...error } }), retryAfter);
  const info = (reason: string) => [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }];
  const delay = (retryDelay: string) => [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }];

  test.each([
    ["API_KEY_INVALID", "API key not valid. Please pass a valid API key.", info("API_KEY_INVALID")],
    ["an expired key", "API key expired. Please renew the API key.", info("API_KEY_INVALID")],
    ["a key for other services", "Requests to this API are blocked.", info("API_KEY_SERVICE_BLOCKED")],
    ["a wrong key without details", "API key not valid. Please pass a valid API key.", undefined],
  ])("%s is the gateway's fault, though it comes as 400", (_name, message, details) => {
    const error = errorOf(400, { message, status: "INVALID_ARGUMENT", ...(details && { details }) });
    expect(error.code).toBe("upstream_auth");
    expect(error.message).not.toContain("API key");
  });

  test("other bad requests are the request's, with the vendor's reason", () => {
    const message = 'Invalid JSON payload received. Unknown name "id"';
    const error = errorOf(400, { message, status: "INVALID_ARGUMENT", details: info("BAD_FIELD") });
    expect(error.code).toBe("invalid_request");
    expect(error.message).toContain("Unknown name");
  });

  test.each([
    ["34.4s", undefined, 35],
    ["0.2s", undefined, 1],
    ["3000s", undefined, 60],
    ["7s", 3, 3],
    ["soon", undefined, 1],
  ])("a delay of %s with a header of %p is %i s", (text, header, seconds) => {
    const error = errorOf(429, { message: "Quota", status: "RESOURCE_EXHAUSTED", details: delay(text) }, header);
    expect(error.code).toBe("rate_limit_exceeded");
    expect(error.retryAfterSeconds).toBe(seconds);
  });

  test("a prompt that is too long keeps the words agents know", () => {
    const message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    const error = errorOf(400, { message, status: "INVALID_ARGUMENT" });
    expect(error.code).toBe("context_length_exceeded");
    expect(error.message).toStartWith("prompt is too long: 1200000 tokens > 1048576 maximum");
  });

  test("a list around the error, a page and nothing", () => {
    const listed = JSON.stringify([
      { error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" } },
    ]);
    expect(gemini.decodeError(400, listed, undefined).code).toBe("upstream_auth");
    expect(gemini.decodeError(502, "<html>internal.example</html>", undefined).code).toBe("upstream_overloaded");
    expect(gemini.decodeError(500, "", undefined).message).not.toContain("undefined");
    expect(gemini.decodeError(403, "{}", undefined).code).toBe("upstream_auth");
    expect(gemini.decodeError(404, "{}", undefined).code).toBe("upstream_error");
  });
});
