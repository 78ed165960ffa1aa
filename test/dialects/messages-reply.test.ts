import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ERRORS, type ErrorCode, GatewayError } from "../../src/canon/errors.ts";
import type { Event } from "../../src/canon/events.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { faultOf } from "../support/fault.ts";
import { context, normalise } from "./diagonal.ts";
import { eventsOf } from "./messages-events.ts";

const decode = (body: unknown) => messages.decodeReply(body, { quirks: {} });

const finished = (block: Event[]): Event[] => [
  { type: "start" },
  ...block,
  { type: "finish", finish: { reason: "tool-calls" } },
];
const call = (text: string): Event[] => [
  { type: "block-start", block: { kind: "tool-call", id: "toolu_1", name: "f" } },
  ...(text === "" ? [] : [{ type: "block-delta", text } as const]),
  { type: "block-end" },
];

describe("whole replies", () => {
  test("decode(encode(events)) = events", () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const body = JSON.parse(JSON.stringify(messages.encodeReply(events, context)));
        expect(normalise(decode(body))).toEqual(normalise(events));
      }),
    );
  });

  test("a reply carries the asked model, an id of its own, and interface 2.4's fields", () => {
    const usage = { input: 3, cacheRead: 5, cacheWrite: 7, output: 11, reasoning: 0 };
    expect(
      messages.encodeReply(
        [
          { type: "start", id: "chatcmpl-1", model: "upstream-name" },
          { type: "block-start", block: { kind: "text" } },
          { type: "block-delta", text: "Hel" },
          { type: "block-delta", text: "lo" },
          { type: "block-end" },
          { type: "usage", usage },
          { type: "finish", finish: { reason: "length", raw: "length" } },
        ],
        context,
      ),
    ).toEqual({
      id: "msg_REPLY",
      type: "message",
      role: "assistant",
      model: "some/model-id",
      content: [{ type: "text", text: "Hello" }],
      stop_reason: "max_tokens",
      stop_sequence: null,
      usage: { input_tokens: 3, cache_creation_input_tokens: 7, cache_read_input_tokens: 5, output_tokens: 11 },
    });
  });

  test.each([
    ["", {}],
    ["null", {}],
    ['{"a":1}', { a: 1 }],
    ['"{\\"a\\":1}"', { a: 1 }],
    ["[1,2]", { value: [1, 2] }],
    ["7", { value: 7 }],
    ['{"a":', { value: '{"a":' }],
  ])("tool arguments %j become an object", (text, input) => {
    const reply = messages.encodeReply(finished(call(text)), context);
    expect(reply["content"]).toEqual([{ type: "tool_use", id: "toolu_1", name: "f", input }]);
    expect(reply["stop_reason"]).toBe("tool_use");
  });

  test("the vendor's own stop word survives when it means the same", () => {
    const reply = (raw: string) =>
      messages.encodeReply([{ type: "start" }, { type: "finish", finish: { reason: "stop", raw } }], context);
    expect(reply("pause_turn")["stop_reason"]).toBe("pause_turn");
    expect(reply("stop")["stop_reason"]).toBe("end_turn");
    expect(reply("max_tokens")["stop_reason"]).toBe("end_turn");
    expect(reply("constructor")["stop_reason"]).toBe("end_turn");
  });

  test("relabel changes the model and no other byte", () => {
    const text =
      '{ "id":"msg_1","type":"message", "role":"assistant", "model" : "upstream-name",\n "stop_reason":"end_turn", "stop_sequence":null, "content":[{"type":"new","n":12345678901234567890}] }';
    expect(messages.relabel(new JsonText(text), context)).toBe(text.replace('"upstream-name"', '"some/model-id"'));
  });

  test("relabel adds the id, type, role, stop reason and stop sequence that a message lacks", () => {
    const content = [{ type: "text", text: "a" }];
    expect(JSON.parse(messages.relabel(new JsonText(JSON.stringify({ content })), context))).toEqual({
      id: `msg_${context.replyId}`,
      type: "message",
      role: "assistant",
      model: context.model,
      content,
      stop_reason: "end_turn",
      stop_sequence: null,
    });
  });

  test("a model that says nothing has said so, also where its server writes null for no blocks (Ollama)", () => {
    const text =
      '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":null,"stop_reason":"max_tokens","stop_sequence":null}';
    expect(decode(JSON.parse(text))).toEqual([
      { type: "start", id: "msg_1", model: "m" },
      { type: "finish", finish: { reason: "length", raw: "max_tokens" } },
    ]);
    const shown = messages.relabel(new JsonText(text), context);
    expect(shown).toBe(text.replace('"m"', '"some/model-id"').replace("null", "[]"));
  });

  test("relabel makes an object of a call's input that is text or none, and says that there is a call", () => {
    const call = (input: string) => `{"type":"tool_use","id":"t","name":"f"${input}}`;
    const blocks = [
      call(""),
      call(',"input":"{\\"n\\":12345678901234567890}"'),
      call(',"input":{"n":12345678901234567890}'),
    ];
    const text = `{"id":"msg_1","type":"message","role":"assistant","content":[${blocks.join()}],"stop_reason":null}`;
    const { content, ...rest } = JSON.parse(messages.relabel(new JsonText(text), context)) as { content: unknown[] };
    expect(rest).toMatchObject({ stop_reason: "tool_use", model: context.model });
    expect(content).toHaveLength(3);
    const told = messages.relabel(new JsonText(text), context);
    expect([...told.matchAll(/"input":(\{[^}]*\})/g)].map(([, input]) => input)).toEqual([
      "{}",
      '{"n":12345678901234567890}',
      '{"n":12345678901234567890}',
    ]);
  });

  test.each([
    ["overloaded_error", "upstream_overloaded", "The vendor is overloaded"],
    ["rate_limit_error", "rate_limit_exceeded", "The vendor's rate limit"],
    ["billing_error", "upstream_error", "The vendor refused: this gateway's account there has no credit left."],
    ["authentication_error", "upstream_auth", "The vendor refused this gateway's credentials."],
    ["permission_error", "upstream_auth", "The vendor does not allow this gateway what was asked."],
    ["not_found_error", "upstream_error", "The vendor does not know this model or path."],
    ["invalid_request_error", "invalid_request", "The vendor refused the request. It says: x"],
    ["api_error", "upstream_error", "The vendor answered with a server error."],
  ])("an error inside a 200 is thrown as what it is: %s", (type, code, words) => {
    for (const body of [{ type: "error", error: { type, message: "x" } }, { error: { type, message: "x" } }]) {
      const error = faultOf(() => decode(body));
      expect(error.code as string).toBe(code);
      expect(error.message).toStartWith(words);
    }
  });

  test("what is no reply is an upstream error", () => {
    expect(faultOf(() => decode({ type: "error", message: "x", content: [] })).code).toBe("upstream_error");
    for (const body of [null, "<html>", [], {}, { content: "text" }]) {
      expect(faultOf(() => decode(body)).code).toBe("upstream_error");
    }
  });
});

describe("errors", () => {
  test("every code has contract 6's status and type, and its code inside", () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const { status, body } = messages.encodeError(new GatewayError(code, "prompt is too long: words"), "req_1");
      expect(body).toEqual({
        type: "error",
        error: { type: ERRORS[code].messagesType, message: "prompt is too long: words", code },
        request_id: "req_1",
      });
      expect(status).toBe(code === "upstream_overloaded" ? 529 : ERRORS[code].status);
    }
  });

  test("param and extra fields are shown, the cause is not, and extra cannot hide the type", () => {
    const error = new GatewayError("insufficient_quota", "No credit.", {
      param: "max_tokens",
      extra: { affordable_output_tokens: 12, type: "mine" },
      cause: "secret",
    });
    const { body } = messages.encodeError(error, "req_1");
    expect(body["error"]).toEqual({
      type: "billing_error",
      message: "No credit.",
      code: "insufficient_quota",
      param: "max_tokens",
      affordable_output_tokens: 12,
    });
    expect(JSON.stringify(body)).not.toContain("secret");
  });

  test("an overflow always begins as agents know it", () => {
    const { body } = messages.encodeError(new GatewayError("context_length_exceeded", "9 tokens > 8 maximum"), "r");
    expect(body["error"]).toMatchObject({ message: "prompt is too long: 9 tokens > 8 maximum" });
  });

  test("in a stream an error is one record of two lines", () => {
    const frame = messages.encodeErrorFrame(new GatewayError("stream_truncated", "Line\nbreak"), "req_1");
    expect(frame).toMatch(/^event: error\ndata: \{.*\}\n\n$/);
    expect(messages.ping).toBe('event: ping\ndata: {"type": "ping"}\n\n');
  });

  test("an upstream's answer is read through its body", () => {
    const body = JSON.stringify({
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 201 tokens > 200 maximum" },
    });
    expect(messages.decodeError(400, body, undefined).code).toBe("context_length_exceeded");
    expect(messages.decodeError(401, "{}", undefined).code).toBe("upstream_auth");
    expect(messages.decodeError(529, "<html>", undefined).code).toBe("upstream_overloaded");
  });
});
