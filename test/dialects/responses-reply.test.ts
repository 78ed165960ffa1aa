import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Event } from "../../src/canon/events.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { context, normalise, plain } from "./diagonal.ts";
import { eventsOf } from "./responses-events.ts";
import { clientOf, encode, run } from "./responses-run.ts";

const decode = (body: unknown) => responses.decodeReply(body, { quirks: {} });
const terminalOf = (events: readonly Event[]): Record<string, unknown> => {
  const data = encode(events).trimEnd().split("\n").at(-1) ?? "";
  return (JSON.parse(data.slice("data: ".length)) as { response: Record<string, unknown> }).response;
};

/** Every field that the SDK's type of a response demands, save the one that the SDK itself makes. */
const DEMANDED =
  "id access_programs created_at error incomplete_details instructions metadata model object output parallel_tool_calls temperature tool_choice tools top_p".split(
    " ",
  );

describe("whole replies", () => {
  test("decode(encode(events)) = events", () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const reply = JSON.parse(JSON.stringify(responses.encodeReply(events, context)));
        expect(normalise(decode(reply))).toEqual(normalise(events));
      }),
    );
  });

  test("a whole reply is what a stream's terminal record shows", () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const reply = JSON.parse(JSON.stringify(responses.encodeReply(events, context)));
        expect(reply).toEqual(terminalOf(events));
        for (const field of DEMANDED) expect(Object.keys(reply)).toContain(field);
      }),
      { numRuns: 30 },
    );
  });

  test("the SDK reads text and calls", async () => {
    const reply = responses.encodeReply(
      [
        { type: "start" },
        { type: "block-start", block: { kind: "text" } },
        { type: "block-delta", text: "Hello" },
        { type: "block-end" },
        { type: "block-start", block: { kind: "tool-call", id: "call_1", name: "f" } },
        { type: "block-end" },
        { type: "finish", finish: { reason: "tool-calls" } },
      ],
      context,
    );
    const client = clientOf(JSON.stringify(reply), "application/json");
    const response = await client.responses.create({ model: "any", input: "x" });
    expect(response.output_text).toBe("Hello");
    expect(response.output[1]).toMatchObject({ type: "function_call", call_id: "call_1", name: "f", arguments: "{}" });
    expect(response.model).toBe("some/model-id");
    expect(response.status).toBe("completed");
  });

  test("the diagonal changes the model and no other byte", () => {
    const text = '{ "id":"resp_1","big":12345678901234567890, "model" : "vendor-1","output":[{"model":"vendor-1"}] }';
    expect(responses.relabel(new JsonText(text), context)).toBe(
      text.replace('"model" : "vendor-1"', '"model" : "some/model-id"'),
    );
  });

  test("an item's state that is none is left out, whole and of a stream's last record, and others stay", () => {
    const items =
      '[{"type":"reasoning","id":"rs_1","summary":[],"status":null},{"type":"message","status":"completed","role":"assistant","content":[]}]';
    const told =
      '[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"message","status":"completed","role":"assistant","content":[]}]';
    const text = `{"id":"resp_1","status":"completed","error":null,"model":"vendor-1","output":${items}}`;
    const whole = text.replace(items, told).replace("vendor-1", "some/model-id");
    expect(responses.relabel(new JsonText(text), context)).toBe(whole);
    const { relabeled } = run([`data: {"type":"response.completed","response":${text}}\n\n`]);
    expect(relabeled).toContain(`"output":${told}`);
  });

  test("what is no finished response is an upstream error", () => {
    for (const body of [
      null,
      [],
      "x",
      {},
      { output: 1 },
      { output: [], status: "in_progress" },
      { output: [], status: "queued" },
    ]) {
      expect(() => decode(body)).toThrow(GatewayError);
    }
    expect(() => decode({ output: [], status: "cancelled" })).toThrow("cancelled");
  });

  test("an error inside a 200 means what it says", () => {
    const codeOf = (body: unknown) => {
      try {
        decode(body);
      } catch (thrown) {
        return (thrown as GatewayError).code;
      }
      return undefined;
    };
    expect(codeOf({ error: { message: "slow", type: "rate_limit_error", code: "rate_limit_exceeded" } })).toBe(
      "rate_limit_exceeded",
    );
    // A text (xAI), and fields that stand flat (vLLM).
    expect(codeOf({ error: "Rate limit exceeded", code: "429" })).toBe("rate_limit_exceeded");
    expect(codeOf({ object: "error", message: "slow", type: "rate_limit_error", code: 429 })).toBe(
      "rate_limit_exceeded",
    );
    expect(codeOf({ type: "error", message: "slow", code: "rate_limit_exceeded" })).toBe("rate_limit_exceeded");
    expect(codeOf({ status: "failed", output: [], error: { code: "server_error", message: "x" } })).toBe(
      "upstream_error",
    );
    expect(codeOf({ status: "failed", output: [], error: { code: "invalid_image_url", message: "x" } })).toBe(
      "invalid_request",
    );
    expect(codeOf({ status: "completed", output: [], error: null })).toBeUndefined();
  });

  test("incomplete replies say why", () => {
    const finishOf = (details: unknown) =>
      decode({ status: "incomplete", output: [], incomplete_details: details }).at(-1);
    expect(finishOf({ reason: "max_output_tokens" })).toEqual({
      type: "finish",
      finish: { reason: "length", raw: "max_output_tokens" },
    });
    expect(finishOf({ reason: "content_filter" })).toEqual({
      type: "finish",
      finish: { reason: "content-filter", raw: "content_filter" },
    });
    expect(finishOf(null)).toEqual({ type: "finish", finish: { reason: "length", raw: "incomplete" } });
    expect(finishOf({ reason: "steered" })).toEqual({ type: "finish", finish: { reason: "stop", raw: "steered" } });
  });

  test("hostile counts never become negative or more than the whole", () => {
    const usageOf = (usage: unknown) => decode({ output: [], usage }).find((event) => event.type === "usage")?.usage;
    expect(
      usageOf({
        input_tokens: 5,
        input_tokens_details: { cached_tokens: 99, cache_write_tokens: 7 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 50 },
      }),
    ).toEqual({ input: 0, cacheRead: 5, cacheWrite: 0, output: 2, reasoning: 2 });
    expect(usageOf({ input_tokens: -5, output_tokens: "nine" })).toBeUndefined();
    expect(usageOf(null)).toBeUndefined();
  });
});

describe("errors", () => {
  test("have the chat dialect's shape and status (contract 6)", async () => {
    const error = new GatewayError("upstream_overloaded", "Busy.", { param: "x", extra: { reset: 1 } });
    const { status, body } = responses.encodeError(error, "req_1");
    expect(status).toBe(503);
    expect(body).toEqual({
      error: { message: "Busy.", type: "server_error", param: "x", code: "upstream_overloaded", reset: 1 },
    });
    const client = clientOf(JSON.stringify(body), "application/json", status);
    const asking = (async () => client.responses.create({ model: "any", input: "x" }))();
    await expect(asking).rejects.toMatchObject({ status: 503, code: "upstream_overloaded" });
  });

  test("an upstream's error answer is read as everywhere", () => {
    expect(responses.decodeError(401, '{"error":{"message":"bad key sk-abcdefgh"}}', undefined).code).toBe(
      "upstream_auth",
    );
    expect(plain([{ type: "error", error: responses.decodeError(429, "", 3) }])).toEqual([
      { type: "error", code: "rate_limit_exceeded" },
    ]);
  });
});
