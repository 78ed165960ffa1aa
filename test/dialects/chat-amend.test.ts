import { describe, expect, test } from "bun:test";
import type { Orders, ReasoningOrder } from "../../src/canon/intent.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { editObject } from "../../src/lib/json-text.ts";

type Wire = Record<string, unknown>;

const ORDERS: Orders = {
  upstreamModel: "tiny",
  stream: false,
  reasoning: { kind: "keep" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
};
const hello = [{ role: "user", content: "Hi" }];

const amend = (body: Wire, orders: Partial<Orders> = {}, quirks: Quirks = {}) =>
  chat.amend({ model: "tiny", messages: hello, ...body }, { ...ORDERS, ...orders }, quirks);

test("a body that is in order is not touched", () => {
  const body = { model: "tiny", messages: hello, max_completion_tokens: 5, temperature: 1, x: 1, stream: false };
  expect(amend(body)).toStrictEqual({});
  const streamed = { stream: true, stream_options: { include_usage: true } };
  expect(amend(streamed, { stream: true })).toStrictEqual({});
});

test("the edits leave every other byte as it was", () => {
  const text =
    '{ "model":"lab/tiny", "n" : 1,"big":12345678901234567890, "messages":[ {"role":"user","content":"\\u00e9"}] }';
  const edits = chat.amend(JSON.parse(text) as Wire, ORDERS, {});
  expect(editObject(text, edits)).toBe(text.replace("lab/tiny", "tiny"));
});

test("streams ask for usage, beside what the client asked for", () => {
  expect(amend({}, { stream: true })).toStrictEqual({ stream: true, stream_options: { include_usage: true } });
  const own = { stream: true, stream_options: { include_obfuscation: false, include_usage: false } };
  expect(amend(own, { stream: true })).toStrictEqual({
    stream_options: { include_obfuscation: false, include_usage: true },
  });
  const edits = amend(own, { stream: true }, { noStreamOptions: true });
  expect(edits).toStrictEqual({ stream_options: undefined });
  expect("stream_options" in edits).toBe(true);
  expect(amend({}, { stream: true }, { noStreamOptions: true })).toStrictEqual({ stream: true });
  expect(amend({ stream: true, stream_options: {} })).toStrictEqual({ stream: false, stream_options: undefined });
});

test("a stream asks for the arguments of calls as they come where its vendor tells them whole else", () => {
  const tools = [{ type: "function", function: { name: "write", parameters: { type: "object" } } }];
  const quirks: Quirks = { toolStream: true, noStreamOptions: true };
  const said = (body: Wire, stream: boolean) => amend(body, { stream }, quirks);
  expect(said({ tools, stream: true }, true)).toStrictEqual({ tool_stream: true });
  expect(said({ tools, stream: true, tool_stream: false }, true)).toStrictEqual({});
  expect(said({ stream: true }, true)).toStrictEqual({});
  expect(said({ stream: true, tools: [] }, true)).toStrictEqual({ tools: undefined });
  expect(said({ tools }, false)).toStrictEqual({});
});

test("the ceiling goes under the vendor's name, ordered or the client's own", () => {
  const newer = { max_completion_tokens: 5, max_tokens: undefined };
  for (const customTools of [true, false]) expect(amend({ max_tokens: 5 }, {}, { customTools })).toStrictEqual(newer);
  expect(amend({ max_tokens: 5 }, {}, { maxTokensField: "max_tokens" })).toStrictEqual({});
  expect(amend({ max_completion_tokens: 7, max_tokens: 5 }, {}, { maxTokensField: "max_tokens" })).toStrictEqual({
    max_tokens: 7,
    max_completion_tokens: undefined,
  });
  // A server of which nothing is known may read no more than what its client wrote, and else the older one.
  expect(amend({ max_tokens: 5 })).toStrictEqual({});
  expect(amend({ max_tokens: 5 }, { maxOutputTokens: 3 })).toStrictEqual({ max_tokens: 3 });
  expect(amend({ max_tokens: 5, max_completion_tokens: null })).toStrictEqual({ max_completion_tokens: undefined });
  expect(amend({ max_tokens: 5, max_completion_tokens: 7 })).toStrictEqual({ max_tokens: undefined });
  expect(amend({}, { maxOutputTokens: 3 })).toStrictEqual({ max_tokens: 3 });
  expect(amend({ max_tokens: null })).toStrictEqual({});
});

test("a field of null goes where its vendor knows it by another name alone", () => {
  const seed: Quirks = { seedField: "random_seed" };
  expect(amend({ seed: null }, {}, seed)).toStrictEqual({ seed: undefined });
  expect(amend({ seed: null })).toStrictEqual({});
  expect(amend({}, {}, seed)).toStrictEqual({});
  const older: Quirks = { maxTokensField: "max_tokens" };
  expect(amend({ max_completion_tokens: null, max_tokens: null }, {}, older)).toStrictEqual({
    max_completion_tokens: undefined,
  });
  expect(amend({ max_completion_tokens: null })).toStrictEqual({});
});

test("sampling and refused fields go, and only where they stand", () => {
  expect(
    amend({ temperature: 1, top_p: 0.5, seed: 1 }, { dropSampling: true, remove: ["seed", "logit_bias"] }),
  ).toStrictEqual({
    temperature: undefined,
    top_p: undefined,
    seed: undefined,
  });
  const edits = amend({}, { stream: true, remove: ["stream_options"] });
  expect(Object.keys(edits)).toStrictEqual(["stream"]);
});

describe("an upstream's oddities", () => {
  test("developer becomes system", () => {
    const messages = [{ role: "developer", content: "Be brief.", x: 1 }, ...hello];
    expect(amend({ messages }, {}, { noDeveloperRole: true })).toStrictEqual({
      messages: [{ role: "system", content: "Be brief.", x: 1 }, ...hello],
    });
    expect(amend({ messages })).toStrictEqual({});
    expect(amend({ messages }, {}, { emptyContent: true })).toStrictEqual({});
    expect(amend({}, {}, { noDeveloperRole: true })).toStrictEqual({});
  });

  const turn = { role: "assistant", content: "a" };
  const called = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
  const asks = { role: "assistant", content: null, tool_calls: [called] };
  const result = { role: "tool", tool_call_id: "abcdefghi", content: "1" };
  const longCall = { ...called, id: "call_abcdefgh" };
  const marked = [{ type: "text", text: "a", cache_control: { type: "ephemeral" } }];
  const parts = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  test.each<[Quirks, Wire[]]>([
    [{ noDeveloperRole: true }, [{ role: "developer", content: "Be brief." }]],
    [{ emptyContent: true }, [asks, result]],
    [{ reasoningReplayAlways: true }, [turn]],
    [{ reasoningReplayCalls: true }, [asks, result]],
    [{ refusesReasoning: true }, [{ ...turn, reasoning: "r" }]],
    [{ unknownFields: ["x"] }, [{ ...asks, tool_calls: [{ ...called, extra_content: {} }] }, result]],
    [
      { nineCharacterToolIds: true },
      [
        { ...asks, tool_calls: [longCall] },
        { ...result, tool_call_id: longCall.id },
      ],
    ],
    [{ messageFields: ["role", "content"] }, [{ ...turn, name: "n" }]],
    [{ joinedContent: true }, [{ role: "assistant", content: parts }]],
    [{ acceptsCacheControl: false }, [{ role: "assistant", content: marked }]],
  ])("%j alone, and a turn that it concerns is changed, no other one is", (quirks, concerned) => {
    const edits = amend({ messages: [...hello, ...concerned, ...hello] }, {}, quirks);
    const messages = edits["messages"] as Wire[];
    expect(messages).toHaveLength(concerned.length + 2);
    expect([messages[0], messages.at(-1)]).toStrictEqual([hello[0]!, hello[0]!]);
    expect(messages[1]).not.toEqual(concerned[0]!);
  });

  test("of several calls the one that carries a proof goes without it, and each long id is shortened, beside others that are in order", () => {
    const signed = { ...longCall, extra_content: { google: { thought_signature: "s" } } };
    const messages = [
      ...hello,
      { ...asks, tool_calls: [signed, called] },
      { ...result, tool_call_id: signed.id },
      result,
    ];
    const sent = (quirks: Quirks) => (amend({ messages }, {}, quirks)["messages"] as Wire[])[1]!["tool_calls"];
    expect(sent({ refusesReasoning: true })).toEqual([longCall, called]);
    const id = expect.stringMatching(/^[0-9A-Za-z]{9}$/);
    expect(sent({ refusesReasoning: true, nineCharacterToolIds: true })).toEqual([{ ...longCall, id }, called]);
    // Whoever refuses no reasoning is shown it.
    expect(sent({ emptyContent: true })).toEqual([signed, called]);
  });

  test("a forced tool choice is spelled any, or cannot be forced", () => {
    const named = { type: "function", function: { name: "f" } };
    expect(amend({ tool_choice: "required" }, {}, { toolChoiceRequired: "any" })).toStrictEqual({ tool_choice: "any" });
    expect(amend({ tool_choice: named }, {}, { toolChoiceRequired: "any" })).toStrictEqual({});
    // A client of Mistral's says it in that vendor's word, whoever answers.
    expect(amend({ tool_choice: "any" }, {}, { toolChoiceRequired: "any" })).toStrictEqual({});
    expect(amend({ tool_choice: "any" }, {}, {})).toStrictEqual({ tool_choice: "required" });
    // What cannot be forced is said in words.
    for (const choice of ["required", "any"]) {
      expect(amend({ tool_choice: choice }, {}, { toolChoiceRequired: "auto" })).toStrictEqual({
        tool_choice: "auto",
        messages: [{ role: "system", content: "Answer this time by calling one of the tools." }, ...hello],
      });
    }
    expect(amend({ tool_choice: named }, {}, { toolChoiceRequired: "auto" })).toStrictEqual({
      tool_choice: "auto",
      messages: [{ role: "system", content: "Answer this time by calling the tool f." }, ...hello],
    });
    const systems = { messages: [{ role: "system", content: "Be brief." }, ...hello], tool_choice: named };
    expect(amend(systems, {}, { toolChoiceRequired: "auto" })["messages"]).toStrictEqual([
      { role: "system", content: "Be brief.\nAnswer this time by calling the tool f." },
      ...hello,
    ]);
    const words = "Answer this time by calling the tool f.";
    const prompts: [Wire, unknown][] = [
      [{ role: "developer", content: "Be brief." }, `Be brief.\n${words}`],
      [
        { role: "system", content: [{ type: "text", text: "a" }] },
        ["a", words].map((text) => ({ type: "text", text })),
      ],
    ];
    for (const [prompt, content] of prompts) {
      const edits = amend({ messages: [prompt, ...hello], tool_choice: named }, {}, { toolChoiceRequired: "auto" });
      expect(edits["messages"]).toStrictEqual([{ ...prompt, content }, ...hello]);
    }
    const onlyThen: Quirks = { toolChoiceRequired: "auto-while-reasoning" };
    expect(amend({ tool_choice: "required" }, {}, onlyThen)).toStrictEqual({});
    const reasons: Partial<Orders>[] = [
      { isReasoningActive: true },
      { reasoning: { kind: "level", form: "effort", level: "low" } },
      { reasoning: { kind: "on", form: "enable-thinking", value: "on" } },
      { reasoning: { kind: "budget", form: "enable-thinking", tokens: 9 } },
    ];
    for (const orders of reasons) {
      expect(amend({ tool_choice: "required" }, orders, onlyThen)).toMatchObject({ tool_choice: "auto" });
    }
    const unlessOff: Quirks = { toolChoiceRequired: "auto-unless-off" };
    const off: Orders["reasoning"] = { kind: "off", form: "thinking-type-effort" };
    expect(amend({ tool_choice: "required" }, {}, unlessOff)).toMatchObject({ tool_choice: "auto" });
    expect(amend({ tool_choice: "required" }, { reasoning: off }, unlessOff)).toStrictEqual({
      thinking: { type: "disabled" },
    });
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(amend({ tools, tool_choice: "none" }, {}, { toolChoiceRequired: "auto" })).toStrictEqual({});
  });

  test("a list of no tools goes, with what goes with tools", () => {
    expect(amend({ tools: [], tool_choice: "auto", parallel_tool_calls: true }, {}, {})).toStrictEqual({
      tools: undefined,
      tool_choice: undefined,
      parallel_tool_calls: undefined,
    });
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(amend({ tools, tool_choice: "auto" }, {}, {})).toStrictEqual({});
  });

  test("where there are no tools, what only goes with tools goes, but for a choice that is forced", () => {
    const gone = { tool_choice: undefined, parallel_tool_calls: undefined };
    for (const tool_choice of ["auto", "none"]) {
      expect(amend({ tool_choice, parallel_tool_calls: false }, {}, {})).toStrictEqual(gone);
    }
    expect(amend({ functions: [], function_call: "auto" }, {}, {})).toStrictEqual({
      functions: undefined,
      function_call: undefined,
    });
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(amend({ tools, functions: [], parallel_tool_calls: true }, {}, {})).toStrictEqual({ functions: undefined });
    const older = { functions: [{ name: "f" }], function_call: "auto" };
    expect(amend(older, {}, { legacyFunctions: true })).toStrictEqual({});
    for (const choice of ["required", null]) expect(amend({ tool_choice: choice }, {}, {})).toStrictEqual({});
  });

  test("empty stop sequences go, others stay", () => {
    for (const stop of ["", [""]]) expect(amend({ stop }, {}, {})).toStrictEqual({ stop: undefined });
    expect(amend({ stop: ["a", ""] }, {}, {})).toStrictEqual({ stop: ["a"] });
    for (const stop of ["a", ["a", "b", "c", "d", "e"], [], null]) expect(amend({ stop }, {}, {})).toStrictEqual({});
  });

  test("a schema's format has a legal name (dialects.md 1.1)", () => {
    const format = (name: unknown) => ({ type: "json_schema", json_schema: { name, schema: {}, strict: true } });
    const named = (name: unknown) => amend({ response_format: format(name) }, {}, {});
    for (const none of [undefined, null, ""]) expect(named(none)).toStrictEqual({ response_format: format("output") });
    expect(named("my format")).toStrictEqual({ response_format: format("my_format") });
    expect(named("fine-1_a")).toStrictEqual({});
  });

  test("assistant turns, call ids and the seed", () => {
    const call = { id: "call_abcdefgh", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      ...hello,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_abcdefgh", content: "1" },
    ];
    const quirks: Quirks = {
      emptyContent: true,
      nineCharacterToolIds: true,
      reasoningReplayAlways: true,
      seedField: "random_seed",
    };
    const edits = amend({ messages, seed: 4 }, {}, quirks);
    const [, assistant, result] = edits["messages"] as Wire[];
    const id = (assistant!["tool_calls"] as Wire[])[0]!["id"];
    expect(id).toMatch(/^[0-9A-Za-z]{9}$/);
    expect(result!["tool_call_id"]).toBe(id);
    expect(assistant).toMatchObject({ content: "", reasoning_content: "" });
    expect(edits).toMatchObject({ random_seed: 4, seed: undefined });
    expect(amend({ messages: edits["messages"] }, {}, quirks)).toStrictEqual({});
  });

  test("a document's bytes as an address, where the vendor wants that; what it holds by an ID stays", () => {
    const file_data = "data:application/pdf;base64,JVBERi0=";
    const text = { type: "text", text: "Sum it up." };
    const held = { type: "file", file: { file_id: "file-1" } };
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: [text, { type: "file", file: { file_data, filename: "a.pdf" } }, held] },
      { role: "user", content: [{ type: "file", file: { file_data } }] },
    ];
    expect(amend({ messages }, {}, { documentUrls: true })["messages"]).toEqual([
      messages[0],
      {
        role: "user",
        content: [text, { type: "document_url", document_url: file_data, document_name: "a.pdf" }, held],
      },
      { role: "user", content: [{ type: "document_url", document_url: file_data }] },
    ]);
    expect(amend({ messages }, {}, {})).toStrictEqual({});
    expect(amend({ messages: [messages[0]] }, {}, { documentUrls: true })).toStrictEqual({});
  });
});

describe("reasoning", () => {
  const clients = {
    reasoning_effort: "low",
    reasoning: {},
    thinking: { type: "enabled", keep: "all" },
    enable_thinking: true,
  };
  const table: [ReasoningOrder, Wire][] = [
    [{ kind: "nothing" }, {}],
    [{ kind: "level", form: "effort", level: "high" }, { reasoning_effort: "high" }],
    [{ kind: "off", form: "effort" }, { reasoning_effort: "none" }],
    [{ kind: "off", form: "effort", value: "minimal" }, { reasoning_effort: "minimal" }],
    [{ kind: "on", form: "effort", value: "high" }, { reasoning_effort: "high" }],
    [{ kind: "off", form: "thinking-type", value: "off" }, { thinking: { keep: "all", type: "disabled" } }],
    [{ kind: "on", form: "thinking-type", value: "on" }, { thinking: { keep: "all", type: "enabled" } }],
    [{ kind: "on", form: "thinking-type", value: "adaptive" }, { thinking: { keep: "all", type: "adaptive" } }],
    [
      { kind: "budget", form: "thinking-type", tokens: 9 },
      { thinking: { keep: "all", type: "enabled", budget_tokens: 9 } },
    ],
    [
      { kind: "level", form: "thinking-type-effort", level: "max" },
      { thinking: { keep: "all", type: "enabled" }, reasoning_effort: "max" },
    ],
    [{ kind: "off", form: "thinking-type-effort" }, { thinking: { keep: "all", type: "disabled" } }],
    [{ kind: "on", form: "thinking-type-effort", value: "on" }, { thinking: { keep: "all", type: "enabled" } }],
    [{ kind: "on", form: "enable-thinking", value: "on" }, { enable_thinking: true }],
    [{ kind: "off", form: "enable-thinking", value: "off" }, { enable_thinking: false }],
    [
      { kind: "budget", form: "enable-thinking", tokens: 9 },
      { enable_thinking: true, thinking_budget: 9 },
    ],
    [{ kind: "off", form: "template-enable-thinking" }, { chat_template_kwargs: { a: 1, enable_thinking: false } }],
    [{ kind: "on", form: "template-thinking" }, { chat_template_kwargs: { a: 1, thinking: true } }],
    [{ kind: "level", form: "reasoning-object", level: "low" }, { reasoning: { effort: "low" } }],
    [{ kind: "off", form: "reasoning-object" }, { reasoning: { enabled: false } }],
    [{ kind: "on", form: "reasoning-object" }, { reasoning: { enabled: true } }],
    [{ kind: "budget", form: "reasoning-object", tokens: 9 }, { reasoning: { max_tokens: 9 } }],
  ];
  test.each(table)("%j writes %j and nothing of the client's", (reasoning, fields) => {
    const body: Wire = {
      model: "tiny",
      messages: hello,
      ...clients,
      thinking_budget: 3,
      chat_template_kwargs: { a: 1 },
    };
    const text = editObject(JSON.stringify(body), amend(body, { reasoning }));
    const { chat_template_kwargs: template, ...rest } = JSON.parse(text) as Wire;
    expect(rest).toStrictEqual({ model: "tiny", messages: hello, ...withoutTemplate(fields) });
    expect(template).toStrictEqual(fields["chat_template_kwargs"] ?? { a: 1 });
  });

  test("keep leaves the client's own fields, and an equal order changes nothing", () => {
    expect(amend(clients)).toStrictEqual({});
    expect(
      amend({ reasoning_effort: "low" }, { reasoning: { kind: "level", form: "effort", level: "low" } }),
    ).toStrictEqual({});
  });
});

function withoutTemplate(fields: Wire): Wire {
  const { chat_template_kwargs: _template, ...rest } = fields;
  return rest;
}
