import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { NO_USAGE, type Usage } from "../../src/canon/usage.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { context, grammarFault, isFinished, normalise, plain } from "./diagonal.ts";
import { fixturesOf, testEncoder, testFixtures } from "./diagonal-fixtures.ts";
import { eventsOf } from "./messages-events.ts";
import { encode, run } from "./messages-run.ts";

const fixtures = fixturesOf("messages");
const { cases, read, streamOf } = fixtures;

/** What the official SDK makes of a stream. */
function accumulate(sse: string): Promise<Anthropic.Message> {
  const client = new Anthropic({
    apiKey: "none",
    maxRetries: 0,
    fetch: async () => new Response(sse, { headers: { "content-type": "text/event-stream" } }),
  });
  const body = { model: "any", max_tokens: 10, messages: [{ role: "user" as const, content: "x" }] };
  return client.messages.stream(body).finalMessage();
}

describe("every fixture", () => {
  testFixtures(fixtures, run, /message_stop/);

  for (const name of cases) {
    test(`${name}: the diagonal changes the model and what is broken, nothing else`, async () => {
      const text = await streamOf(name);
      const wanted = (await read(name, "relabeled.sse").exists())
        ? await read(name, "relabeled.sse").text()
        : text.replace('"model":"vendor-model-1"', '"model":"some/model-id"');
      expect(run([text]).relabeled).toBe(wanted);
    });

    test(`${name}: the SDK takes both the forwarded and the encoded stream`, async () => {
      const { events, relabeled } = run([await streamOf(name)]);
      if (!isFinished(events)) return expect(accumulate(relabeled)).rejects.toThrow();
      const blocks = events.filter((event) => event.type === "block-start").length;
      for (const sse of [relabeled, encode(events)]) {
        const message = await accumulate(sse);
        expect(message.model).toBe("some/model-id" as Anthropic.Model);
        expect(message.content).toHaveLength(blocks);
        expect(message.stop_reason).toBeString();
      }
    });
  }
});

describe("decoder", () => {
  const frames = (sse: string) => run([sse]).events;

  test("nothing comes after the end, and end is idempotent", () => {
    const decoder = messages.decoder({ quirks: {} });
    expect(plain(decoder.end())).toEqual([{ type: "error", code: "stream_truncated" }]);
    expect(decoder.end()).toEqual([]);
    expect(decoder.done).toBe(true);
  });

  test("a stop reason ends nothing, the terminator and the body's end do", async () => {
    const text = await streamOf("text");
    const decoder = messages.decoder({ quirks: {} });
    const states = new FrameSplitter().push(text).map((frame) => {
      decoder.push(frame);
      return [decoder.finishing, decoder.done];
    });
    expect(states.slice(0, -1).every(([finishing, done]) => !finishing && !done)).toBe(true);
    expect(states.at(-1)).toEqual([true, false]);
    expect(decoder.end().map((event) => event.type)).toEqual(["finish"]);
    expect([decoder.finishing, decoder.done]).toEqual([false, true]);
    expect(decoder.end()).toEqual([]);
  });

  test("behind the terminator only another message counts: not what is torn off, an error or a stray delta", async () => {
    const text = await streamOf("text");
    const plainly = run([text]);
    const behind = [
      'event: message_start\ndata: {"type":"mess',
      'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}\n\n',
      "event: ping\ndata: {}\n\n".repeat(1_000),
    ];
    for (const rest of behind) {
      const { events, relabeled } = run([text + rest]);
      expect(plain(events)).toEqual(plain(plainly.events));
      expect(relabeled).toBe(plainly.relabeled);
    }
  });

  test("a vendor that goes on and on behind its terminator has ended, and so has one that says so", async () => {
    const text = await streamOf("text");
    const readsOf = (rest: string) => {
      const decoder = messages.decoder({ quirks: {} });
      const frames = new FrameSplitter().push(text + rest);
      return frames.filter((frame) => {
        const wasDone = decoder.done;
        decoder.push(frame);
        return !wasDone;
      }).length;
    };
    const sound = new FrameSplitter().push(text).length;
    expect(readsOf("event: ping\ndata: {}\n\n".repeat(1_000))).toBe(sound + 17);
    expect(readsOf("data: [DONE]\n\n".repeat(9))).toBe(sound + 1);
  });

  test("two messages in one body are one reply: blocks in a row, counts added up, the last reason", async () => {
    await fc.assert(
      fc.asyncProperty(eventsOf("one"), eventsOf("other"), async (one, other) => {
        const { events, relabeled } = run([encode(one) + encode(other)]);
        const blocks = [...one.slice(1, -2), ...other.slice(1, -2)];
        const wanted = normalise([{ type: "start" }, ...blocks, sumOf(one, other), lastFinish(blocks, other)]);
        expect(normalise(events)).toEqual(wanted);
        expect(normalise(run([relabeled]).events)).toEqual(wanted);
        for (const type of ["message_start", "message_delta", "message_stop"]) {
          expect(relabeled.split(`event: ${type}\n`)).toHaveLength(2);
        }
        const message = await accumulate(relabeled);
        expect(message.content).toHaveLength(blocks.filter((event) => event.type === "block-start").length);
      }),
      { numRuns: 50 },
    );
  });

  test("what a record lacks that clients with checked types ask for is added: the id, and a block's first texts", () => {
    const sse = [
      {
        type: "message_start",
        message: { role: "assistant", content: [], usage: { input_tokens: 1, output_tokens: 1 } },
      },
      { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", x: 1 } },
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: { type: "text" } },
      { type: "content_block_stop", index: 1 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    ].map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`);
    const { relabeled } = run([sse.join("")]);
    expect(relabeled).toContain(`"id":"msg_${context.replyId}"`);
    expect(relabeled).toContain('"content_block":{"type":"thinking","thinking":"","x":1,"signature":""}');
    expect(relabeled).toContain('"index":1,"content_block":{"type":"text","text":""}');
  });

  test("deltas of nothing are left out, and arguments that come as an object or whole as text are taken: SDKs join what they get", async () => {
    const start = {
      type: "message_start",
      message: { id: "m", type: "message", content: [], usage: { input_tokens: 1 } },
    };
    const began = (index: number, content_block: object) => ({ type: "content_block_start", index, content_block });
    const delta = (index: number, one: unknown) => ({ type: "content_block_delta", index, delta: one });
    const ended = (index: number) => ({ type: "content_block_stop", index });
    const call = (id: string, more: object) => ({ type: "tool_use", id, name: "f", ...more });
    const records = [
      start,
      began(0, { type: "text", text: null }),
      delta(0, null),
      delta(0, { type: "text_delta", text: null }),
      delta(0, { type: "text_delta", text: "Hi" }),
      ended(0),
      began(1, call("a", { input: null })),
      delta(1, { type: "input_json_delta", partial_json: { big: 1 } }),
      ended(1),
      began(2, call("b", { input: '{"a":12345678901234567890}' })),
      ended(2),
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    ];
    const sse = records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join("");
    const { events, relabeled } = run([sse]);
    expect(relabeled).toContain('"partial_json":"{\\"a\\":12345678901234567890}"');
    for (const text of [relabeled, encode(events)]) {
      const { content } = await accumulate(text);
      expect(content[0]).toMatchObject({ type: "text", text: "Hi" });
      expect(content.slice(1)).toMatchObject([
        { id: "a", input: { big: 1 } },
        // As near as a number of JavaScript comes.
        { id: "b", input: { a: Number("12345678901234567890") } },
      ]);
    }
  });

  test.each([
    [
      "what is thought, in a text block (LiteLLM)",
      [
        { type: "text", text: "" },
        { type: "thinking_delta", thinking: "" },
        ...["I ", "must ", "look", "."].map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature: "c2ln" },
        ...["At ", "dawn", "."].map((text) => ({ type: "text_delta", text })),
      ],
      [
        { type: "text", text: "" },
        { type: "thinking", thinking: "I must look.", signature: "c2ln" },
        { type: "text", text: "At dawn." },
      ],
    ],
    [
      "what is said, amid a call's arguments (SGLang)",
      [
        { type: "tool_use", id: "a", name: "f", input: {} },
        { type: "input_json_delta", partial_json: '{"a":' },
        { type: "text_delta", text: "I " },
        { type: "input_json_delta", partial_json: "1}" },
        { type: "text_delta", text: "" },
        { type: "text_delta", text: "call." },
      ],
      [
        { type: "tool_use", id: "a", name: "f", input: { a: 1 } },
        { type: "text", text: "I call." },
      ],
    ],
    [
      "what is called, in a text block",
      [
        { type: "text", text: "" },
        { type: "text_delta", text: "Hi" },
        { type: "input_json_delta", partial_json: "{}" },
      ],
      [{ type: "text", text: "Hi" }],
    ],
  ])(
    "a delta that its block cannot be made of, which SDKs leave out or break off at: %s",
    async (_case, said, wanted) => {
      const [first, ...deltas] = said;
      const records = [
        { type: "message_start", message: { id: "m", type: "message", content: [], usage: { input_tokens: 1 } } },
        { type: "content_block_start", index: 3, content_block: first },
        ...deltas.map((delta) => ({ type: "content_block_delta", index: 3, delta })),
        { type: "content_block_stop", index: 3 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
        { type: "message_stop" },
      ];
      const parts = records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`);
      for (const chunks of [parts, [parts.join("")]]) {
        const { events, relabeled } = run(chunks);
        expect(grammarFault(events)).toBeUndefined();
        for (const text of [relabeled, encode(events)]) {
          expect((await accumulate(text)).content).toMatchObject(wanted as unknown as Anthropic.ContentBlock[]);
          // Claude Code breaks off at a delta of another kind than the block that it names.
          const kinds = [
            ...text.matchAll(/"index":(\d+),"(?:content_block|delta)":\{"type":"(text|thinking|tool|input)/g),
          ];
          expect(new Set(kinds.map(([, index, kind]) => `${index} ${kind === "input" ? "tool" : kind}`)).size).toBe(
            wanted.length,
          );
        }
      }
    },
  );

  test("the second of two messages is broken off: the reply is an error", async () => {
    const text = await streamOf("text");
    const { events, relabeled } = run([text + text.slice(0, text.indexOf("event: message_delta"))]);
    expect(plain(events).at(-1)).toEqual({ type: "error", code: "stream_truncated" });
    expect(relabeled).not.toContain("message_stop");
  });

  test("an error's own words are scrubbed and its class kept", async () => {
    const error = frames(await streamOf("error-midway")).at(-1);
    expect(error?.type).toBe("error");
    if (error?.type === "error") expect(error.error.message).not.toContain("internal.example");
  });

  test("a prompt that is too long inside a 200 keeps the words agents know", () => {
    const data = {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum" },
    };
    const last = frames(`event: error\ndata: ${JSON.stringify(data)}\n\n`).at(-1);
    if (last?.type !== "error") throw new Error("no error event");
    expect(last.error.code).toBe("context_length_exceeded");
    expect(last.error.message).toStartWith("prompt is too long: 210000 tokens > 200000 maximum");
  });

  test("what a new start leaves behind is closed at once, not at the end", async () => {
    const typesOf = async (name: string) => {
      const decoder = messages.decoder({ quirks: {} });
      const frames = new FrameSplitter().push(await streamOf(name));
      return frames.map((frame) => decoder.push(frame).map((event) => event.type));
    };
    expect((await typesOf("spliced-message-start")).slice(7, 9)).toEqual([["block-end"], ["block-start"]]);
    expect((await typesOf("same-number-twice"))[3]).toEqual(["block-end", "block-start"]);
  });

  test("a call without an id gets one", () => {
    const start = { type: "content_block_start", index: 0, content_block: { type: "tool_use", name: "f", input: {} } };
    const block = frames(`data: ${JSON.stringify(start)}\n\n`).find((event) => event.type === "block-start")?.block;
    expect(block?.kind).toBe("tool-call");
    if (block?.kind === "tool-call") expect(block.id).toMatch(/^toolu_\w{24}$/);
  });

  test("too many open blocks end the stream", () => {
    let sse = "";
    for (let index = 0; index < 300; index++) {
      sse += `data: {"type":"content_block_start","index":${index},"content_block":{"type":"text","text":""}}\n\n`;
    }
    expect(plain(frames(sse)).at(-1)).toEqual({ type: "error", code: "upstream_error" });
  });

  test("blocks that come by turns wait for each other by their length, however many pieces they are", () => {
    const record = (value: Record<string, unknown>) => `data: ${JSON.stringify(value)}\n\n`;
    const begin = (index: number) => {
      const content_block = { type: "tool_use", id: `toolu_${index}`, name: "f", input: {} };
      return record({ type: "content_block_start", index, content_block });
    };
    const piece = (index: number, partial_json: string) =>
      record({ type: "content_block_delta", index, delta: { type: "input_json_delta", partial_json } });
    const calls = Array.from({ length: 200 }, (_, index) => index);
    const turn = calls.map((index) => piece(index, "1")).join("");
    const ends = calls.map((index) => record({ type: "content_block_stop", index })).join("");
    const stop =
      record({ type: "message_delta", delta: { stop_reason: "tool_use" } }) + record({ type: "message_stop" });
    const events = frames(calls.map(begin).join("") + turn.repeat(520) + ends + stop);
    expect(events.at(-1)).toMatchObject({ type: "finish" });
    expect(events.filter((event) => event.type === "block-delta")).toHaveLength(200 * 520);
    expect(plain(frames(begin(0) + begin(1) + piece(1, "1".repeat(1 << 20)).repeat(33))).at(-1)).toEqual({
      type: "error",
      code: "upstream_error",
    });
  });

  test("whatever comes, it does not throw, and ends with one finish or error", () => {
    const word = fc.constantFrom(
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
      "error",
      "x",
    );
    const field = fc.constantFrom(
      "index",
      "message",
      "content_block",
      "delta",
      "usage",
      "error",
      "type",
      "content",
      "text",
      "input",
      "stop_reason",
    );
    const value = fc.oneof(fc.integer({ min: -1, max: 2 }), fc.jsonValue(), fc.dictionary(field, fc.jsonValue()));
    const junk = fc
      .tuple(word, fc.dictionary(field, value))
      .map(([type, fields]) => `event: ${type}\ndata: ${JSON.stringify({ ...fields, type })}\n\n`);
    fc.assert(
      fc.property(fc.array(junk, { maxLength: 12 }), (records) => {
        const { events, relabeled } = run([records.join("")]);
        expect(events.filter((event) => event.type === "finish" || event.type === "error")).toHaveLength(1);
        expect(["finish", "error"]).toContain(events.at(-1)?.type ?? "");
        expect(grammarFault(events)).toBeUndefined();
        if (isFinished(events)) expect(run([relabeled]).events.at(-1)?.type).toBe("finish");
      }),
    );
  });
});

const usageOf = (events: readonly Event[]): Usage =>
  events.findLast((event) => event.type === "usage")?.usage ?? { ...NO_USAGE };

function sumOf(one: readonly Event[], other: readonly Event[]): Event {
  const [first, second] = [usageOf(one), usageOf(other)];
  const add = (field: keyof typeof NO_USAGE) => (first[field] ?? 0) + (second[field] ?? 0);
  const usage: Usage = {
    input: add("input"),
    cacheRead: add("cacheRead"),
    cacheWrite: add("cacheWrite"),
    output: add("output"),
    reasoning: add("reasoning"),
  };
  return { type: "usage", usage };
}

/** How the reply ends that these blocks and the last message's reason make. */
function lastFinish(blocks: readonly Event[], other: readonly Event[]): Event {
  const last = other.findLast((event) => event.type === "finish");
  if (!last) throw new Error("no finish");
  const called = blocks.some((event) => event.type === "block-start" && event.block.kind === "tool-call");
  const { reason } = last.finish;
  return called && (reason === "stop" || reason === "stop-sequence")
    ? { type: "finish", finish: { reason: "tool-calls" } }
    : last;
}

describe("encoder", () => {
  testEncoder(eventsOf(), encode, run);

  test("its stream passes the relabeler byte for byte, and the SDK reads every block of it", async () => {
    await fc.assert(
      fc.asyncProperty(eventsOf(), async (events) => {
        const sse = encode(events);
        expect(run([sse]).relabeled).toBe(sse);
        expect((await accumulate(sse)).content).toHaveLength(
          events.filter((event) => event.type === "block-start").length,
        );
      }),
      { numRuns: 30 },
    );
  });

  test("blocks of other dialects are left out whole, and numbers stay without gaps", () => {
    const sse = encode([
      { type: "start" },
      { type: "block-start", block: { kind: "opaque", dialect: "chat", value: { type: "audio" } } },
      { type: "block-delta", text: "not for this client" },
      { type: "block-end" },
      { type: "block-start", block: { kind: "text" } },
      { type: "block-delta", text: "hi" },
      { type: "block-end" },
      { type: "finish", finish: { reason: "tool-calls" } },
    ]);
    expect(sse).not.toContain("not for this client");
    expect([...sse.matchAll(/"index":(\d+)/g)].map((match) => match[1])).toEqual(["0", "0", "0"]);
    // No call was made, so none is announced.
    expect(sse).toContain('"stop_reason":"end_turn"');
  });

  test("a call without arguments has one empty piece of input, any other only its own", () => {
    const call = (name: string, ...pieces: string[]): Event[] => [
      { type: "block-start", block: { kind: "tool-call", id: `call_${name}`, name } },
      ...pieces.map((text): Event => ({ type: "block-delta", text })),
      { type: "block-end" },
    ];
    const finish: Event = { type: "finish", finish: { reason: "tool-calls" } };
    const sse = encode([
      { type: "start" },
      ...call("first"),
      ...call("second", '{"a":', "1}"),
      ...call("third"),
      finish,
    ]);
    const pieces = [...sse.matchAll(/"index":(\d),"delta":({"type":"input_json_delta".*})}/g)];
    expect(pieces.map(([, index, delta]) => [index, JSON.parse(String(delta)).partial_json])).toEqual([
      ["0", ""],
      ["1", '{"a":'],
      ["1", "1}"],
      ["2", ""],
    ]);
  });

  test("no signature is made up", () => {
    const sse = encode([
      { type: "start" },
      { type: "block-start", block: { kind: "reasoning" } },
      { type: "block-delta", text: "hm" },
      { type: "block-end" },
      { type: "finish", finish: { reason: "stop" } },
    ]);
    expect(sse).not.toContain("signature_delta");
    expect(sse).toContain('{"type":"thinking","thinking":"","signature":""}');
  });

  test("the start shows the estimate, one message_delta the exact counts, and only end() terminates", () => {
    const encoder = messages.encoder({ ...context, estimatedInputTokens: 42 });
    const usage = { input: 3, cacheRead: 5, cacheWrite: 7, output: 11, reasoning: 2 };
    const start = encoder.push({ type: "start" });
    expect(start).toContain('"input_tokens":42');
    expect(start).toContain('"id":"msg_REPLY"');
    expect(encoder.push({ type: "usage", usage: { ...usage, output: 1 } })).toBe("");
    expect(encoder.push({ type: "usage", usage })).toBe("");
    expect(encoder.push({ type: "finish", finish: { reason: "stop-sequence", stopSequence: "END" } })).toBe(
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"},' +
        '"usage":{"input_tokens":3,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,"output_tokens":11,' +
        '"output_tokens_details":{"thinking_tokens":2}}}\n\n',
    );
    expect(encoder.end()).toBe('event: message_stop\ndata: {"type":"message_stop"}\n\n');
  });
});
