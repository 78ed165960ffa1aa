import { describe, expect, test } from "bun:test";
import type { GatewayError } from "../../src/canon/errors.ts";
import type { Part, Prompt, Turn } from "../../src/canon/prompt.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { faultOf } from "../support/fault.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUg==";
const cache = { type: "ephemeral" };

const decode = (fields: object) =>
  messages.decodeRequest({ model: "a/b", max_tokens: 10, messages: [{ role: "user", content: "hi" }], ...fields });
const turnsOf = (content: unknown, role = "user") => decode({ messages: [{ role, content }] });
const partsOf = (content: unknown) => turnsOf(content).prompt.turns[0]?.parts;

/** The refusal of a request that is at fault itself. */
function refusal(call: () => unknown): GatewayError {
  const fault = faultOf(call);
  expect(fault.code).toBe("invalid_request");
  return fault;
}

describe("decodeRequest", () => {
  test("the plain fields", () => {
    const { prompt, dropped } = decode({
      system: "Be\0 brief\ud800.",
      stop_sequences: ["END"],
      stream: true,
      temperature: 0.3,
      top_p: 0.9,
      top_k: 4,
      metadata: { user_id: "u1" },
      cache_control: cache,
      thinking: { type: "adaptive" },
      output_config: { effort: "low" },
    });
    expect(dropped).toEqual([]);
    expect(prompt).toEqual({
      system: [{ type: "text", text: "Be brief\ufffd." }],
      turns: [{ role: "user", parts: [{ type: "text", text: "hi", cache }] }],
      tools: [],
      stop: ["END"],
      maxOutputTokens: 10,
      temperature: 0.3,
      topP: 0.9,
      topK: 4,
      userId: "u1",
    });
  });

  test("what cannot cross is named by its path, what is null or harmless is not", () => {
    const { dropped } = decode({
      container: "c",
      mcp_servers: [{ type: "url", url: "https://a.example", name: "n" }],
      context_management: {},
      service_tier: "standard_only",
      speed: null,
      inference_geo: "",
      betas: [],
      output_config: { task_budget: 1, effort: "low" },
      metadata: { user_id: "u", team: "t" },
      system: [{ type: "text", text: "s", cache_control: cache }],
      tools: [{ name: "f" }, { type: "custom", name: "g" }, { type: "web_search_20250305", name: "web_search" }],
      messages: [{ role: "assistant", content: [{ type: "thinking", thinking: "t", signature: "s" }] }],
    });
    expect(dropped.toSorted()).toEqual([
      "container",
      "context_management",
      "mcp_servers",
      "metadata.team",
      "output_config.task_budget",
      "service_tier",
      "tools[2]",
    ]);
  });

  test("a ceiling of 0, which only warms a cache, is the least that others take, and named", () => {
    const { prompt, dropped } = decode({ max_tokens: 0 });
    expect([prompt.maxOutputTokens, dropped]).toEqual([1, ["max_tokens"]]);
    expect(decode({ max_tokens: 1 }).dropped).toEqual([]);
  });

  test("an order to take nothing out of the context is no loss, and every other one is", () => {
    const keepAll = { type: "clear_thinking_20251015", keep: "all" };
    const lost = (context_management: unknown) => decode({ context_management }).dropped;
    expect(lost({ edits: [keepAll] })).toEqual([]);
    for (const asking of [
      { edits: [keepAll, { type: "clear_tool_uses_20250919" }] },
      { edits: [{ ...keepAll, keep: { type: "thinking_turns", value: 1 } }] },
      { edits: [keepAll], other: 1 },
      { edits: [] },
    ]) {
      expect(lost(asking)).toEqual(["context_management"]);
    }
  });

  test("Claude Code's billing line goes, and is not named", () => {
    const { prompt, dropped } = decode({
      system: [
        { type: "text", text: "x-anthropic-billing-header: cc_version=1; cch=42;" },
        { type: "text", text: "You are a tool.", cache_control: cache },
        { type: "text", text: "x-anthropic-billing-header: quoted" },
      ],
    });
    expect(prompt.system).toEqual([
      { type: "text", text: "You are a tool.", cache },
      { type: "text", text: "x-anthropic-billing-header: quoted" },
    ]);
    expect(dropped).toEqual([]);
  });

  test("images and documents of every source; bytes win over the word", () => {
    const at = (index: number) => `messages[0].content[${index}]`;
    expect(
      partsOf([
        { type: "image", source: { type: "base64", media_type: "image/jpeg", data: PNG }, cache_control: cache },
        { type: "image", source: { type: "url", url: "https://example.org/a.png" } },
        { type: "image", source: { type: "file", file_id: "file_1" } },
        {
          type: "document",
          title: "T",
          context: "C",
          source: { type: "base64", media_type: "application/pdf", data: "JVBERi0xLjQ=" },
        },
        { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } },
        { type: "document", title: "Mixed", source: { type: "content", content: [{ type: "text", text: "in" }] } },
        {
          type: "search_result",
          source: "https://example.org",
          title: "Found",
          content: [{ type: "text", text: "body" }],
        },
      ]),
    ).toEqual([
      { type: "image", source: { kind: "base64", mediaType: "image/png", data: PNG }, place: at(0), cache },
      { type: "image", source: { kind: "url", url: "https://example.org/a.png" }, place: at(1) },
      { type: "image", source: { kind: "file", id: "file_1", dialect: "messages" }, place: at(2) },
      {
        type: "document",
        title: "T",
        context: "C",
        source: { kind: "base64", mediaType: "application/pdf", data: "JVBERi0xLjQ=" },
        place: at(3),
      },
      { type: "document", source: { kind: "text", text: "plain" }, place: at(4) },
      { type: "text", text: "Mixed" },
      { type: "text", text: "in" },
      { type: "text", text: "Found\nhttps://example.org" },
      { type: "text", text: "body" },
    ]);
    const error = refusal(() => partsOf(["x", { type: "image", source: { type: "base64" } }].slice(1)));
    expect(error.param).toBe("messages[0].content[0].source");
  });

  test("tool results come first, with what is inside them", () => {
    expect(
      partsOf([
        { type: "text", text: "and?" },
        { type: "tool_result", tool_use_id: "t1", content: "ok", cache_control: cache },
        {
          type: "tool_result",
          tool_use_id: "t2",
          is_error: true,
          content: [
            { type: "text", text: "see" },
            { type: "image", source: { type: "url", url: "https://example.org/a.png" } },
            { type: "tool_reference", tool_name: "f" },
          ],
        },
        { type: "tool_result", tool_use_id: "t3" },
      ]),
    ).toEqual([
      { type: "tool-result", callId: "t1", parts: [{ type: "text", text: "ok" }], cache },
      {
        type: "tool-result",
        callId: "t2",
        isError: true,
        parts: [
          { type: "text", text: "see" },
          {
            type: "image",
            source: { kind: "url", url: "https://example.org/a.png" },
            place: "messages[0].content[2].content[1]",
          },
          { type: "text", text: '{"type":"tool_reference","tool_name":"f"}' },
        ],
      },
      { type: "tool-result", callId: "t3", parts: [] },
      { type: "text", text: "and?" },
    ]);
  });

  test("assistant turns: thinking, parallel calls, blocks nobody else knows", () => {
    const { prompt, dropped } = turnsOf(
      [
        { type: "thinking", thinking: "hm", signature: "sig" },
        { type: "redacted_thinking", data: "xx" },
        { type: "text", text: "calling" },
        { type: "tool_use", id: "t1", name: "f", input: { a: 1 } },
        { type: "tool_use", id: "t2", name: "g", input: {} },
        { type: "server_tool_use", id: "s1", name: "web_search", input: {} },
      ],
      "assistant",
    );
    expect(prompt.turns[0]).toEqual({
      role: "assistant",
      parts: [
        { type: "reasoning", text: "hm", signature: "sig" },
        { type: "redacted-reasoning", data: "xx" },
        { type: "text", text: "calling" },
        { type: "tool-call", id: "t1", name: "f", arguments: '{"a":1}' },
        { type: "tool-call", id: "t2", name: "g", arguments: "{}" },
        {
          type: "opaque",
          dialect: "messages",
          name: "messages[0].content[5]",
          value: { type: "server_tool_use", id: "s1", name: "web_search", input: {} },
        },
      ],
    });
    // The writer of the other dialect names the opaque part: once is enough.
    expect(dropped).toEqual([]);
  });

  test("tools: own ones by whitelist, client-run ones as functions, toolsets refused", () => {
    const { prompt } = decode({
      tools: [
        {
          name: "f",
          description: "d",
          input_schema: { type: "object" },
          strict: true,
          cache_control: cache,
          eager_input_streaming: true,
        },
        { type: "bash_20250124", name: "bash" },
        { type: "text_editor_20250728", name: "edit" },
        { type: "computer_20250124", name: "computer", display_width_px: 800, display_height_px: 600 },
      ],
      tool_choice: { type: "tool", name: "bash", disable_parallel_tool_use: true },
    });
    const own = { name: "f", description: "d", schema: { type: "object" }, strict: true, cache, place: "tools[0]" };
    expect(prompt.tools[0]).toEqual(own);
    expect(prompt.tools.map((tool) => tool.name)).toEqual(["f", "bash", "edit", "computer"]);
    expect(prompt.tools.every((tool) => tool.schema["type"] === "object")).toBe(true);
    expect(prompt.tools[3]?.description).toContain("800x600");
    expect(prompt.toolChoice).toEqual({ type: "tool", name: "bash" });
    expect(prompt.parallelToolCalls).toBe(false);
    const error = refusal(() => decode({ tools: [{ name: "f" }, { type: "computer_toolset_20260801" }] }));
    expect(error.message).toContain("computer_toolset_20260801");
    expect(error.param).toBe("tools[1]");
  });

  test.each([
    [{ type: "auto" }, { type: "auto" }, []],
    [{ type: "any" }, { type: "required" }, []],
    [{ type: "none" }, { type: "none" }, []],
    [{ type: "tool", name: "web_search" }, undefined, ["tool_choice"]],
    [{ type: "sometimes" }, undefined, ["tool_choice"]],
  ])("tool choice %j", (tool_choice, toolChoice, named) => {
    const { prompt, dropped } = decode({ tools: [{ name: "f" }], tool_choice });
    expect(prompt.toolChoice).toEqual(toolChoice as never);
    expect(dropped).toEqual(named);
  });

  test("the asked format, in both spellings", () => {
    const format = { type: "json_schema", schema: { type: "object" } };
    for (const fields of [{ output_config: { format } }, { output_format: format }]) {
      expect(decode(fields).prompt.output).toEqual({
        ...{ type: "json-schema", schema: { type: "object" } },
        strict: "where-it-fits",
      });
    }
    expect(decode({ output_format: { type: "yaml" } }).dropped).toEqual(["output_format"]);
  });
});

const prompt = (fields: Partial<Prompt> = {}): Prompt => ({
  system: [],
  turns: [{ role: "user", parts: [{ type: "text", text: "hi" }] }],
  tools: [],
  stop: [],
  ...fields,
});
const encode = (fields: Partial<Prompt> = {}) => messages.encodeRequest(prompt(fields), {});
const text = (value: string): Part => ({ type: "text", text: value });
const user = (...parts: Part[]): Turn => ({ role: "user", parts });
const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts });
const call = (id: string, json = "{}"): Part => ({ type: "tool-call", id, name: "f", arguments: json });
const result = (callId: string, ...parts: Part[]): Part => ({ type: "tool-result", callId, parts });
const written = (...turns: Turn[]) => encode({ turns }).body["messages"];
const block = (value: string) => ({ type: "text", text: value });

describe("encodeRequest", () => {
  test("the plain fields", () => {
    const { body, dropped, changes } = encode({
      system: [{ type: "text", text: "Be brief." }],
      stop: ["END", " \n"],
      maxOutputTokens: 7,
      temperature: 1.7,
      topP: 0.5,
      topK: 3,
      seed: 1,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      userId: "u".repeat(300),
    });
    expect(body).toEqual({
      max_tokens: 7,
      system: "Be brief.",
      messages: [{ role: "user", content: [block("hi")] }],
      temperature: 1,
      top_k: 3,
      stop_sequences: ["END"],
      // Users whose names begin alike stay apart.
      metadata: { user_id: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(dropped.toSorted()).toEqual(["frequency_penalty", "presence_penalty", "seed", "top_p"]);
    // Its own vendor refuses one of white space: the gateway watches for it.
    expect(changes).toEqual({ stops: [" \n"] });
    const longest = "u".repeat(256);
    expect(encode({ userId: longest }).body["metadata"]).toEqual({ user_id: longest });
    expect(encode({ topP: 0.5 }).body["top_p"]).toBe(0.5);
    expect(
      messages.encodeRequest(prompt({ temperature: 1.7 }), { unclampedTemperature: true }).body["temperature"],
    ).toBe(1.7);
    expect(encode().body).not.toHaveProperty("max_tokens");
  });

  test("system parts keep their marks, and system turns are lifted in order", () => {
    const { body } = encode({
      system: [
        { type: "text", text: "one", cache },
        { type: "text", text: " " },
      ],
      turns: [user(text("hi")), { role: "system", parts: [text("two")] }, user(text("more"))],
      output: { type: "json" },
    });
    expect(body["system"]).toEqual([
      { type: "text", text: "one", cache_control: cache },
      block("two"),
      block("Answer with one JSON object and nothing else: no other text, no code fence."),
    ]);
    expect(body["messages"]).toEqual([{ role: "user", content: [block("hi"), block("more")] }]);
  });

  test("results of several turns stand together and first, in one user turn", () => {
    expect(
      written(
        user(text("go")),
        assistant(text("ok"), call("a", '{"x":1}'), call("b")),
        user(result("b", text("B"))),
        user(
          text("wait"),
          result("a", text("A"), { type: "image", source: { kind: "base64", mediaType: "image/jpg", data: PNG } }),
        ),
      ),
    ).toEqual([
      { role: "user", content: [block("go")] },
      {
        role: "assistant",
        content: [
          block("ok"),
          { type: "tool_use", id: "a", name: "f", input: { x: 1 } },
          { type: "tool_use", id: "b", name: "f", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "b", content: "B" },
          {
            type: "tool_result",
            tool_use_id: "a",
            content: [block("A"), { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }],
          },
          block("wait"),
        ],
      },
    ]);
  });

  test("calls without results get an error result, results without calls become user text", () => {
    const orphan = (id: string) => ({
      type: "tool_result",
      tool_use_id: id,
      content: "No result was given for this tool call.",
      is_error: true,
    });
    expect(
      written(user(text("go")), assistant(call("a"), call("b")), user(result("b", text("B")), result("zz", text("Z")))),
    ).toEqual([
      { role: "user", content: [block("go")] },
      {
        role: "assistant",
        content: [
          { type: "tool_use", id: "a", name: "f", input: {} },
          { type: "tool_use", id: "b", name: "f", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "b", content: "B" },
          orphan("a"),
          block("Result of tool call zz:"),
          block("Z"),
        ],
      },
    ] as never);
    expect(written(user(text("go")), assistant(call("a")))).toEqual([
      { role: "user", content: [block("go")] },
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
      { role: "user", content: [orphan("a")] },
    ] as never);
  });

  test("ids fit the alphabet, are unique, the same each time, and match between call and result", () => {
    const once = () =>
      JSON.stringify(
        written(
          user(text("go")),
          assistant(call("call:1")),
          user(result("call:1")),
          assistant(call("call:1"), call("")),
          user(result("call:1"), result("")),
        ),
      );
    expect(once()).toBe(once());
    const ids = [...once().matchAll(/"id":"([^"]*)"/g)].map((match) => match[1]);
    const answered = [...once().matchAll(/"tool_use_id":"([^"]*)"/g)].map((match) => match[1]);
    expect(new Set(ids).size).toBe(3);
    expect(answered).toEqual(ids);
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/);
    expect(JSON.stringify(written(assistant(call("toolu_ok"))))).toContain('"id":"toolu_ok"');
  });

  test("empty and blank text, a first assistant turn, and a prefill", () => {
    expect(written(assistant(text("I begin")), user(text(""), text(" \n")), assistant(text("so  \n")))).toEqual([
      { role: "user", content: [block("(continue)")] },
      { role: "assistant", content: [block("I begin")] },
      { role: "user", content: [block("(empty)")] },
      { role: "assistant", content: [block("so")] },
    ]);
    expect(written(user(text("a")), assistant(text("")), user(text("b")))).toEqual([
      { role: "user", content: [block("a"), block("b")] },
    ]);
    expect(written()).toEqual([{ role: "user", content: [block("(empty)")] }]);
  });

  test("reasoning goes back only with its proof", () => {
    const turns = [
      user(text("q")),
      assistant(
        { type: "reasoning", text: "foreign" },
        { type: "reasoning", text: "another's", signature: "gm:call:abc" },
        { type: "reasoning", text: "own", signature: "s" },
        { type: "redacted-reasoning", data: "d" },
        text("a"),
      ),
      user(text("r")),
    ];
    const { body, dropped } = encode({ turns });
    expect((body["messages"] as { content: unknown }[])[1]?.content).toEqual([
      { type: "thinking", thinking: "own", signature: "s" },
      { type: "redacted_thinking", data: "d" },
      block("a"),
    ]);
    expect(dropped).toEqual([]);
  });

  test("a turn of another vendor's reasoning alone is left out, with nothing put before it", () => {
    const reasoning: Part = { type: "reasoning", text: "another's", signature: "rs:abc" };
    const { body } = encode({ turns: [assistant(reasoning), user(text("q"))] });
    expect(body["messages"]).toEqual([{ role: "user", content: [block("q")] }]);
  });

  test("tools, choice and parallel calls", () => {
    const tool = { name: "f", description: "d", schema: { properties: {} }, cache };
    expect(encode({ tools: [tool], toolChoice: { type: "required" }, parallelToolCalls: false }).body).toMatchObject({
      tools: [{ name: "f", description: "d", input_schema: { type: "object", properties: {} }, cache_control: cache }],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    });
    const choice = (fields: Partial<Prompt>) => encode({ tools: [tool], ...fields }).body["tool_choice"];
    expect(choice({})).toBeUndefined();
    expect(choice({ parallelToolCalls: true })).toBeUndefined();
    expect(choice({ parallelToolCalls: false })).toEqual({ type: "auto", disable_parallel_tool_use: true });
    expect(choice({ toolChoice: { type: "tool", name: "f" } })).toEqual({ type: "tool", name: "f" });
    expect(choice({ toolChoice: { type: "none" }, parallelToolCalls: false })).toEqual({ type: "none" });
    expect(encode({ toolChoice: { type: "required" } }).body).not.toHaveProperty("tool_choice");
    expect(encode({ turns: [user(text("x")), assistant(call("a"))] }).body).toMatchObject({
      tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
      tool_choice: { type: "none" },
    });
  });

  test("schemas: a union at a tool's root is laid together, structured output is closed and its constraints spoken", () => {
    const schema = {
      anyOf: [
        { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
        { type: "object", properties: { b: { type: "string" } } },
      ],
      properties: { c: {} },
      required: ["c"],
    };
    expect(encode({ tools: [{ name: "f", schema }] }).body["tools"]).toEqual([
      {
        name: "f",
        input_schema: {
          type: "object",
          properties: { a: { type: "string" }, b: { type: "string" }, c: {} },
          required: ["c"],
        },
      },
    ]);
    const $defs = {
      A: { $ref: "#/$defs/B", properties: { kind: { const: "a" }, a: { type: "string" } } },
      B: { type: "object", properties: { kind: { const: "b" }, b: {} }, required: ["kind"] },
    };
    const union = { oneOf: [{ $ref: "#/$defs/A" }, { $ref: "#/$defs/B" }, { $ref: "#/$defs/none" }], $defs };
    expect(encode({ tools: [{ name: "f", schema: union }] }).body["tools"]).toEqual([
      {
        name: "f",
        input_schema: {
          $defs,
          type: "object",
          properties: { kind: { anyOf: [{ const: "a" }, { const: "b" }] }, a: { type: "string" }, b: {} },
        },
      },
    ]);
    const output = {
      $schema: "x",
      type: "object",
      properties: {
        n: { type: "integer", minimum: 1, description: "How many." },
        list: { type: "array", minItems: 2, items: { oneOf: [{ type: "object" }, { type: "null" }] } },
        when: { type: "string", format: "date" },
        description: { type: "string", format: "phone" },
      },
      required: ["n"],
    };
    expect(encode({ output: { type: "json-schema", schema: output } }).body["output_config"]).toEqual({
      format: {
        type: "json_schema",
        schema: {
          type: "object",
          properties: {
            n: { type: "integer", description: "How many. {minimum: 1}" },
            list: {
              type: "array",
              items: { anyOf: [{ type: "object", additionalProperties: false }, { type: "null" }] },
              description: "{minItems: 2}",
            },
            when: { type: "string", format: "date" },
            description: { type: "string", description: '{format: "phone"}' },
          },
          required: ["n"],
          additionalProperties: false,
        },
      },
    });
    let deep: Record<string, unknown> = { type: "string" };
    for (let depth = 0; depth < 100; depth++) deep = { type: "array", items: deep };
    refusal(() => encode({ output: { type: "json-schema", schema: deep } }));
  });

  test("documents and what this dialect does not carry", () => {
    const document = (source: Extract<Part, { type: "document" }>["source"]) =>
      (written(user({ type: "document", source, title: "T", cache })) as { content: unknown[] }[])[0]?.content[0];
    expect(document({ kind: "text", text: "plain" })).toEqual({
      type: "document",
      source: { type: "text", media_type: "text/plain", data: "plain" },
      title: "T",
      cache_control: cache,
    });
    expect(document({ kind: "base64", mediaType: "text/csv", data: btoa("a,b") })).toMatchObject({
      source: { type: "text", data: "a,b" },
    });
    expect(document({ kind: "base64", mediaType: "", data: "JVBERi0xLjQ=" })).toMatchObject({
      source: { type: "base64", media_type: "application/pdf" },
    });
    refusal(() => document({ kind: "base64", mediaType: "application/msword", data: "0M8R" }));
    refusal(() => document({ kind: "file", id: "file_1" }));
    refusal(() => written(user({ type: "image", source: { kind: "file", id: "file_1" } })));
    refusal(() => written(user({ type: "audio", data: "x", format: "wav" })));
    expect(
      encode({
        turns: [user(text("x"), { type: "opaque", dialect: "chat", name: "messages[0].content[1]", value: {} })],
      }).dropped,
    ).toEqual(["messages[0].content[1]"]);
  });

  test("a request decoded and encoded again says the same", () => {
    const body = {
      max_tokens: 10,
      system: "s",
      tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
      tool_choice: { type: "auto" },
      messages: [
        {
          role: "user",
          content: [block("go"), { type: "image", source: { type: "url", url: "https://example.org/a.png" } }],
        },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "t", signature: "s" },
            block("ok"),
            { type: "tool_use", id: "a", name: "f", input: { x: 1 } },
          ],
        },
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: "a", content: "A", is_error: true }, block("next")],
        },
      ],
      temperature: 0.5,
      stop_sequences: ["END"],
      metadata: { user_id: "u" },
    };
    const decoded = messages.decodeRequest({ model: "a/b", ...body });
    expect(messages.encodeRequest(decoded.prompt, {})).toEqual({ body, dropped: [] });
  });
});
