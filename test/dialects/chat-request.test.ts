import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ReasoningIntent } from "../../src/canon/intent.ts";
import type { Part, Prompt, ToolResultPart, Turn } from "../../src/canon/prompt.ts";
import { chat } from "../../src/dialects/chat/index.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { faultOf } from "../support/fault.ts";

type Wire = Record<string, unknown>;

const hello = [{ role: "user", content: "Hi" }];
const PNG = "iVBORw0KGgoAAAANSUhEUg==";

const decode = (messages: unknown[], extra: Wire = {}) => chat.decodeRequest({ model: "m", messages, ...extra });

const promptOf = (turns: Turn[], extra: Partial<Prompt> = {}): Prompt => ({
  system: [],
  turns,
  tools: [],
  stop: [],
  ...extra,
});

const messagesOf = (turns: Turn[], quirks: Quirks = {}) =>
  chat.encodeRequest(promptOf(turns), quirks).body["messages"] as Wire[];

describe("intent", () => {
  const table: [Wire, ReasoningIntent][] = [
    [{}, { kind: "omitted" }],
    [{ reasoning_effort: null }, { kind: "omitted" }],
    [{ reasoning_effort: "none" }, { kind: "off" }],
    [{ reasoning_effort: "minimal" }, { kind: "effort", effort: "minimal" }],
    [{ reasoning_effort: "max" }, { kind: "effort", effort: "max" }],
    [{ reasoning_effort: "huge" }, { kind: "unrecognised" }],
    [{ reasoning_effort: 3 }, { kind: "unrecognised" }],
    [
      { reasoning_effort: "low", thinking: { type: "disabled" } },
      { kind: "effort", effort: "low" },
    ],
    [{ reasoning: { effort: "high" } }, { kind: "effort", effort: "high" }],
    [{ reasoning: { enabled: false } }, { kind: "off" }],
    [{ reasoning: { enabled: true } }, { kind: "adaptive" }],
    [{ reasoning: { max_tokens: 6001 } }, { kind: "budget", tokens: 6001 }],
    [{ reasoning: {} }, { kind: "omitted" }],
    [{ reasoning: "yes" }, { kind: "unrecognised" }],
    [{ thinking: { type: "enabled", budget_tokens: 0 } }, { kind: "budget", tokens: 0 }],
    [{ thinking: { type: "enabled" } }, { kind: "adaptive" }],
    [{ thinking: { type: "adaptive" } }, { kind: "adaptive" }],
    [{ thinking: { type: "disabled" } }, { kind: "off" }],
    [{ thinking: { type: "deep" } }, { kind: "unrecognised" }],
    [{ enable_thinking: false }, { kind: "off" }],
    [
      { enable_thinking: true, thinking_budget: 900 },
      { kind: "budget", tokens: 900 },
    ],
  ];
  test.each(table)("%j asks for %j", (extra, reasoning) => {
    expect(chat.intent({ model: "m", ...extra }).reasoning).toEqual(reasoning);
  });

  test("reads ceiling, stream and usage wish, and nothing of the wrong type", () => {
    const body = {
      model: "a/b",
      stream: true,
      max_tokens: 5,
      max_completion_tokens: 7,
      stream_options: { include_usage: true },
    };
    expect(chat.intent(body)).toEqual({
      model: "a/b",
      stream: true,
      maxOutputTokens: 7,
      reasoning: { kind: "omitted" },
      wantsUsage: true,
    });
    const odd = chat.intent({ model: "a/b", stream: "yes", max_tokens: "5", stream_options: 1 });
    expect(odd).toEqual({ model: "a/b", stream: false, reasoning: { kind: "omitted" }, wantsUsage: false });
  });

  test("demands a model", () => {
    for (const body of [{}, { model: 3 }, { model: "" }]) {
      expect(faultOf(() => chat.intent(body))).toMatchObject({ code: "invalid_request", param: "model" });
    }
    for (const body of [null, [], "x"]) expect(faultOf(() => chat.intent(body)).code).toBe("invalid_request");
  });
});

describe("check", () => {
  const user = (...content: Wire[]) => ({ role: "user", content });
  const called = (given: unknown) => ({ id: "c", type: "function", function: { name: "f", arguments: given } });
  const bad: [string, Wire][] = [
    ["messages", { messages: [] }],
    ["messages", { messages: "hi" }],
    ["messages", { messages: undefined }],
    ["messages[0].role", { messages: [{ role: "boss", content: "x" }] }],
    ["messages[0].content", { messages: [{ role: "user", content: 5 }] }],
    ["messages[0].content", { messages: [{ role: "user" }] }],
    ["messages[0].content", { messages: [{ role: "system", content: null }] }],
    ["messages[0].content[0].text", { messages: [{ role: "user", content: [{ type: "text" }] }] }],
    [
      "messages[0].content[1].image_url",
      { messages: [{ role: "user", content: [{ type: "text", text: "a" }, { type: "image_url" }] }] },
    ],
    ["messages[1].tool_call_id", { messages: [...hello, { role: "tool", content: "x" }] }],
    ["temperature", { temperature: "warm" }],
    ["top_p", { top_p: {} }],
    ["n", { n: 0 }],
    ["n", { n: 1.5 }],
    ["max_tokens", { max_tokens: 0 }],
    ["stop", { stop: 5 }],
    ["tools", { tools: {} }],
    ["tools[0].function", { tools: [{ type: "function" }] }],
    ["tools[0].function.name", { tools: [{ type: "function", function: {} }] }],
    [
      "tools[0].function.parameters.type",
      { tools: [{ type: "function", function: { name: "f", parameters: { type: "array" } } }] },
    ],
    ["stream", { stream: "true" }],
    ...[{}, { id: "c", type: "function" }, { id: "c", function: null }].map((call): [string, Wire] => [
      "messages[0].tool_calls[0].function",
      { messages: [{ role: "assistant", tool_calls: [call] }] },
    ]),
    [
      "messages[0].tool_calls[0].custom",
      { messages: [{ role: "assistant", tool_calls: [{ id: "c", type: "custom" }] }] },
    ],
    [
      "messages[0].tool_calls[0].function.name",
      { messages: [{ role: "assistant", tool_calls: [{ id: "c", function: { name: "", arguments: "{}" } }] }] },
    ],
    [
      "response_format.json_schema.schema",
      { response_format: { type: "json_schema", json_schema: { name: "n", schema: "x" } } },
    ],
  ];
  test.each(bad)("names %s at fault in %j", (param, extra) => {
    const error = faultOf(() => chat.check({ model: "m", messages: hello, ...extra }));
    expect([error.code, error.param]).toEqual(["invalid_request", param]);
  });

  test("null stands for absent, and what is unknown passes", () => {
    const fields =
      "stream stream_options max_tokens max_completion_tokens temperature top_p n stop seed tools tool_choice user";
    for (const field of fields.split(" ")) chat.check({ model: "m", messages: hello, [field]: null });
    chat.check({ model: "m", messages: hello, min_p: 0.1, provider: { order: ["a"] }, reasoning_effort: { odd: 1 } });
    chat.check({
      model: "m",
      messages: [{ role: "user", content: [{ type: "video_url", video_url: { url: "x" } }], x: 1 }],
    });
    chat.check({ model: "m", messages: hello, tools: [{ type: "web_search_preview" }] });
    const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    chat.check({ model: "m", messages: [...hello, { role: "assistant", content: null, tool_calls: [call] }] });
    chat.check({ model: "m", messages: [...hello, { role: "assistant", tool_calls: [call] }] });
    chat.check({
      model: "m",
      messages: [{ role: "user", content: [{ type: "image_url", image_url: "https://a/b.png" }] }],
    });
  });

  test.each([
    ["Mistral's sound in short", { messages: [user({ type: "input_audio", input_audio: "UklGRg==" })] }],
    ["Mistral's file by its id", { messages: [user({ type: "file", file_id: "f" })] }],
    ["what vLLM has seen", { messages: [user({ type: "image_url", image_url: null, uuid: "1" })] }],
    ["arguments as an object", { messages: [...hello, { role: "assistant", tool_calls: [called({ a: 1 })] }] }],
    ["Gemini's word for an object", { tools: [{ function: { name: "f", parameters: { type: "OBJECT" } } }] }],
    ["a schema without a wrapper", { response_format: { type: "json_schema", schema: {} } }],
  ])("%s passes", (_what, fields) => {
    chat.check({ model: "m", messages: hello, ...fields });
  });

  const look = { type: "function", function: { name: "look" } };
  test.each([
    { tools: [look, { type: "some_server_tool" }], tool_choice: { type: "function", function: { name: "seek" } } },
    { tools: [{ type: "some_server_tool" }], tool_choice: "required" },
    { functions: [{ name: "look" }], function_call: { name: "look" } },
    { tools: [], tool_choice: "auto" },
    { tools: [look], tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [look] } } },
  ])("a choice of a tool that is there, or may be: %p", (fields) => {
    chat.check({ model: "m", messages: hello, ...fields });
  });
});

describe("a client's request", () => {
  test("system text is lifted only from the start", () => {
    const { prompt } = decode([
      { role: "system", content: "One" },
      { role: "developer", content: [{ type: "text", text: "Two", cache_control: { type: "ephemeral" } }] },
      ...hello,
      { role: "system", content: "Three" },
    ]);
    expect(prompt.system).toEqual([
      { type: "text", text: "One" },
      { type: "text", text: "Two", cache: { type: "ephemeral" } },
    ]);
    expect(prompt.turns).toEqual([
      { role: "user", parts: [{ type: "text", text: "Hi" }] },
      { role: "system", parts: [{ type: "text", text: "Three" }] },
    ]);
  });

  test("fields of a message that nobody else knows are named; an assistant's are those of a reply, whoever made it", () => {
    const { dropped } = decode([
      { role: "system", content: "S", priority: 1 },
      { role: "user", content: "Hi", cache_breakpoint: true, weight: 0, draft: false, name: null },
      { role: "assistant", content: "a", annotations: [], audio: null, parsed: { a: 1 } },
      { role: "tool", tool_call_id: "x", content: "r", is_error: true },
    ]);
    expect(dropped).toEqual([
      "messages[0].priority",
      "messages[1].cache_breakpoint",
      "messages[1].weight",
      "messages[3].is_error",
    ]);
  });

  test("calls, their results and the user's next words", () => {
    const { prompt, dropped } = decode([
      ...hello,
      {
        role: "assistant",
        content: "Looking.",
        reasoning_content: "Hm",
        tool_calls: [
          { id: "a", type: "function", function: { name: "find", arguments: '{"n":12345678901234567890}' } },
          { id: "b", type: "custom", custom: { name: "run", input: "ls" } },
        ],
      },
      { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "ok" }] },
      { role: "tool", tool_call_id: "a", content: "" },
      { role: "user", content: "And?" },
    ]);
    expect(prompt.turns.slice(1)).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "Hm" },
          { type: "text", text: "Looking." },
          { type: "tool-call", id: "a", name: "find", arguments: '{"n":12345678901234567890}' },
          { type: "tool-call", id: "b", name: "run", arguments: '{"input":"ls"}', custom: true },
        ],
      },
      {
        role: "user",
        parts: [
          { type: "tool-result", callId: "b", parts: [{ type: "text", text: "ok" }] },
          { type: "tool-result", callId: "a", parts: [] },
          { type: "text", text: "And?" },
        ],
      },
    ]);
    expect(dropped).toEqual([]);
  });

  test("the older function_call and its result share an id", () => {
    const { prompt } = decode(
      [
        ...hello,
        { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
        { role: "function", name: "f", content: "one" },
        { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
        { role: "function", name: "f", content: "two" },
      ],
      { functions: [{ name: "f" }], function_call: { name: "f" } },
    );
    const ids = prompt.turns.flatMap((turn) =>
      turn.parts.map((part) => (part.type === "tool-call" ? part.id : part.type === "tool-result" ? part.callId : "")),
    );
    expect(ids[1]).toBe(ids[2]!);
    expect(ids[3]).toBe(ids[4]!);
    expect(ids[1]).not.toBe(ids[3]!);
    const schema = { type: "object", properties: {} };
    expect(prompt.tools).toEqual([{ name: "f", schema, place: "functions[0]" }]);
    expect(prompt.toolChoice).toEqual({ type: "tool", name: "f" });
  });

  test("images, files, audio and films", () => {
    const film = { type: "video_url", video_url: { url: "https://a.example/b.mp4" } };
    const { prompt, dropped } = decode([
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: `data:image/jpeg;charset=utf-8;base64,${PNG}`, detail: "low" } },
          { type: "image_url", image_url: "https://a.example/b.png" },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0x" } },
          { type: "file", file: { filename: "a.txt", file_data: "data:text/plain,a%20b" } },
          { type: "file", file: { filename: "a.json", file_data: btoa("[1]") } },
          { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
          film,
        ],
      },
    ]);
    const parts = prompt.turns[0]!.parts;
    // Whoever is told no films names it.
    expect(parts.pop()).toEqual({ type: "opaque", dialect: "chat", name: "messages[0].content[6]", value: film });
    expect(parts).toEqual(
      [
        {
          type: "image",
          source: { kind: "base64", mediaType: "image/png", data: PNG },
          detail: "low",
          detailField: "image_url.detail",
        },
        { type: "image", source: { kind: "url", url: "https://a.example/b.png" } },
        {
          type: "document",
          source: { kind: "base64", mediaType: "application/pdf", data: "JVBERi0x" },
          title: "a.pdf",
        },
        { type: "document", source: { kind: "text", text: "a b" }, title: "a.txt" },
        { type: "document", source: { kind: "text", text: "[1]" }, title: "a.json" },
        { type: "audio", data: "UklGRg==", format: "wav" },
      ].map((part, at) => ({ ...part, place: `messages[0].content[${at}]` })) as Part[],
    );
    expect(dropped).toEqual([]);
  });

  test("a file id and several answers cannot cross", () => {
    const file = { type: "file", file: { file_id: "file-1" } };
    const { prompt } = decode([...hello, { role: "user", content: [file] }]);
    const error = faultOf(() => messagesOf(prompt.turns));
    expect([error.code, error.param]).toEqual(["invalid_request", "messages[1].content[0].file.file_id"]);
    expect(error.message).toStartWith("The document at messages[1].content[0].file.file_id cannot be sent.");
    expect(faultOf(() => decode(hello, { n: 2 }))).toMatchObject({ code: "invalid_request", param: "n" });
  });

  test("tools, custom tools and the choice among them", () => {
    const tools = [
      {
        type: "function",
        function: { name: "a", description: "A", parameters: { properties: {} }, strict: true },
        x: 1,
      },
      { type: "custom", custom: { name: "b", description: "B", format: { type: "grammar", grammar: {} } } },
      { type: "web_search_preview" },
    ];
    const { prompt, dropped } = decode(hello, { tools, tool_choice: "required", parallel_tool_calls: false });
    expect(prompt.tools[0]).toEqual({
      name: "a",
      description: "A",
      schema: { type: "object", properties: {} },
      strict: true,
      place: "tools[0].function",
    });
    expect(prompt.tools[1]).toMatchObject({ name: "b", description: "B", schema: { required: ["input"] } });
    expect(prompt.tools.length).toBe(2);
    expect(prompt.toolChoice).toEqual({ type: "required" });
    expect(prompt.parallelToolCalls).toBe(false);
    expect(dropped).toEqual(["tools[0].x", "tools[2]"]);
    // Its grammar is lost only where it is told to a vendor of functions alone.
    expect(chat.encodeRequest(prompt, {}).dropped).toEqual(["tools[1].custom.format"]);
    expect(chat.encodeRequest(prompt, { customTools: true }).dropped).toEqual([]);
    const allowed = {
      type: "allowed_tools",
      allowed_tools: { mode: "required", tools: [{ type: "custom", custom: { name: "b" } }] },
    };
    const narrowed = decode(hello, { tools, tool_choice: allowed }).prompt;
    expect([narrowed.tools.map((tool) => tool.name), narrowed.toolChoice]).toEqual([["b"], { type: "required" }]);
    const named = decode(hello, { tools, tool_choice: { type: "function", function: { name: "a" } } }).prompt;
    expect(named.toolChoice).toEqual({ type: "tool", name: "a" });
    expect("toolChoice" in decode(hello, { tool_choice: "auto" }).prompt).toBe(false);
  });

  test("settings that have a counterpart are carried, all others are named", () => {
    const { prompt, dropped } = decode(hello, {
      max_tokens: 9,
      temperature: 0,
      top_p: 0.5,
      top_k: 4,
      seed: 1,
      frequency_penalty: 0.1,
      presence_penalty: 0.2,
      stop: "END",
      user: "u1",
      response_format: { type: "json_schema", json_schema: { name: "out", schema: { type: "object" }, strict: true } },
      stream: true,
      stream_options: { include_usage: true },
      reasoning_effort: "low",
      n: 1,
      logit_bias: { 5: 1 },
      logprobs: true,
      top_logprobs: 2,
      modalities: ["text", "audio"],
      audio: { voice: "x" },
      prediction: { type: "content" },
      metadata: { a: "b" },
      store: true,
      service_tier: "flex",
      min_p: 0.1,
    });
    expect(prompt).toMatchObject({
      maxOutputTokens: 9,
      temperature: 0,
      topP: 0.5,
      topK: 4,
      seed: 1,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      stop: ["END"],
      userId: "u1",
      output: { type: "json-schema", name: "out", schema: { type: "object" }, strict: true },
    });
    const named = "logit_bias logprobs top_logprobs modalities audio prediction store min_p";
    expect(dropped).toEqual(named.split(" "));
    const quiet = {
      logprobs: false,
      store: false,
      metadata: {},
      modalities: ["text"],
      service_tier: "auto",
      seed: null,
    };
    expect(decode(hello, quiet).dropped).toEqual([]);
  });

  test("text becomes sound for every vendor", () => {
    const { prompt } = decode([{ role: "user", content: "a\ud800b\0c" }]);
    expect(prompt.turns[0]!.parts).toEqual([{ type: "text", text: "a\ufffdbc" }]);
  });
});

describe("an upstream's request", () => {
  const call = (id: string, args = "{}") => ({ type: "tool-call", id, name: "find", arguments: args }) as const;
  const result = (callId: string, text: string): ToolResultPart => ({
    type: "tool-result",
    callId,
    parts: text === "" ? [] : [{ type: "text", text }],
  });

  test("results stand as own messages right behind their calls, before the user's words", () => {
    const messages = messagesOf([
      { role: "user", parts: [{ type: "text", text: "Hi" }] },
      { role: "assistant", parts: [{ type: "reasoning", text: "Hm" }, call("a"), call("b", "")] },
      {
        role: "user",
        parts: [result("b", ""), { ...result("a", "none"), isError: true }, { type: "text", text: "And?" }],
      },
    ]);
    expect(messages).toEqual([
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "a", type: "function", function: { name: "find", arguments: "{}" } },
          { id: "b", type: "function", function: { name: "find", arguments: "{}" } },
        ],
      },
      { role: "tool", tool_call_id: "a", content: "Error: none" },
      { role: "tool", tool_call_id: "b", content: "" },
      { role: "user", content: "And?" },
    ]);
  });

  test("an image in a result moves behind all results", () => {
    const image = { type: "image", source: { kind: "base64", mediaType: "image/png", data: PNG } } as const;
    const messages = messagesOf([
      { role: "assistant", parts: [call("a"), call("b")] },
      {
        role: "user",
        parts: [
          { type: "tool-result", callId: "a", parts: [image] },
          result("b", "two"),
          { type: "text", text: "So?" },
        ],
      },
    ]);
    expect(messages.map((message) => message["role"])).toEqual(["assistant", "tool", "tool", "user"]);
    expect(messages[1]!["content"]).toBe("[image 1 attached below]");
    expect(messages[3]!["content"]).toEqual([
      { type: "text", text: "[image 1 of the tool result above]" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
      { type: "text", text: "So?" },
    ]);
  });

  test("an image in the very last result is not lost", () => {
    const image = { type: "image", source: { kind: "url", url: "https://a.example/b.png" } } as const;
    const results: Turn = { role: "user", parts: [{ type: "tool-result", callId: "a", parts: [image] }] };
    const answer: Turn = { role: "assistant", parts: [{ type: "text", text: "Seen" }] };
    for (const turns of [[results], [results, answer]]) {
      const messages = messagesOf([{ role: "assistant", parts: [call("a")] }, ...turns]);
      expect(messages[2]).toMatchObject({
        role: "user",
        content: [{}, { image_url: { url: "https://a.example/b.png" } }],
      });
    }
    const early: Turn = { role: "assistant", parts: [call("b"), { type: "text", text: "b" }] };
    const late: Turn = { role: "user", parts: [{ type: "tool-result", callId: "b", parts: [image] }] };
    const moved = messagesOf([early, answer, { role: "system", parts: [{ type: "text", text: "s" }] }, late]);
    expect(moved.map((message) => message["role"])).toEqual(["assistant", "tool", "user", "assistant", "system"]);
    const last = messagesOf([
      { role: "user", parts: results.parts },
      { role: "assistant", parts: [call("a")] },
    ]);
    expect(last.map((message) => message["role"])).toEqual(["user", "assistant", "tool"]);
    expect(last[2]!["content"]).toBe("(no result)");
    const alone = messagesOf([{ role: "assistant", parts: [call("a"), ...results.parts] }]);
    expect(alone.map((message) => message["role"])).toEqual(["assistant", "tool", "user"]);
  });

  test("every call has exactly one result right behind it, and every result its call", () => {
    const id = fc.constantFrom("a", "b", "c");
    const part = fc.oneof(
      id.map((one) => call(one)),
      id.map((one) => result(one, "RESULT")),
      fc.constant({ type: "text", text: "t" } as const),
    );
    const turn = fc.tuple(fc.constantFrom("user", "assistant"), fc.array(part, { minLength: 1, maxLength: 4 })).map(
      ([role, parts]): Turn => ({
        role: role as "user" | "assistant",
        parts: parts.filter((one) => one.type === "text" || (one.type === "tool-call") === (role === "assistant")),
      }),
    );
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 6 }), (turns) => {
        const awaited: unknown[] = [];
        for (const message of messagesOf(turns)) {
          if (message["role"] === "tool") expect(awaited.shift()).toBe(message["tool_call_id"]);
          else expect(awaited).toEqual([]);
          const calls = (message["tool_calls"] ?? []) as Wire[];
          awaited.push(...calls.map((one) => one["id"]));
        }
        expect(awaited).toEqual([]);
      }),
    );
  });

  test("a call without a result gets one, and a result without a call becomes text", () => {
    const messages = messagesOf([
      { role: "assistant", parts: [call("a")] },
      { role: "user", parts: [result("x", "lost"), { type: "text", text: "Go" }] },
    ]);
    expect(messages.slice(1)).toEqual([
      { role: "tool", tool_call_id: "a", content: "(no result)" },
      { role: "user", content: "Result of tool call x:\nlost\nGo" },
    ]);
  });

  test("reasoning goes back only where the vendor wants it", () => {
    const asked: Turn = { role: "user", parts: [{ type: "text", text: "?" }] };
    const question = { role: "user", content: "?" };
    const turns: Turn[] = [
      {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "Hm" },
          { type: "text", text: "Four" },
        ],
      },
      asked,
      {
        role: "assistant",
        parts: [
          { type: "redacted-reasoning", data: "x" },
          { type: "text", text: "Five" },
        ],
      },
      asked,
      // Nothing was said behind it, as where a stream broke off.
      { role: "assistant", parts: [{ type: "reasoning", text: "only" }] },
    ];
    expect(messagesOf(turns)).toEqual([
      { role: "assistant", content: "Four" },
      question,
      { role: "assistant", content: "Five" },
      question,
    ]);
    expect(messagesOf(turns, { reasoningReplay: "reasoning_content", reasoningReplayAlways: true })).toEqual([
      { role: "assistant", content: "Four", reasoning_content: "Hm" },
      question,
      { role: "assistant", content: "Five", reasoning_content: "" },
      question,
    ]);
    expect(messagesOf(turns, { reasoningReplay: "reasoning" })[0]).toEqual({
      role: "assistant",
      content: "Four",
      reasoning: "Hm",
    });
  });

  test("ids of nine characters, the same for a call and its result", () => {
    const messages = messagesOf(
      [
        { role: "assistant", parts: [call("toolu_01ABC"), call("Ab3dEf6h9")] },
        { role: "user", parts: [result("toolu_01ABC", "1"), result("Ab3dEf6h9", "2")] },
      ],
      { nineCharacterToolIds: true, emptyContent: true },
    );
    const ids = (messages[0]!["tool_calls"] as Wire[]).map((one) => one["id"] as string);
    expect(ids[0]).toMatch(/^[0-9A-Za-z]{9}$/);
    expect(ids[1]).toBe("Ab3dEf6h9");
    expect(messages.slice(1).map((message) => message["tool_call_id"])).toEqual(ids);
    expect(messages[0]!["content"]).toBe("");
  });

  test("system text, tools, stops and settings", () => {
    const { body, dropped, changes } = chat.encodeRequest(
      promptOf([{ role: "user", parts: [{ type: "text", text: "Hi", cache: { type: "ephemeral" } }] }], {
        system: [
          { type: "text", text: "One", cache: { type: "ephemeral" } },
          { type: "text", text: "Two" },
        ],
        tools: [{ name: "a", schema: { $schema: "x", properties: {} }, strict: false, cache: {} }],
        toolChoice: { type: "tool", name: "a" },
        parallelToolCalls: false,
        stop: ["1", "2", "3", "4", "5"],
        maxOutputTokens: 9,
        topK: 3,
        seed: 7,
        userId: "u".repeat(200),
        output: { type: "json-schema", schema: { type: "object" } },
      }),
      { maxTokensField: "max_tokens", seedField: "random_seed" },
    );
    expect(body).toEqual({
      messages: [
        { role: "system", content: "One\nTwo" },
        { role: "user", content: "Hi" },
      ],
      tools: [
        { type: "function", function: { name: "a", parameters: { type: "object", properties: {} }, strict: false } },
      ],
      tool_choice: { type: "function", function: { name: "a" } },
      parallel_tool_calls: false,
      stop: ["1", "2", "3", "4"],
      max_tokens: 9,
      random_seed: 7,
      response_format: { type: "json_schema", json_schema: { name: "output", schema: { type: "object" } } },
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(dropped).toEqual(["top_k"]);
    expect(changes).toEqual({ stops: ["5"] });
  });

  test("cache marks only where they are known", () => {
    const prompt = promptOf([{ role: "user", parts: [{ type: "text", text: "Hi", cache: { type: "ephemeral" } }] }]);
    expect(chat.encodeRequest(prompt, { acceptsCacheControl: true }).body["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] },
    ]);
  });

  test("what is opaque is named, what cannot be sent is refused", () => {
    const opaque = { type: "opaque", dialect: "messages", name: "messages[0].content[1]", value: {} } as const;
    const prompt = promptOf([{ role: "user", parts: [{ type: "text", text: "Hi" }, opaque] }]);
    expect(chat.encodeRequest(prompt, {}).dropped).toEqual(["messages[0].content[1]"]);
    const file = { type: "document", source: { kind: "file", id: "f" } } as const;
    expect(faultOf(() => messagesOf([{ role: "user", parts: [file] }])).code).toBe("invalid_request");
  });

  test("a chat request survives the way through its meaning", () => {
    const body = {
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "a", content: "1" },
        { role: "assistant", content: "Done" },
        {
          role: "user",
          content: [
            { type: "text", text: "See" },
            { type: "image_url", image_url: { url: "https://a.example/b.png" } },
          ],
        },
      ],
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }],
      tool_choice: "auto",
      stop: ["END"],
      max_tokens: 9,
      temperature: 1,
      seed: 4,
      user: "u1",
    };
    const { prompt, dropped } = chat.decodeRequest({ model: "m", ...body });
    expect(chat.encodeRequest(prompt, {})).toEqual({ body, dropped: [] });
    expect(dropped).toEqual([]);
  });
});
