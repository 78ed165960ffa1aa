import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { dialects } from "../../src/dialects/index.ts";
import { InputReader, unwrapInput } from "../../src/dialects/tools/custom-tools.ts";
import {
  type ClientName,
  chatStream,
  chunk,
  contextOf,
  readBack,
  recordsOf,
  reply,
  send,
  stream,
  typedStream,
  type UpstreamName,
  type Wire,
  write,
} from "./crossing.ts";
import { accumulate, clientOf } from "./responses-run.ts";

/** A text read out of JSON that arrives in pieces. */
function readPieces(json: string, cuts: readonly number[]): string {
  const reader = new InputReader();
  let out = "";
  let from = 0;
  for (const cut of [...new Set([...cuts, json.length])].sort((one, other) => one - other)) {
    out += reader.push(json.slice(from, cut));
    from = cut;
  }
  return out + reader.end();
}

/** JSON as servers write it that keep to ASCII. */
const toAscii = (json: string) =>
  json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

const anyText = fc.string({
  unit: fc.oneof(fc.constantFrom("\ud83d", "\udc00", "\\", '"', "\n", "u", "😀", "é", "}"), fc.string()),
});

describe("the text of a custom tool's call, told as a function's argument", () => {
  test("is the same whatever the pieces and the spelling", () => {
    fc.assert(
      fc.property(anyText, fc.array(fc.nat(80)), fc.boolean(), fc.constantFrom("", " "), (text, cuts, ascii, space) => {
        const plain = `{${space}"input":${space}${JSON.stringify(text)}${space}}`;
        expect(readPieces(ascii ? toAscii(plain) : plain, cuts)).toBe(text);
      }),
    );
  });

  test("goes out while it arrives", () => {
    const reader = new InputReader();
    expect(["{", '"in', 'put": "one', " two\\", 'n"', "}"].map((piece) => reader.push(piece))).toEqual([
      "",
      "",
      "one",
      " two",
      "\n",
      "",
    ]);
  });

  test.each([
    ['{"patch":"x"}', "x"],
    ['{"other":1,"input":"x"}', "x"],
    ['"x"', "x"],
    ["ls -l", "ls -l"],
    ['{"a":"1","b":"2"}', '{"a":"1","b":"2"}'],
    ['{"input":"line\nfeed"}', "line\nfeed"],
    ['{"input":"cut o', "cut o"],
    ['{"input":"half \\ud83d', "half "],
    ["", ""],
  ])("%j means %j", (json, text) => {
    expect(readPieces(json, [3, 9])).toBe(text);
  });

  test("unwraps a whole one alike", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(unwrapInput(JSON.stringify({ input: text }))).toBe(text);
      }),
    );
  });
});

const GRAMMAR = { syntax: "lark", definition: 'start: "a"+' };
/** A conversation that called the custom tool, offers it again and forces it. */
const BODIES: Record<"chat" | "responses", Wire> = {
  chat: {
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "custom", custom: { name: "patch", input: 'a "quoted"\nline' } }],
      },
      { role: "tool", tool_call_id: "c1", content: "ok" },
    ],
    tools: [
      {
        type: "custom",
        custom: { name: "patch", description: "Edits.", format: { type: "grammar", grammar: GRAMMAR } },
      },
    ],
    tool_choice: { type: "custom", custom: { name: "patch" } },
  },
  responses: {
    input: [
      { role: "user", content: "Hi" },
      { type: "custom_tool_call", call_id: "c1", name: "patch", input: 'a "quoted"\nline' },
      { type: "custom_tool_call_output", call_id: "c1", output: "ok" },
    ],
    tools: [{ type: "custom", name: "patch", description: "Edits.", format: { type: "grammar", ...GRAMMAR } }],
    tool_choice: { type: "custom", name: "patch" },
  },
};

const AS_FUNCTION: [from: "chat" | "responses", to: UpstreamName][] = [
  ["chat", "messages"],
  ["chat", "gemini"],
  ["responses", "messages"],
  ["responses", "gemini"],
  ["responses", "chat"],
];

describe("custom tools to a vendor of functions alone", () => {
  test.each(AS_FUNCTION)("%s → %s: one text argument, the grammar in words and named as lost", (from, to) => {
    const { body, dropped, changes } = send({ from, to }, BODIES[from]);
    const text = JSON.stringify(body);
    expect(text).toContain('"required":["input"]');
    expect(text).toContain("It must fit this lark grammar");
    expect(text).not.toContain('"custom"');
    // The earlier call is a function's too.
    const args =
      to === "chat"
        ? JSON.stringify(JSON.stringify({ input: 'a "quoted"\nline' }))
        : '{"input":"a \\"quoted\\"\\nline"}';
    expect(text).toContain(args);
    expect(dropped).toEqual([from === "chat" ? "tools[0].custom.format" : "tools[0].format"]);
    expect(changes?.customTools).toEqual(new Set(["patch"]));
  });

  const CALL = '{"input":"first\\nsecond"}';
  const UPSTREAM: Record<"messages" | "chat" | "gemini", string> = {
    messages: typedStream(
      { type: "message_start", message: { id: "m", content: [], usage: { input_tokens: 1, output_tokens: 1 } } },
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "c2", name: "patch", input: {} },
      },
      ...[CALL.slice(0, 15), CALL.slice(15, 18), CALL.slice(18)].map((partial_json) => ({
        type: "content_block_delta",
        index: 0,
        delta: { type: "input_json_delta", partial_json },
      })),
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 4 } },
      { type: "message_stop" },
    ),
    chat: chatStream(
      chunk({
        tool_calls: [
          { index: 0, id: "c2", type: "function", function: { name: "patch", arguments: CALL.slice(0, 12) } },
        ],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: CALL.slice(12) } }] }),
      chunk({}, "tool_calls"),
    ),
    gemini: `data: ${JSON.stringify({
      candidates: [
        { content: { parts: [{ functionCall: { name: "patch", args: JSON.parse(CALL) } }] }, finishReason: "STOP" },
      ],
    })}\r\n\r\n`,
  };

  test.each(AS_FUNCTION)("%s ← %s: the call comes back as a custom one, its input as free text", (from, to) => {
    const { changes } = send({ from, to }, BODIES[from]);
    const sse = stream({ from, to }, UPSTREAM[to as keyof typeof UPSTREAM], changes);
    const events = readBack(from, sse);
    expect(events.find((event) => event.type === "block-start")).toMatchObject({
      block: { kind: "tool-call", name: "patch", custom: true },
    });
    const input = events.flatMap((event) => (event.type === "block-delta" ? [event.text] : [])).join("");
    expect(input).toBe("first\nsecond");
    expect(events.at(-1)).toMatchObject({ finish: { reason: "tool-calls" } });
    const types = recordsOf(sse).map((record) => record["type"]);
    if (from === "responses") {
      expect(types).toContain("response.custom_tool_call_input.delta");
      expect(types).toContain("response.custom_tool_call_input.done");
      expect(types).not.toContain("response.function_call_arguments.delta");
    } else expect(sse).toContain('"type":"custom","custom":{"name":"patch","input":""}');
  });

  test("a whole reply too", () => {
    const message = { type: "message", role: "assistant", stop_reason: "tool_use", usage: {} };
    const content = [{ type: "tool_use", id: "c2", name: "patch", input: { input: "x\ny" } }];
    const { changes } = send({ from: "chat", to: "messages" }, BODIES.chat);
    const answer = reply({ from: "chat", to: "messages" }, { ...message, content }, changes);
    expect(answer["choices"]).toMatchObject([
      {
        finish_reason: "tool_calls",
        message: { tool_calls: [{ id: "c2", type: "custom", custom: { name: "patch", input: "x\ny" } }] },
      },
    ]);
    const other = send({ from: "responses", to: "messages" }, BODIES.responses);
    const response = reply({ from: "responses", to: "messages" }, { ...message, content }, other.changes);
    expect(response["output"]).toMatchObject([
      { type: "custom_tool_call", call_id: "c2", name: "patch", input: "x\ny" },
    ]);
  });
});

describe("custom tools to a vendor that knows them", () => {
  test("chat → responses: as they are, the grammar where it stands there", () => {
    const { body, dropped } = send({ from: "chat", to: "responses" }, BODIES.chat);
    expect(body).toMatchObject({
      tools: [{ type: "custom", name: "patch", description: "Edits.", format: { type: "grammar", ...GRAMMAR } }],
      tool_choice: { type: "custom", name: "patch" },
    });
    expect((body["input"] as Wire[]).slice(1)).toEqual([
      { type: "custom_tool_call", call_id: "c1", name: "patch", input: 'a "quoted"\nline' },
      { type: "custom_tool_call_output", call_id: "c1", output: "ok" },
    ]);
    expect(dropped).toEqual([]);
  });

  test("responses → chat of such a vendor", () => {
    const { body, dropped } = send({ from: "responses", to: "chat", quirks: { customTools: true } }, BODIES.responses);
    expect(body["tools"]).toEqual(BODIES.chat["tools"] as Wire[]);
    expect(body["tool_choice"]).toEqual(BODIES.chat["tool_choice"] as Wire);
    expect(body["messages"]).toEqual(BODIES.chat["messages"] as Wire[]);
    expect(dropped).toEqual([]);
  });

  test("its custom call reaches a client of the other dialect as one", () => {
    const { changes } = send({ from: "chat", to: "responses" }, BODIES.chat);
    const item = { id: "ctc_1", type: "custom_tool_call", call_id: "c2", name: "patch" };
    const sse = typedStream(
      { type: "response.created", response: { id: "r" } },
      { type: "response.output_item.added", output_index: 0, item: { ...item, input: "" } },
      { type: "response.custom_tool_call_input.delta", output_index: 0, item_id: "ctc_1", delta: "a\n" },
      { type: "response.custom_tool_call_input.delta", output_index: 0, item_id: "ctc_1", delta: "b" },
      { type: "response.output_item.done", output_index: 0, item: { ...item, input: "a\nb" } },
      { type: "response.completed", response: { id: "r", status: "completed", output: [] } },
    );
    const records = recordsOf(stream({ from: "chat", to: "responses" }, sse, changes));
    const calls = records.flatMap((record) => {
      const [choice] = record["choices"] as { delta: { tool_calls?: Wire[] } }[];
      return choice?.delta.tool_calls ?? [];
    });
    expect(calls).toEqual([
      { index: 0, id: "c2", type: "custom", custom: { name: "patch", input: "" } },
      { index: 0, custom: { input: "a\n" } },
      { index: 0, custom: { input: "b" } },
    ]);
  });

  test("on the diagonal nothing is touched, but for a vendor known not to know them", () => {
    const way = { from: "chat", to: "chat" } as const;
    const kept = send(way, BODIES.chat);
    expect(kept.body["tools"]).toEqual(BODIES.chat["tools"] as Wire[]);
    expect(kept.changes).toBeUndefined();
    const foreign = send({ ...way, quirks: { customTools: false } }, { ...BODIES.chat, min_p: 0.1 });
    const { body, changes } = foreign;
    expect([kept.dropped, foreign.dropped]).toEqual([[], ["tools[0].custom.format"]]);
    expect(body).toMatchObject({
      min_p: 0.1,
      tools: [{ type: "function", function: { name: "patch", parameters: { required: ["input"] } } }],
      tool_choice: { type: "function", function: { name: "patch" } },
    });
    expect((body["messages"] as Wire[])[1]).toMatchObject({
      tool_calls: [
        { id: "c1", type: "function", function: { name: "patch", arguments: '{"input":"a \\"quoted\\"\\nline"}' } },
      ],
    });
    const sse = stream(
      way,
      chatStream(
        chunk(
          { tool_calls: [{ index: 0, id: "c2", function: { name: "patch", arguments: '{"input":"x"}' } }] },
          "tool_calls",
        ),
      ),
      changes,
    );
    expect(sse).toContain('"custom":{"input":"x"}');
    expect(sse).not.toContain('"function":{');
  });
});

const FUNCTIONS: Wire = {
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: null, function_call: { name: "f", arguments: '{"a":1}' } },
    { role: "function", name: "f", content: "ok" },
  ],
  functions: [{ name: "f", description: "F", parameters: { type: "object", properties: {} } }],
  function_call: { name: "f" },
};

describe("functions, the older form of tools (dialects.md 1.1)", () => {
  const CALLS = {
    id: "1",
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c2", type: "function", function: { name: "f", arguments: '{"a":2}' } }],
        },
      },
    ],
  };

  test("become tools for a chat vendor, and the answer comes in the older form", () => {
    const way = { from: "chat", to: "chat" } as const;
    const { body, changes } = send(way, { ...FUNCTIONS, logit_bias: { 1: 2 } });
    expect(body).not.toContainKeys(["functions", "function_call"]);
    expect(body).toMatchObject({
      logit_bias: { 1: 2 },
      tools: [{ type: "function", function: { name: "f", description: "F" } }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
    });
    const [, call, result] = body["messages"] as Wire[];
    const id = (call!["tool_calls"] as Wire[])[0]!["id"];
    expect(call).toMatchObject({ tool_calls: [{ type: "function", function: { name: "f", arguments: '{"a":1}' } }] });
    expect(result).toEqual({ role: "tool", tool_call_id: id, content: "ok" });
    expect(reply(way, CALLS, changes)["choices"]).toMatchObject([
      { finish_reason: "function_call", message: { function_call: { name: "f", arguments: '{"a":2}' } } },
    ]);
    expect(JSON.stringify(reply(way, CALLS, changes))).not.toContain("tool_calls");
  });

  test("go as they are to a vendor that still knows them", () => {
    const way = { from: "chat", to: "chat", quirks: { legacyFunctions: true } } as const;
    const { body, changes } = send(way, FUNCTIONS);
    expect([body["functions"], body["messages"], changes]).toEqual([
      FUNCTIONS["functions"],
      FUNCTIONS["messages"],
      undefined,
    ]);
  });

  test.each(["messages", "responses", "gemini"] as const)("across to %s, streamed", (to) => {
    const { body, changes } = send({ from: "chat", to }, FUNCTIONS);
    expect(JSON.stringify(body)).toContain('"name":"f"');
    const client: ClientName = "chat";
    const sse = stream(
      { from: client, to: "chat" },
      chatStream(
        chunk({ tool_calls: [{ index: 0, id: "c2", function: { name: "f", arguments: '{"a":' } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: "2}" } }] }),
        chunk({ tool_calls: [{ index: 1, id: "c3", function: { name: "f", arguments: "{}" } }] }, "tool_calls"),
      ),
      changes,
    );
    expect(sse).not.toContain("tool_calls");
    const deltas = recordsOf(sse).flatMap((record) =>
      (record["choices"] as { delta: { function_call?: { name?: string; arguments: string } } }[]).flatMap(
        ({ delta }) => delta.function_call ?? [],
      ),
    );
    // One call a turn is all that the older form can say.
    expect(deltas.filter((delta) => delta.name)).toEqual([{ name: "f", arguments: "" }]);
    expect(deltas.map((delta) => delta.arguments).join("")).toBe('{"a":2}');
    expect(sse).toContain('"finish_reason":"function_call"');
  });
});

describe("a custom call read back from what was written of it", () => {
  const events = (pieces: readonly string[]): Event[] => [
    { type: "start" },
    { type: "block-start", block: { kind: "tool-call", id: "c1", name: "patch", custom: true } },
    ...pieces.map((text) => ({ type: "block-delta", text }) as const),
    { type: "block-end" },
    { type: "finish", finish: { reason: "tool-calls" } },
  ];
  const saidBy = (all: readonly Event[]) =>
    all.flatMap((event) => {
      if (event.type === "block-start") return [JSON.stringify(event.block)];
      return event.type === "block-delta" ? [event.text] : event.type === "finish" ? [event.finish.reason] : [];
    });

  test.each(["chat", "responses"] as const)("%s, streamed and whole", (name) => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.array(text, { maxLength: 3 }), (pieces) => {
        const given = events(pieces);
        expect(saidBy(readBack(name, write(name, given)))).toEqual(saidBy(given));
        const whole = dialects[name].encodeReply(given, contextOf());
        const expected = saidBy(events(pieces.length === 0 ? [] : [pieces.join("")]));
        expect(saidBy(dialects[name].decodeReply(whole, { quirks: {} }))).toEqual(expected);
      }),
    );
  });
});

describe("the official SDK", () => {
  const call: Event[] = [
    { type: "start" },
    { type: "block-start", block: { kind: "tool-call", id: "c2", name: "patch" } },
    { type: "block-delta", text: '{"input":"a' },
    { type: "block-delta", text: '\\nb"}' },
    { type: "block-end" },
    { type: "finish", finish: { reason: "tool-calls" } },
  ];
  const whole = async (sse: string) =>
    await clientOf(sse, "text/event-stream")
      .chat.completions.stream({ model: "m", messages: [] })
      .finalChatCompletion();

  test("reads a custom call of both dialects", async () => {
    const changes = { customTools: new Set(["patch"]) };
    const completion = await whole(write("chat", call, changes));
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ id: "c2", type: "custom", custom: { name: "patch", input: "a\nb" } }] },
    });
    const response = await accumulate(write("responses", call, changes));
    expect(response.output).toMatchObject([{ type: "custom_tool_call", call_id: "c2", name: "patch", input: "a\nb" }]);
  });

  test("reads the older form of a call", async () => {
    const completion = await whole(write("chat", call, { legacyFunctions: true }));
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "function_call",
      message: { function_call: { name: "patch", arguments: '{"input":"a\\nb"}' } },
    });
    expect(completion.choices[0]?.message.tool_calls).toBeUndefined();
  });
});
