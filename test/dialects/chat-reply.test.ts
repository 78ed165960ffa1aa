import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ERRORS, type ErrorCode, GatewayError } from "../../src/canon/errors.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { eventList } from "./chat-events.ts";
import { CONTEXT, decodeText, encodeText, outcomeOf, recordsOf, relabelText, summarize } from "./chat-run.ts";
import { grammarFault } from "./diagonal.ts";

type Wire = Record<string, unknown>;

const REPLY = {
  id: "c1",
  object: "chat.completion",
  created: 7,
  model: "tiny-1",
  choices: [
    { index: 0, message: { role: "assistant", content: "Four", refusal: null }, logprobs: null, finish_reason: "stop" },
  ],
  usage: { prompt_tokens: 20, completion_tokens: 6, total_tokens: 26, cost: 0.1 },
};

const replyWith = (message: Wire, choice: Wire = {}) => ({
  ...REPLY,
  choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: "stop", ...choice }],
});

const read = (body: unknown, quirks: Quirks = {}) => summarize(chat.decodeReply(body, { quirks }));

describe("a vendor's whole reply", () => {
  test("is its first choice, also where none says that it is the first", () => {
    const [choice] = REPLY.choices;
    for (const index of [undefined, 1])
      expect(read({ ...REPLY, choices: [{ ...choice, index }] })).toEqual(read(REPLY));
  });

  test("means the same as the same reply in a stream", () => {
    expect(read(REPLY)).toEqual(["start", 'text "Four"', "usage 20 0 0 6 0", "finish stop"]);
    fc.assert(
      fc.property(eventList, (events) => {
        const whole = chat.encodeReply(events, CONTEXT);
        const back = chat.decodeReply(whole, { quirks: {} });
        expect(grammarFault(back)).toBeUndefined();
        const streamed = decodeText(encodeText(events));
        const sorted = (lines: string[]) => gather(lines);
        expect(sorted(outcomeOf(back))).toEqual(sorted(outcomeOf(streamed)));
      }),
    );
  });

  test("calls, reasoning, refusals and older forms are read", () => {
    const calls = [
      { id: "a", type: "function", function: { name: "f", arguments: '{"q":1}' } },
      { id: "a2", type: "function", function: { name: "f", arguments: "" } },
    ];
    expect(read(replyWith({ tool_calls: calls, reasoning_content: "Hm", content: "See" }))).toEqual([
      "start",
      'reasoning "Hm"',
      'text "See"',
      'tool-call a f "{\\"q\\":1}"',
      'tool-call a2 f ""',
      "usage 20 0 0 6 0",
      "finish tool-calls",
    ]);
    expect(read(replyWith({ refusal: "No." }))[1]).toBe('text "No."');
    for (const thought of [
      { type: "thinking", thinking: [{ type: "text", text: "Hm" }] },
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm", signature: "EqQB" }] },
    ]) {
      const content = [thought, { type: "text", text: "4" }];
      expect(read(replyWith({ content })).slice(1, 3)).toEqual(['reasoning "Hm"', 'text "4"']);
    }
    const legacy = read(
      replyWith({ function_call: { name: "f", arguments: "{}" } }, { finish_reason: "function_call" }),
    );
    expect(legacy[1]).toMatch(/^tool-call call_\w+ f "\{\}"$/);
    expect(read(replyWith({ content: "Hm</think>Four" }), { inlineThinkTags: true }).slice(1, 3)).toEqual([
      'reasoning "Hm"',
      'text "Four"',
    ]);
  });

  test("finish reasons of every vendor", () => {
    const table: Wire = {
      length: "length",
      model_length: "length",
      end_turn: "stop",
      eos: "stop",
      content_filter: "content-filter",
      sensitive: "content-filter",
      SAFETY: "content-filter",
      PROHIBITED_CONTENT: "content-filter",
      "content_filter: RECITATION": "content-filter",
      whatever: "stop",
      tool_calls: "stop",
    };
    for (const [word, reason] of Object.entries(table)) {
      expect(read(replyWith({ content: "x" }, { finish_reason: word })).at(-1)).toBe(`finish ${reason}`);
    }
    expect(read(replyWith({ content: "x" }, { matched_stop: "END" })).at(-1)).toBe("finish stop-sequence END");
    expect(read(replyWith({ content: "x" }, { matched_stop: "STOP" })).at(-1)).toBe("finish stop-sequence STOP");
    expect(read(replyWith({ content: "x" }, { matched_stop: 151_645 })).at(-1)).toBe("finish stop");
    expect(read(replyWith({ content: "x" }, { stop_reason: "END" })).at(-1)).toBe("finish stop-sequence END");
    const looping = { finish_reason: "repetition", stop_reason: "repetition_detected" };
    expect(read(replyWith({ content: "x" }, looping)).at(-1)).toBe("finish stop");
  });

  const EMPTY = {
    function_call: { arguments: "", name: "" },
    audio: { id: "", data: "", expires_at: 0, transcript: "" },
  };

  test("a call of nothing beside others, or inside one, is none", () => {
    const called = { name: "f", arguments: '{"a":1}' };
    const call = { id: "c1", type: "function", function: called, custom: { input: "", name: "" } };
    expect(read(replyWith({ ...EMPTY, tool_calls: [call] }, { finish_reason: "tool_calls" }))).toContain(
      'tool-call c1 f "{\\"a\\":1}"',
    );
    expect(read(replyWith({ ...EMPTY, content: "x" }, { finish_reason: "" })).at(-1)).toBe("finish stop");
  });

  test("goes to a chat client without objects of nothing, and with a word for its end", () => {
    const forwarded = JSON.parse(
      chat.relabel(new JsonText(JSON.stringify(replyWith({ ...EMPTY, content: "x" }, { finish_reason: "" }))), CONTEXT),
    );
    expect(forwarded.choices).toEqual([
      { index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" },
    ]);
    const older = { function_call: { name: "f", arguments: "{}" } };
    const kept = JSON.parse(chat.relabel(new JsonText(JSON.stringify(replyWith(older))), CONTEXT));
    expect(kept.choices[0].message).toMatchObject(older);
  });

  const wrong: [string, unknown, ErrorCode][] = [
    ["no object", "hello", "upstream_error"],
    ["no choices", { id: "a" }, "upstream_error"],
    ["an error object", { error: { message: "slow down", code: 429 } }, "rate_limit_exceeded"],
    ["an error string", { error: "slow down", code: "rate_limit_exceeded" }, "rate_limit_exceeded"],
    [
      "an overflow",
      { error: { message: "maximum context length is 8192, you sent 9000", code: 400 } },
      "context_length_exceeded",
    ],
    ["a failed finish", replyWith({ content: "x" }, { finish_reason: "error" }), "upstream_error"],
    [
      "a call that Google could not read",
      replyWith({}, { finish_reason: "function_call_filter: MALFORMED_FUNCTION_CALL" }),
      "upstream_error",
    ],
  ];
  test.each(wrong)("%s is thrown as what it means", (_name, body, code) => {
    let thrown: unknown;
    try {
      chat.decodeReply(body, { quirks: {} });
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(GatewayError);
    expect((thrown as GatewayError).code).toBe(code);
  });
});

describe("usage", () => {
  const count = (usage: Wire, quirks: Quirks = {}) => {
    const event = chat.decodeReply({ ...REPLY, usage }, { quirks }).find((one) => one.type === "usage");
    return event?.type === "usage" ? Object.values(event.usage) : undefined;
  };
  const base = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 };
  const reasoning = (tokens: number) => ({ completion_tokens_details: { reasoning_tokens: tokens } });

  test("counts come out disjoint, whatever the vendor calls them", () => {
    expect(count(base)).toEqual([20, 0, 0, 10, 0]);
    expect(count({ ...base, prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 5 } })).toEqual([
      7, 8, 5, 10, 0,
    ]);
    expect(count({ ...base, prompt_cache_hit_tokens: 8, prompt_cache_miss_tokens: 12 })).toEqual([12, 8, 0, 10, 0]);
    expect(count({ ...base, cached_tokens: 8 })).toEqual([12, 8, 0, 10, 0]);
    expect(count({ ...base, prompt_tokens_details: { cache_creation_input_tokens: 5 } })).toEqual([15, 0, 5, 10, 0]);
    expect(count({ ...base, prompt_tokens_details: { cached_tokens: 50 } })).toEqual([0, 20, 0, 10, 0]);
    const beside = {
      prompt_tokens: 20,
      completion_tokens: 10,
      total_tokens: 80,
      prompt_tokens_details: { cached_tokens: 50 },
    };
    expect(count(beside)).toEqual([20, 50, 0, 10, 0]);
    expect(count({ prompt_tokens: -5, completion_tokens: "nine", total_tokens: Number.NaN })).toBeUndefined();
  });

  test("reasoning that stands beside the output is added to it", () => {
    expect(count({ ...base, ...reasoning(4) })).toEqual([20, 0, 0, 10, 4]);
    expect(count({ ...base, total_tokens: 34, ...reasoning(4) })).toEqual([20, 0, 0, 14, 4]);
    expect(count({ prompt_tokens: 20, completion_tokens: 10, ...reasoning(4) })).toEqual([20, 0, 0, 10, 4]);
    const stated = { exclusiveReasoningTokens: true };
    expect(count({ prompt_tokens: 20, completion_tokens: 10, ...reasoning(4) }, stated)).toEqual([20, 0, 0, 14, 4]);
    expect(count({ ...base, ...reasoning(4) }, stated)).toEqual([20, 0, 0, 10, 4]);
    expect(count({ prompt_tokens: 20, completion_tokens: 1, ...reasoning(4) })).toEqual([20, 0, 0, 5, 4]);
  });
});

describe("a whole reply for a chat client", () => {
  const relabel = (text: string) => chat.relabel(new JsonText(text), CONTEXT);

  test("keeps every byte but the model", () => {
    const text = `{ "id":"c1","object":"chat.completion","created":1,"model" : "tiny-1","x":12345678901234567890,${JSON.stringify(REPLY).slice(1, -1).split(",").slice(4).join(",")}}`;
    expect(relabel(text)).toBe(text.replace("tiny-1", "lab/tiny"));
  });

  test("says what it is, when, and whose the message is", () => {
    const bare = { choices: [{ index: 0, message: { content: "a" }, finish_reason: "stop" }] };
    expect(JSON.parse(relabel(JSON.stringify(bare)))).toMatchObject({
      object: "chat.completion",
      created: CONTEXT.created,
      choices: [{ message: { role: "assistant", content: "a" } }],
    });
  });

  test.each([
    ["stop", { content: "a" }],
    [
      "tool_calls",
      { content: null, tool_calls: [{ id: "t", type: "function", function: { name: "f", arguments: "{}" } }] },
    ],
    ["function_call", { content: null, function_call: { name: "f", arguments: "{}" } }],
  ])("says which choice is which and how it ended where its vendor does not: %s", (finish, said) => {
    const message = { role: "assistant", ...said };
    const told = { index: 7, message, finish_reason: "length" };
    for (const bare of [{ message }, { message, finish_reason: null }]) {
      const { choices } = JSON.parse(relabel(JSON.stringify({ ...REPLY, choices: [told, bare] }))) as Wire;
      expect(choices).toEqual([told, { index: 1, message, finish_reason: finish }]);
    }
  });

  test("gets reasoning and calls in a form it can use", () => {
    const body = replyWith({ reasoning: "Hm", x: 1, tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }] });
    const { message } = (JSON.parse(relabel(JSON.stringify(body))) as { choices: { message: Wire }[] }).choices[0]!;
    expect(message).toEqual({
      role: "assistant",
      content: null,
      reasoning: "Hm",
      reasoning_content: "Hm",
      x: 1,
      tool_calls: [
        { id: expect.stringMatching(/^call_/), type: "function", function: { name: "f", arguments: '{"a":1}' } },
      ],
    });
    const events = chat.decodeReply(body, { quirks: {} });
    const id = String((message["tool_calls"] as Wire[])[0]!["id"]);
    expect(events).toContainEqual({ type: "block-start", block: { kind: "tool-call", id, name: "f" } });
  });

  test("is written from events", () => {
    const reply = chat.encodeReply(
      [
        { type: "start" },
        { type: "block-start", block: { kind: "reasoning" } },
        { type: "block-delta", text: "Hm" },
        { type: "block-end" },
        { type: "block-start", block: { kind: "tool-call", id: "t", name: "f" } },
        { type: "block-end" },
        { type: "finish", finish: { reason: "tool-calls" } },
      ],
      CONTEXT,
    );
    expect(reply).toMatchObject({
      id: "chatcmpl-Reply1",
      object: "chat.completion",
      created: CONTEXT.created,
      model: "lab/tiny",
    });
    expect(reply["choices"]).toEqual([
      {
        index: 0,
        message: {
          role: "assistant",
          content: null,
          refusal: null,
          reasoning_content: "Hm",
          tool_calls: [{ id: "t", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        logprobs: null,
        finish_reason: "tool_calls",
      },
    ]);
  });
});

test("a reply that Google's endpoint ends by its own words ends for a chat client by the dialect's, whole and in a stream", () => {
  const finish_reason = "content_filter: PROHIBITED_CONTENT";
  const whole = chat.relabel(new JsonText(JSON.stringify(replyWith({ content: "" }, { finish_reason }))), CONTEXT);
  expect(JSON.parse(whole)).toMatchObject({ choices: [{ finish_reason: "content_filter" }] });
  // Nor has it a message where all of it was blocked, which every client looks into.
  const blocked = { ...REPLY, choices: [{ index: 0, finish_reason }] };
  const message = { role: "assistant", content: "", refusal: null };
  expect(JSON.parse(chat.relabel(new JsonText(JSON.stringify(blocked)), CONTEXT))).toMatchObject({
    choices: [{ index: 0, message, finish_reason: "content_filter" }],
  });
  const sse = (word: string) =>
    `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: word }] })}\n\ndata: [DONE]\n\n`;
  expect(recordsOf(relabelText(sse(finish_reason)))[0]).toMatchObject({
    choices: [{ finish_reason: "content_filter" }],
  });
  const failed = "function_call_filter: MALFORMED_FUNCTION_CALL";
  expect(decodeText(sse(failed)).at(-1)).toMatchObject({ type: "error", error: { code: "upstream_error" } });
});

describe("errors", () => {
  test.each(Object.keys(ERRORS) as ErrorCode[])("%s has this dialect's status and four keys", (code) => {
    const { status, body } = chat.encodeError(new GatewayError(code, "Words."), "req_1");
    expect(status).toBe(ERRORS[code].status);
    expect(body).toEqual({ error: { message: "Words.", type: ERRORS[code].chatType, param: null, code } });
  });

  test("param and extras are shown, and extras cannot stand in for the four keys", () => {
    const error = new GatewayError("insufficient_quota", "Empty.", {
      param: "model",
      extra: { affordable_output_tokens: 3, code: "x" },
    });
    expect(chat.encodeError(error, "req_1").body).toEqual({
      error: {
        message: "Empty.",
        type: "insufficient_quota",
        param: "model",
        code: "insufficient_quota",
        affordable_output_tokens: 3,
      },
    });
  });

  test("in a stream an error is a plain record, without a terminator", () => {
    const text = chat.encodeErrorFrame(new GatewayError("stream_truncated", "Cut."), "req_1");
    expect(recordsOf(text)).toEqual([
      { error: { message: "Cut.", type: "server_error", param: null, code: "stream_truncated" } },
    ]);
    expect(text.startsWith("data: {")).toBe(true);
    expect(text).not.toContain("[DONE]");
    expect(decodeText(text).at(-1)?.type).toBe("error");
  });

  test("an upstream's answer is mapped, its 401 is not the client's", () => {
    expect(chat.decodeError(401, '{"error":{"message":"bad key sk-abcdefgh"}}', undefined).code).toBe("upstream_auth");
    expect(chat.decodeError(429, "{}", 7)).toMatchObject({ code: "rate_limit_exceeded", retryAfterSeconds: 7 });
    expect(chat.decodeError(502, "<html>", undefined).code).toBe("upstream_overloaded");
  });

  test("a ping is a comment", () => {
    expect(chat.ping).toBe(": ping\n\n");
    expect(recordsOf(chat.ping)).toEqual([]);
  });
});

/** Lines with the text of each kind put together, as one message holds it: reasoning, text, calls. */
function gather(lines: readonly string[]): string[] {
  const joined = (kind: string) => {
    const texts = lines
      .filter((line) => line.startsWith(`${kind} `))
      .map((line) => JSON.parse(line.slice(kind.length + 1)) as string);
    return `${kind} ${texts.join("")}`;
  };
  return [joined("reasoning"), joined("text"), ...lines.filter((line) => !/^(?:reasoning|text) /.test(line))];
}
