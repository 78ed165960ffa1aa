import { describe, expect, test } from "bun:test";
import type { Orders, ReasoningOrder } from "../../src/canon/intent.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { editObject } from "../../src/lib/json-text.ts";

const orders = (fields: Partial<Orders> = {}): Orders => ({
  upstreamModel: "up",
  stream: false,
  reasoning: { kind: "keep" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
  ...fields,
});
const amend = (body: Record<string, unknown>, fields: Partial<Orders> = {}) =>
  messages.amend({ model: "up", ...body }, orders(fields), {});
const think = (body: Record<string, unknown>, reasoning: ReasoningOrder, fields: Partial<Orders> = {}) =>
  amend(body, { reasoning, ...fields });

describe("amend", () => {
  test("what already stands is not edited", () => {
    expect(amend({})).toEqual({});
    expect(amend({ stream: true, max_tokens: 5 }, { stream: true, maxOutputTokens: 5 })).toEqual({});
    expect(amend({ thinking: { type: "odd" }, output_config: { effort: "huge" } })).toEqual({});
  });

  test("model, stream, ceiling, sampling and removals", () => {
    expect(
      messages.amend(
        { model: "a/b", stream: true, max_tokens: 9, temperature: 1, top_k: 3, container: "c" },
        orders({ maxOutputTokens: 5, dropSampling: true, remove: ["container", "speed"] }),
        {},
      ),
    ).toEqual({
      model: "up",
      stream: false,
      max_tokens: 5,
      temperature: undefined,
      top_k: undefined,
      container: undefined,
    });
    expect(Object.keys(amend({ stream: undefined }))).toEqual([]);
    expect(amend({ stream: false }, { stream: true })).toEqual({ stream: true });
  });

  test("spliced into the client's text, everything else keeps its bytes", () => {
    const text =
      '{"model":"v/m",  "n":12345678901234567890,"thinking" : {"type":"enabled","budget_tokens":9},"x":"\\u00e9"}';
    const edits = messages.amend(JSON.parse(text), orders({ reasoning: { kind: "off", form: "adaptive-effort" } }), {});
    expect(editObject(text, edits)).toBe(
      '{"model":"up",  "n":12345678901234567890,"thinking" : {"type":"disabled"},"x":"\\u00e9"}',
    );
  });

  test("a field that is removed does not come back by another order", () => {
    const reasoning: ReasoningOrder = { kind: "level", form: "adaptive-effort", level: "low" };
    expect(think({}, reasoning, { remove: ["thinking", "output_config"] })).toEqual({});
  });
});

describe("reasoning orders", () => {
  const level = (
    form: "adaptive-effort" | "effort-only" | "budget" | "adaptive-switch",
    word: string,
  ): ReasoningOrder => ({
    kind: "level",
    form,
    level: word,
  });

  test.each<[object, ReasoningOrder, object]>([
    // adaptive-effort
    [
      {},
      level("adaptive-effort", "high"),
      { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "high" } },
    ],
    [
      {
        thinking: { type: "enabled", budget_tokens: 9000, display: "omitted" },
        output_config: { format: { f: 1 }, effort: "max" },
      },
      level("adaptive-effort", "high"),
      { thinking: { type: "adaptive", display: "omitted" }, output_config: { format: { f: 1 }, effort: "high" } },
    ],
    [{ thinking: { type: "adaptive" }, output_config: { effort: "high" } }, level("adaptive-effort", "high"), {}],
    [{ thinking: { type: "adaptive", display: "omitted" } }, { kind: "on", form: "adaptive-effort" }, {}],
    [{}, { kind: "on", form: "adaptive-effort" }, { thinking: { type: "adaptive", display: "summarized" } }],
    [{}, { kind: "off", form: "adaptive-effort" }, { thinking: { type: "disabled" } }],
    [{ thinking: { type: "disabled" } }, { kind: "off", form: "adaptive-effort" }, {}],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "high", task_budget: 1 } },
      { kind: "off", form: "adaptive-effort" },
      { thinking: { type: "disabled" }, output_config: { task_budget: 1 } },
    ],
    [
      { output_config: { effort: "low" } },
      { kind: "off", form: "adaptive-effort", value: "between_tools" },
      { thinking: { type: "between_tools" }, output_config: undefined },
    ],
    [
      { thinking: { type: "disabled" }, output_config: { effort: "low" } },
      { kind: "off", form: "adaptive-effort", value: "between_tools" },
      { thinking: { type: "between_tools" } },
    ],
    [
      { thinking: { type: "disabled" }, output_config: { effort: "max" } },
      { kind: "off", form: "adaptive-effort" },
      { output_config: undefined },
    ],
    // effort-only
    [
      { thinking: { type: "adaptive" } },
      level("effort-only", "low"),
      { thinking: undefined, output_config: { effort: "low" } },
    ],
    [{ thinking: { type: "disabled" } }, { kind: "off", form: "effort-only" }, { thinking: undefined }],
    // budget
    [{}, level("budget", "low"), { thinking: { type: "enabled", budget_tokens: 4000 } }],
    [{}, level("budget", "medium"), { thinking: { type: "enabled", budget_tokens: 10000 } }],
    [{}, level("budget", "high"), { thinking: { type: "enabled", budget_tokens: 20000 } }],
    [{}, level("budget", "xhigh"), { thinking: { type: "enabled", budget_tokens: 32000 } }],
    [{}, level("budget", "max"), { thinking: { type: "enabled", budget_tokens: 32000 } }],
    [{}, { kind: "on", form: "budget" }, { thinking: { type: "enabled", budget_tokens: 10000 } }],
    [{}, { kind: "budget", form: "budget", tokens: 12 }, { thinking: { type: "enabled", budget_tokens: 1024 } }],
    [
      { max_tokens: 5000 },
      { kind: "budget", form: "budget", tokens: 8000 },
      { thinking: { type: "enabled", budget_tokens: 3750 } },
    ],
    [
      { max_tokens: 32_000 },
      { kind: "budget", form: "budget", tokens: 32_000 },
      { thinking: { type: "enabled", budget_tokens: 27_904 } },
    ],
    [
      { max_tokens: 8001 },
      { kind: "budget", form: "budget", tokens: 8000 },
      { thinking: { type: "enabled", budget_tokens: 8000 } },
    ],
    [
      { max_tokens: 1025 },
      { kind: "budget", form: "budget", tokens: 8000 },
      { thinking: { type: "enabled", budget_tokens: 1024 } },
    ],
    [{ max_tokens: 1024 }, { kind: "budget", form: "budget", tokens: 8000 }, { thinking: { type: "disabled" } }],
    [
      { thinking: { type: "enabled", budget_tokens: 8000 }, max_tokens: 9000 },
      { kind: "budget", form: "budget", tokens: 8000 },
      {},
    ],
    [{ tool_choice: { type: "any" } }, { kind: "off", form: "budget" }, { thinking: { type: "disabled" } }],
    [
      { tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true } },
      level("budget", "low"),
      {
        thinking: { type: "enabled", budget_tokens: 4000 },
        tool_choice: { type: "auto", disable_parallel_tool_use: true },
        system: "Answer this time by calling the tool f.",
      },
    ],
    [
      { tool_choice: { type: "any" } },
      level("adaptive-effort", "low"),
      { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "low" } },
    ],
    // adaptive-switch
    [{}, level("adaptive-switch", "adaptive"), { thinking: { type: "adaptive" } }],
    [
      { thinking: { type: "enabled", budget_tokens: 5 } },
      { kind: "on", form: "adaptive-switch", value: "adaptive" },
      { thinking: { type: "adaptive" } },
    ],
    [{}, { kind: "off", form: "adaptive-switch", value: "disabled" }, { thinking: { type: "disabled" } }],
    // nothing, and forms of other dialects
    [{}, { kind: "nothing" }, {}],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "low" } },
      { kind: "nothing" },
      { thinking: undefined, output_config: undefined },
    ],
    [{ output_config: { format: { f: 1 } } }, { kind: "nothing" }, {}],
    [{ thinking: { type: "adaptive" } }, { kind: "level", form: "effort", level: "low" }, { thinking: undefined }],
  ])("%j under %j becomes %j", (body, reasoning, edits) => {
    expect(think({ ...body }, reasoning)).toStrictEqual(edits as never);
  });

  test("the ceiling that is ordered counts, not the client's", () => {
    const order: ReasoningOrder = { kind: "budget", form: "budget", tokens: 8000 };
    expect(think({ max_tokens: 20_000 }, order, { maxOutputTokens: 3000 })).toEqual({
      max_tokens: 3000,
      thinking: { type: "enabled", budget_tokens: 2250 },
    });
  });

  test("a tool loop whose thinking did not come back goes on without thinking", () => {
    const loop = (first: object) => [
      { role: "user", content: "go" },
      { role: "assistant", content: [first, { type: "tool_use", id: "t", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t" }] },
    ];
    const order = level("budget", "low");
    expect(think({ messages: loop({ type: "text", text: "x" }) }, order)).toEqual({ thinking: { type: "disabled" } });
    expect(think({ messages: loop({ type: "thinking", thinking: "", signature: "s" }) }, order)).toEqual({
      thinking: { type: "enabled", budget_tokens: 4000 },
    });
  });

  test("nor does a system turn end it: thinking that is switched off there goes out of all of it", () => {
    const said = { role: "user", content: "go" };
    const call = (id: string) => ({ type: "tool_use", id, name: "f", input: {} });
    const turn = (id: string, ...thought: object[]) => [
      { role: "assistant", content: [...thought, call(id)] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "r" }] },
      { role: "system", content: "note" },
    ];
    const thought = { type: "thinking", thinking: "hm", signature: "ErUB" };
    const off = { kind: "off", form: "adaptive-effort" } as const;
    const body = { messages: [said, ...turn("a", thought), ...turn("b", thought)], thinking: { type: "disabled" } };
    expect(think(body, off, { upstreamModel: "claude-opus-4-8" })).toMatchObject({
      messages: [said, ...turn("a"), ...turn("b")],
    });
  });
});

describe("thinking that its vendor cannot have signed", () => {
  const turn = (...content: unknown[]) => [
    { role: "user", content: "x" },
    { role: "assistant", content },
  ];
  const text = { type: "text", text: "hm" };
  const signed = { type: "thinking", thinking: "own", signature: "ErUB" };

  test.each([
    { type: "thinking", thinking: "another's" },
    { type: "thinking", thinking: "another's", signature: "" },
    { type: "thinking", thinking: "another's", signature: "gm:call:abc" },
    { type: "thinking", thinking: "another's", signature: null },
    { type: "redacted_thinking" },
    { type: "redacted_thinking", data: "" },
  ])("is left out, and with it a turn of which nothing is left: %p", (foreign) => {
    expect(amend({ messages: turn(foreign, signed, text) })).toEqual({ messages: turn(signed, text) });
    expect(amend({ messages: turn(foreign) })).toEqual({ messages: turn(text).slice(0, 1) });
    expect(amend({ messages: turn(signed, text) })).toEqual({});
  });

  test("stays where the vendor signs nothing, unless it is known to be another's", () => {
    const ask = (signature: string) => ({ model: "up", messages: turn({ ...signed, signature }, text) });
    expect(messages.amend(ask(""), orders(), { unsignedThinking: true })).toEqual({});
    expect(messages.amend(ask("rs:abc"), orders(), { unsignedThinking: true })).toEqual({ messages: turn(text) });
  });
});
