import { describe, expect, test } from "bun:test";
import type { Orders } from "../../src/canon/intent.ts";
import { CLIENTS, type ClientName, send, UPSTREAMS, type Wire } from "./crossing.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUg";
const PDF = "JVBERi0xLjQK";
const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"], additionalProperties: false };
const chatImage = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}`, detail: "low" } };
const chatFile = { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } };
const format = { name: "n", strict: true, schema };

/** A request of each dialect with an object in every place that another vendor is told of. */
const RICH: Record<ClientName, Wire> = {
  chat: {
    reasoning: { effort: "low" },
    stream: true,
    stream_options: { include_usage: true },
    response_format: { type: "json_schema", json_schema: format },
    tools: [
      { type: "function", function: { name: "f", description: "d", parameters: schema } },
      { type: "custom", custom: { name: "g", description: "d", format: { type: "text" } } },
    ],
    messages: [
      { role: "system", content: [{ type: "text", text: "s" }] },
      { role: "user", content: [{ type: "text", text: "u" }, chatImage, chatFile] },
      {
        role: "assistant",
        content: "a",
        tool_calls: [
          { id: "t1", type: "function", function: { name: "f", arguments: "{}" } },
          { id: "t2", type: "custom", custom: { name: "g", input: "x" } },
        ],
      },
      { role: "tool", tool_call_id: "t1", content: [{ type: "text", text: "r" }] },
      { role: "tool", tool_call_id: "t2", content: "r" },
    ],
  },
  messages: {
    max_tokens: 2_000,
    metadata: { user_id: "u" },
    thinking: { type: "enabled", budget_tokens: 1_024 },
    output_config: { effort: "low", format: { type: "json_schema", schema } },
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    system: [{ type: "text", text: "s" }],
    tools: [
      { name: "f", description: "d", input_schema: schema },
      { type: "bash_20250124", name: "bash" },
    ],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "u" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: PDF } },
          { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "r" }] },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "t", signature: "EqQB" },
          { type: "tool_use", id: "t1", name: "f", input: {} },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "r" }] }] },
    ],
  },
  responses: {
    reasoning: { effort: "low" },
    stream: true,
    stream_options: { include_obfuscation: false },
    text: { verbosity: "low", format: { type: "json_schema", ...format } },
    tools: [
      { type: "function", name: "f", description: "d", parameters: schema, strict: false },
      { type: "custom", name: "g", description: "d", format: { type: "text" } },
      { type: "namespace", name: "ns", tools: [{ type: "function", name: "h", parameters: schema }] },
    ],
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "u" },
          { type: "input_image", image_url: `data:image/png;base64,${PNG}` },
          { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
        ],
      },
      { role: "assistant", content: [{ type: "output_text", text: "a", annotations: [] }] },
      { type: "function_call", call_id: "t1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "t1", output: [{ type: "input_text", text: "r" }] },
    ],
  },
};

/** Where nobody looks: a schema says what it likes, and a call's input is the model's own. */
const isOpen = (path: string): boolean => /\b(?:schema|parameters|input_schema)\b|\.input$/.test(path);

/** The paths of all objects in `value`, and a copy of `whole` with a field added to each in turn. */
function* withField(whole: Wire, value: unknown = whole, path = ""): Generator<[path: string, body: Wire]> {
  if (typeof value !== "object" || value === null || isOpen(path)) return;
  if (!Array.isArray(value)) {
    const held = value as Wire;
    held["x_new"] = { a: 1 };
    const copy = structuredClone(whole);
    delete held["x_new"];
    yield [path === "" ? "x_new" : `${path}.x_new`, copy];
  }
  for (const [key, inner] of Object.entries(value)) {
    const step = Array.isArray(value) ? `[${key}]` : path === "" ? key : `.${key}`;
    yield* withField(whole, inner, path + step);
  }
}

const LOW: Partial<Orders> = { reasoning: { kind: "level", form: "effort", level: "low" } };
const KEEP: Partial<Orders> = { reasoning: { kind: "keep" } };

describe("a field that nobody knows, wherever it stands", () => {
  for (const from of CLIENTS) {
    for (const to of UPSTREAMS) {
      test(`${from} → ${to}: ${from === to ? "goes on as it is" : "goes on, or is named"}`, () => {
        const silent: string[] = [];
        for (const [path, body] of withField(structuredClone(RICH[from]))) {
          const orders: Partial<Orders> = from === to ? KEEP : LOW;
          const { text, dropped } = send({ from, to, orders }, body);
          const goesOn = text.includes("x_new");
          if (from === to ? !goesOn || dropped.length > 0 : goesOn === dropped.includes(path)) silent.push(path);
        }
        expect(silent).toEqual([]);
      });
    }
  }
});

describe("what a client says of reasoning beside its depth stays where its depth is ordered", () => {
  const hello = { messages: [{ role: "user", content: "Hi" }] };
  test.each<[ClientName, Wire, Orders["reasoning"], Wire, string[]]>([
    [
      "chat",
      { reasoning: { effort: "xhigh", exclude: true } },
      { kind: "level", form: "reasoning-object", level: "high" },
      { reasoning: { effort: "high", exclude: true } },
      [],
    ],
    [
      "chat",
      { reasoning: { max_tokens: 2_000, exclude: true } },
      { kind: "budget", form: "reasoning-object", tokens: 2_000 },
      { reasoning: { max_tokens: 2_000, exclude: true } },
      [],
    ],
    [
      "chat",
      { reasoning: { effort: "low", exclude: true } },
      { kind: "level", form: "effort", level: "low" },
      { reasoning_effort: "low" },
      ["reasoning.exclude"],
    ],
    [
      "messages",
      { max_tokens: 9_000, thinking: { type: "enabled", budget_tokens: 1_024, x: 1 } },
      { kind: "budget", form: "budget", tokens: 1_024 },
      { thinking: { type: "enabled", budget_tokens: 1_024, x: 1 } },
      [],
    ],
  ])("%s %j", (dialect, said, reasoning, told, lost) => {
    const { body, dropped } = send({ from: dialect, to: dialect, orders: { reasoning } }, { ...hello, ...said });
    expect(body).toMatchObject(told);
    expect([body["reasoning"], dropped]).toEqual([told["reasoning"], lost]);
  });

  test("that its text is not wanted is named where nobody can be told", () => {
    expect(send({ from: "chat", to: "messages" }, { ...hello, include_reasoning: false }).dropped).toEqual([
      "include_reasoning",
    ]);
    expect(send({ from: "chat", to: "gemini" }, { ...hello, include_reasoning: true }).dropped).toEqual([]);
  });
});

test("a summary that stands for what was said before reaches every vendor", () => {
  const compaction = { type: "compaction", content: "They chose blue.", encrypted_content: "gAAA", signature: "EqQB" };
  const messages = [
    { role: "assistant", content: [compaction] },
    { role: "user", content: "Which colour?" },
  ];
  for (const to of UPSTREAMS) {
    const { text, body, dropped } = send({ from: "messages", to }, { messages });
    expect([text.includes("They chose blue."), dropped]).toEqual([true, []]);
    if (to === "messages") expect(body["messages"]).toEqual(messages);
  }
  const failed = [{ role: "assistant", content: [{ type: "compaction", content: null }] }, messages[1]];
  expect(send({ from: "messages", to: "chat" }, { messages: failed }).body["messages"]).toEqual([messages[1]]);
});

test("a result's name is that of its call, and no loss", () => {
  const call = { id: "t1", type: "function", function: { name: "f", arguments: "{}" } };
  const messages = [
    { role: "user", content: "u", name: "bob" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "t1", name: "f", content: "r" },
  ];
  for (const to of ["messages", "responses", "gemini"] as const) {
    expect(send({ from: "chat", to }, { messages }).dropped).toEqual(["messages[0].name"]);
  }
});
