import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { exampleOf } from "../../src/vendors/builtin/example.ts";
import { countTokens, piecesOf, slicesOf } from "../../src/vendors/builtin/pieces.ts";
import { ask, askStream, deltasOf, user } from "./builtin.ts";

describe("pieces", () => {
  test("joined, pieces and slices are the text again; slices cut no character", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), fc.integer({ min: 1, max: 9 }), (text, size) => {
        expect(piecesOf(text).join("")).toBe(text);
        expect(slicesOf(text, size).join("")).toBe(text);
        for (const piece of [...piecesOf(text), ...slicesOf(text, size)]) expect(piece.isWellFormed()).toBe(true);
      }),
    );
  });

  test("are words", () => {
    expect(piecesOf("Hello there,\n world. ")).toEqual(["Hello", " there,", "\n world.", " "]);
    expect([countTokens(""), countTokens("   "), countTokens("日".repeat(30))]).toEqual([0, 1, 2]);
  });
});

describe("sluice/echo", () => {
  test("answers with the last user text and deterministic counts", async () => {
    const messages = [user("first one"), { role: "assistant", content: "first" }, user("and  now\nthis")];
    const { status, body } = await ask({ model: "echo", messages });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "chat.completion",
      model: "echo",
      created: 1767323045,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "and  now\nthis" },
          finish_reason: "stop",
          stop_reason: null,
        },
      ],
      usage: { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9 },
    });
    expect(body.choices[0].message).not.toContainKeys(["tool_calls", "reasoning_content"]);
    const again = await ask({ model: "sluice/echo", messages });
    expect(again.body.usage).toEqual(body.usage);
  });

  test("joins text parts and overlooks images; says hello where there is no text", async () => {
    const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    const parts = [{ type: "text", text: "what is" }, picture, { type: "text", text: "this?" }];
    expect((await ask({ model: "echo", messages: [user(parts)] })).body.choices[0].message.content).toBe(
      "what is\nthis?",
    );
    for (const messages of [[], [user([picture])], [user("  ")], [{ role: "system", content: "be kind" }], "no list"]) {
      expect((await ask({ model: "echo", messages })).body.choices[0].message.content).toStartWith("Hello!");
    }
  });

  test.each(["max_tokens", "max_completion_tokens"])("%s cuts and finishes with length", async (field) => {
    const { body } = await ask({ model: "echo", messages: [user("one two three four")], [field]: 3 });
    expect(body.choices[0].message.content).toBe("one two three");
    expect(body.choices[0].finish_reason).toBe("length");
    expect(body.usage.completion_tokens).toBe(3);
    const fits = await ask({ model: "echo", messages: [user("one two three four")], [field]: 4 });
    expect(fits.body.choices[0].finish_reason).toBe("stop");
  });

  test.each([
    ["a string", "three", "one two ", "three"],
    ["the earliest of a list", ["four", "two", "three"], "one ", "two"],
    ["the first named of two at one place", ["two three", "two"], "one ", "two three"],
    ["none that matches", ["five"], "one two three four", null],
    ["an empty one", [""], "one two three four", null],
    ["at the very start", "one", "", "one"],
  ])("stop: %s", async (_name, stop, content, stopReason) => {
    const { body } = await ask({ model: "echo", messages: [user("one two three four")], stop });
    expect(body.choices[0]).toMatchObject({ message: { content }, finish_reason: "stop", stop_reason: stopReason });
    expect(body.usage.completion_tokens).toBeGreaterThanOrEqual(1);
  });

  test("a ceiling before the stop sequence wins over it", async () => {
    const { body } = await ask({ model: "echo", messages: [user("one two three four")], stop: "four", max_tokens: 2 });
    expect(body.choices[0]).toMatchObject({
      message: { content: "one two" },
      finish_reason: "length",
      stop_reason: null,
    });
  });

  test("thinks aloud first, from low on", async () => {
    for (const effort of ["low", "medium", "high", "xhigh", "max"]) {
      const { body } = await ask({ model: "echo", messages: [user("hi")], reasoning_effort: effort });
      const { reasoning_content: reasoning, content } = body.choices[0].message;
      expect([content, reasoning.includes(effort)]).toEqual(["hi", true]);
      const { reasoning_tokens: tokens } = body.usage.completion_tokens_details;
      expect(tokens).toBe(countTokens(reasoning));
      expect(body.usage.completion_tokens).toBe(tokens + 1);
    }
    for (const effort of ["none", "minimal", undefined]) {
      const { body } = await ask({ model: "echo", messages: [user("hi")], reasoning_effort: effort });
      expect(body.choices[0].message).not.toContainKey("reasoning_content");
      expect(body.usage.completion_tokens_details.reasoning_tokens).toBe(0);
    }
  });

  test("a ceiling counts the reasoning too", async () => {
    const { body } = await ask({ model: "echo", messages: [user("hi")], reasoning_effort: "low", max_tokens: 4 });
    expect(body.choices[0].finish_reason).toBe("length");
    expect(body.choices[0].message.content).toBe("");
    expect(body.usage).toMatchObject({ completion_tokens: 4, completion_tokens_details: { reasoning_tokens: 4 } });
  });

  const tools = [
    {
      type: "function",
      function: {
        name: "search",
        parameters: { type: "object", required: ["q"], properties: { q: { type: "string" } } },
      },
    },
    { type: "function", function: { name: "clock" } },
  ];

  test.each([
    ["required", "search", { q: "Rome" }],
    [{ type: "function", function: { name: "clock" } }, "clock", {}],
  ])("tool_choice %j forces a call", async (choice, name, expected) => {
    const { body } = await ask({ model: "echo", messages: [user("Rome")], tools, tool_choice: choice });
    const [only] = body.choices;
    expect([only.finish_reason, only.message.content, only.message.tool_calls.length]).toEqual(["tool_calls", null, 1]);
    const [call] = only.message.tool_calls;
    expect([call.type, call.function.name, JSON.parse(call.function.arguments)]).toEqual(["function", name, expected]);
    expect(call.id).toMatch(/^call_\w{24}$/);
  });

  test("tools that nothing forces are not called; a choice that cannot be is a 400", async () => {
    for (const choice of ["auto", "none", undefined]) {
      const { body } = await ask({ model: "echo", messages: [user("Rome")], tools, tool_choice: choice });
      expect(body.choices[0].message).toMatchObject({ content: "Rome" });
      expect(body.choices[0].message).not.toContainKey("tool_calls");
    }
    const unknown = { type: "function", function: { name: "missing" } };
    for (const request of [{ tool_choice: "required" }, { tools, tool_choice: unknown }]) {
      const { status, body } = await ask({ model: "echo", messages: [user("Rome")], ...request });
      expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
    }
  });

  test("a conversation that ends in tool results is answered with them, also when a tool is forced", async () => {
    const messages = [
      user("weather?"),
      {
        role: "assistant",
        tool_calls: [{ id: "a", type: "function", function: { name: "search", arguments: '{"q": "x"}' } }],
      },
      { role: "tool", tool_call_id: "a", content: "12 degrees" },
      { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "sunny" }] },
    ];
    const { body } = await ask({ model: "echo", messages, tools, tool_choice: "required" });
    expect(body.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "12 degrees\nsunny" } });
    const later = await ask({ model: "echo", messages: [...messages, user("thanks")] });
    expect(later.body.choices[0].message.content).toBe("thanks");
  });

  test("a stream says the same, in words, in the order of the dialect, ended once", async () => {
    const request = { model: "echo", messages: [user("one two three")], reasoning_effort: "low" };
    const whole = (await ask(request)).body;
    const { records, type } = await askStream({ ...request, stream_options: { include_usage: true } });
    expect(type).toStartWith("text/event-stream");
    expect(records.filter((record) => record === "[DONE]").length).toBe(1);
    expect(records.at(-1)).toBe("[DONE]");
    const values = records.slice(0, -1).map((record) => JSON.parse(record));
    expect(new Set(values.map((value) => `${value.id} ${value.created} ${value.model} ${value.object}`)).size).toBe(1);
    const deltas = deltasOf(values);
    expect(deltas[0]).toEqual({ role: "assistant", content: "" });
    const spoken = deltas.slice(1);
    const lastThought = spoken.findLastIndex((delta) => "reasoning_content" in delta);
    expect(
      spoken
        .slice(0, lastThought + 1)
        .map((delta) => delta.reasoning_content)
        .join(""),
    ).toBe(whole.choices[0].message.reasoning_content);
    expect(spoken.slice(lastThought + 1).map((delta) => delta.content)).toStrictEqual([
      "one",
      " two",
      " three",
      undefined,
    ]);
    expect(values.at(-2).choices[0].finish_reason).toBe("stop");
    expect(values.at(-1)).toMatchObject({ choices: [], usage: whole.usage });
  });

  test("a stream that was not asked for usage has none; a streamed call gives its id and name once", async () => {
    const { records } = await askStream({ model: "echo", messages: [user("a b c")], tools, tool_choice: "required" });
    const values = records.slice(0, -1).map((record) => JSON.parse(record));
    expect(values.some((value) => "usage" in value)).toBe(false);
    const calls = deltasOf(values).flatMap((delta) => delta.tool_calls ?? []);
    expect(calls.map((call) => call.index)).toEqual(calls.map(() => 0));
    expect(calls.filter((call) => call.id !== undefined).map((call) => call.function.name)).toEqual(["search"]);
    expect(JSON.parse(calls.map((call) => call.function.arguments).join(""))).toEqual({ q: "a b c" });
  });
});

describe("what is no request", () => {
  test.each([
    ["not json", 400],
    ["[]", 400],
    ['{"model":"nobody"}', 404],
    ['{"model":"constructor"}', 404],
    ["{}", 404],
  ])("%s is %d", async (text, status) => {
    const answer = await ask(text);
    expect(answer.status).toBe(status);
    expect(Object.keys(answer.body.error)).toEqual(["message", "type", "param", "code"]);
  });

  test("another path is 404", async () => {
    expect((await ask({ model: "echo" }, "/embeddings")).status).toBe(404);
  });
});

describe("exampleOf", () => {
  const text = "some text";
  test.each([
    [{ type: "string" }, text],
    [{ type: "string", maxLength: 4 }, "some"],
    [{ type: "string", minLength: 12 }, "some text..."],
    [{ type: "string", format: "date" }, "2026-01-02"],
    [{ enum: ["red", "blue"] }, "red"],
    [{ const: 5 }, 5],
    [{ type: "integer", minimum: 3 }, 3],
    [{ type: "integer", exclusiveMinimum: 3 }, 4],
    [{ type: "integer", maximum: -2 }, -2],
    [{ type: "number", minimum: 0, maximum: 0.5 }, 0.5],
    [{ type: "integer", minimum: 7, multipleOf: 5 }, 10],
    [{ type: "boolean" }, true],
    [{ type: ["null", "boolean"] }, true],
    [{ type: "null" }, null],
    [{ type: "array", items: { type: "string" } }, []],
    [{ type: "array", items: { type: "string" }, minItems: 2 }, [text, text]],
    [{ anyOf: [{ type: "integer" }, { type: "string" }] }, 1],
    [{ type: "object", properties: { a: {} } }, {}],
    [
      {
        properties: { a: { type: "object", required: ["b"], properties: { b: { type: "boolean" } } } },
        required: ["a"],
      },
      { a: { b: true } },
    ],
    [
      {
        allOf: [{ properties: { a: { type: "boolean" } } }, { $ref: "#/$defs/n" }],
        required: ["a"],
        $defs: { n: { properties: { n: { type: "integer" } }, required: ["n"] } },
      },
      { a: true, n: 1 },
    ],
    [true, null],
  ])("%j is %j", (schema, expected) => {
    expect(exampleOf(schema, text)).toEqual(expected);
  });

  test("no text ends in half a character", () => {
    expect(exampleOf({ type: "string", maxLength: 4 }, "fox\u{1f98a}")).toBe("fox");
  });

  test("a schema that refers to itself comes to an end", () => {
    const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: "#" }]));
    const made = JSON.stringify(exampleOf({ type: "object", required: names, properties }, text));
    expect(made.length).toBeGreaterThan(1_000);
    expect(made.length).toBeLessThan(1_000_000);
    expect(exampleOf({ $ref: "#" }, text)).toBeNull();
  });
});
