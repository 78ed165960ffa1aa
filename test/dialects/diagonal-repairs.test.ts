import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { dialects } from "../../src/dialects/index.ts";
import { faultOf } from "../support/fault.ts";
import { chatStream, chunk, recordsOf, reply, send, stream, typedStream, type Wire } from "./crossing.ts";

const hello: Wire = { role: "user", content: "Hi" };
const CONTINUE = { role: "user", content: [{ type: "text", text: "(continue)" }] };
const DIAGONAL = { from: "messages", to: "messages" } as const;
const messagesOf = (body: Wire) => body["messages"] as Wire[];

describe("a last assistant turn on the messages diagonal (dialects.md 2.1, 2.9)", () => {
  const conversation = (content: unknown): Wire => ({ messages: [hello, { role: "assistant", content }] });
  const ask = (upstreamModel: string, body: Wire) =>
    send({ ...DIAGONAL, orders: { upstreamModel, reasoning: { kind: "keep" } } }, body);

  test.each([
    ["a string", "So: "],
    ["blocks", [{ type: "text", text: "So: " }]],
    [
      "thinking before it",
      [
        { type: "thinking", thinking: "t", signature: "s" },
        { type: "text", text: "So:" },
      ],
    ],
  ])("%s: is answered to, and that is named, where the model refuses to continue one", (_form, content) => {
    const { body, dropped } = ask("claude-opus-5", conversation(content));
    expect(messagesOf(body).at(-1)).toEqual(CONTINUE);
    expect(messagesOf(body)).toHaveLength(3);
    expect(JSON.stringify(messagesOf(body)[1])).toContain("So:");
    expect(dropped).toEqual(["prefill"]);
  });

  test("is continued by a model that can, while it does not think", () => {
    const own = conversation("So:");
    for (const model of ["claude-sonnet-4-5", "claude-opus-4-5", "some-other"]) {
      const { body, dropped } = ask(model, own);
      expect(messagesOf(body)).toEqual(messagesOf(own));
      expect(dropped).toEqual([]);
    }
    const off = ask("claude-sonnet-4-5", { ...own, thinking: { type: "disabled" } });
    expect([messagesOf(off.body).length, off.dropped]).toEqual([2, []]);
  });

  test("is answered to while the model thinks", () => {
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const { body, dropped } = ask("claude-sonnet-4-5", { ...conversation("So:"), max_tokens: 4096, thinking });
    expect([messagesOf(body).at(-1), dropped, body["thinking"]]).toEqual([CONTINUE, ["prefill"], thinking]);
  });

  test("of a chat client: the same", () => {
    const reasoning = { kind: "level", form: "budget", level: "low" } as const;
    const way = { from: "chat", to: "messages" } as const;
    const own = { messages: [hello, { role: "assistant", content: "So:" }], max_tokens: 9000 };
    const thinks = send({ ...way, orders: { upstreamModel: "claude-sonnet-4-5", reasoning } }, own);
    expect(thinks.body["thinking"]).toMatchObject({ type: "enabled" });
    expect([messagesOf(thinks.body).at(-1), thinks.dropped]).toEqual([CONTINUE, ["prefill"]]);
    const plain = send({ ...way, orders: { upstreamModel: "claude-sonnet-4-5" } }, own);
    expect([messagesOf(plain.body).length, plain.dropped]).toEqual([2, []]);
  });

  test.each([
    ["is to be summed up", { compaction: { type: "summarize" } }],
    ["another model has begun", { fallback_credit_token: "t" }],
  ])("of a conversation that %s goes on as it is", (_which, field) => {
    const own = { ...conversation("So it is."), ...field };
    const { body, dropped } = ask("claude-opus-5", own);
    expect([messagesOf(body), dropped]).toEqual([messagesOf(own), []]);
  });

  test("in which a server's tool is at work goes on as it is", () => {
    const paused = [
      { type: "text", text: "Let me see." },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "q" } },
    ];
    const own = conversation(paused);
    const { body, dropped } = ask("claude-opus-5", own);
    expect([messagesOf(body), dropped]).toEqual([messagesOf(own), []]);
  });
});

describe("stop sequences of white space on the messages diagonal (dialects.md 2.1)", () => {
  const ask = (stops: unknown) => send(DIAGONAL, { messages: [hello], stop_sequences: stops });
  const said = (text: string): Wire => ({
    id: "m",
    type: "message",
    role: "assistant",
    model: "up-1",
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 2 },
  });

  test("are not told, and the gateway stops at them", () => {
    const { body, changes, dropped } = ask(["END", "\n\n"]);
    expect([body["stop_sequences"], dropped]).toEqual([["END"], []]);
    expect(reply(DIAGONAL, said("a\n\nb"), changes)).toMatchObject({
      content: [{ type: "text", text: "a" }],
      stop_reason: "stop_sequence",
      stop_sequence: "\n\n",
    });
    expect(reply(DIAGONAL, said("a\nb"), changes)).toMatchObject({
      content: [{ type: "text", text: "a\nb" }],
      stop_reason: "end_turn",
    });
  });

  test("alone leave no field", () => {
    const { body, changes, dropped } = ask(["\n"]);
    expect(body).not.toContainKey("stop_sequences");
    expect([dropped, changes]).toEqual([[], { stops: ["\n"] }]);
  });

  test("that are too long to be watched for are named, and an empty one asks for nothing", () => {
    for (const [stop, lost] of [
      ["", []],
      [" ".repeat(600), ["stop_sequences"]],
    ] as [string, string[]][]) {
      const { body, changes, dropped } = ask(["END", stop]);
      expect([body["stop_sequences"], dropped, changes]).toEqual([["END"], lost, undefined]);
      const alone = ask([stop]);
      expect(alone.body).not.toContainKey("stop_sequences");
      expect(alone.dropped).toEqual(lost);
    }
  });

  test("others stay as they are, and the reply with them", () => {
    const { body, changes, dropped } = ask(["END", " x"]);
    expect([body["stop_sequences"], dropped, changes]).toEqual([["END", " x"], [], undefined]);
  });
});

describe("what goes with tools on the messages diagonal (dialects.md 2.3, 4.1)", () => {
  const tool = (name: string, more: Wire = {}): Wire => ({ name, input_schema: { type: "object" }, ...more });
  const ask = (body: Wire) => send(DIAGONAL, { messages: [hello], ...body });

  test("of tools of one name the first stays; another one that differs is named", () => {
    const twins = ask({ tools: [tool("f"), tool("g"), tool("f")] });
    expect([twins.body["tools"], twins.dropped]).toEqual([[tool("f"), tool("g")], []]);
    const other = ask({ tools: [tool("f"), tool("f", { description: "other" })] });
    expect([other.body["tools"], other.dropped]).toEqual([[tool("f")], ["tools[1]"]]);
    const own = [
      tool("f"),
      { type: "mcp_toolset", mcp_server_name: "a" },
      { type: "mcp_toolset", mcp_server_name: "b" },
    ];
    expect(ask({ tools: own }).body["tools"]).toEqual(own);
  });

  test("a choice among none goes where it forces nothing, and is refused where it does", () => {
    for (const type of ["auto", "none"]) {
      for (const tools of [undefined, null, []]) {
        expect(ask({ tools, tool_choice: { type } }).body).not.toContainKey("tool_choice");
      }
      const choice = { type };
      expect(ask({ tools: [tool("f")], tool_choice: choice }).body["tool_choice"]).toEqual(choice);
      expect(ask({ mcp_servers: [{ type: "url" }], tool_choice: choice }).body["tool_choice"]).toEqual(choice);
    }
    for (const to of ["messages", "chat"] as const) {
      const refused = faultOf(() => send({ ...DIAGONAL, to }, { messages: [hello], tool_choice: { type: "any" } }));
      expect([refused.code, refused.param]).toEqual(["invalid_request", "tool_choice"]);
    }
    const any = { type: "any" };
    expect(ask({ mcp_servers: [{ type: "url" }], tool_choice: any }).body["tool_choice"]).toEqual(any);
  });
});

describe("a system prompt that cannot be seen, on the messages diagonal (dialects.md 4.8 #4)", () => {
  const block = (text: string): Wire => ({ type: "text", text });
  test.each([
    ["", undefined],
    [" \n", undefined],
    [[block("")], undefined],
    [[block(" "), block("S"), block("")], [block("S")]],
  ])("%j becomes %j", (system, expected) => {
    expect(send(DIAGONAL, { messages: [hello], system }).body["system"]).toEqual(expected as never);
  });

  test("others stay", () => {
    for (const system of ["S", " S ", [block(" S ")], []]) {
      expect(send(DIAGONAL, { messages: [hello], system }).body["system"]).toEqual(system);
    }
  });
});

describe("names of tools that the chat dialect does not take, on its diagonal (dialects.md 1.1, 4.3)", () => {
  const CHAT = { from: "chat", to: "chat" } as const;
  const long = "n".repeat(80);
  const tool = (name: string): Wire => ({ type: "function", function: { name, parameters: { type: "object" } } });
  const LEGAL = /^[A-Za-z0-9_-]{1,64}$/;
  const call = (id: string, name: string): Wire => ({ id, type: "function", function: { name, arguments: "{}" } });
  const conversation: Wire = {
    tools: [tool("files.read"), tool("files_read"), tool(long), tool("fine")],
    tool_choice: { type: "function", function: { name: "files.read" } },
    messages: [
      hello,
      {
        role: "assistant",
        content: null,
        tool_calls: [call("c1", "files.read"), call("c2", "gone/tool"), call("c3", "fine")],
      },
      { role: "tool", tool_call_id: "c1", name: "files.read", content: "1" },
      { role: "tool", tool_call_id: "c2", content: "2" },
      { role: "tool", tool_call_id: "c3", content: "3" },
    ],
  };
  const nameOf = (value: unknown): string => ((value as Wire)["function"] as Wire)["name"] as string;

  test("are mapped wherever they stand, and no two become one", () => {
    const { body, dropped } = send(CHAT, conversation);
    const names = (body["tools"] as Wire[]).map(nameOf);
    for (const name of names) expect(name).toMatch(LEGAL);
    expect(new Set(names).size).toBe(4);
    expect([names[1], names[3]]).toEqual(["files_read", "fine"]);
    expect(nameOf(body["tool_choice"])).toBe(names[0] as string);
    const [, assistant, result] = messagesOf(body);
    const called = ((assistant as Wire)["tool_calls"] as Wire[]).map(nameOf);
    expect([called[0], called[2]]).toEqual([names[0] as string, "fine"]);
    expect(called[1]).toMatch(LEGAL);
    expect(result?.["name"]).toBe(names[0]);
    expect(JSON.stringify(body)).not.toContain("files.read");
    expect(dropped).toEqual([]);
  });

  test("are mapped back, whole and streamed", () => {
    const { body, changes } = send(CHAT, conversation);
    const [dotted, , cut] = (body["tools"] as Wire[]).map(nameOf) as [string, string, string];
    const whole = reply(
      CHAT,
      {
        id: "c",
        object: "chat.completion",
        created: 1,
        model: "up-1",
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: null, tool_calls: [call("d1", dotted), call("d2", cut)] },
            finish_reason: "tool_calls",
          },
        ],
      },
      changes,
    );
    const choice = (whole["choices"] as Wire[])[0] as Wire;
    expect(((choice["message"] as Wire)["tool_calls"] as Wire[]).map(nameOf)).toEqual(["files.read", long]);
    const sse = chatStream(
      chunk({ role: "assistant", tool_calls: [{ index: 0, ...call("d1", dotted) }] }),
      chunk({}, "tool_calls"),
    );
    const text = stream(CHAT, sse, changes);
    expect(text).toContain('"files.read"');
    expect(text).not.toContain(dotted);
    expect(recordsOf(text).length).toBeGreaterThan(0);
  });

  test("that are the vendor's own stay, whatever form the client calls them in, and cross to nobody", () => {
    const call = { id: "c1", function: { name: "$web_search", arguments: "{}" } };
    const messages = [
      hello,
      { role: "assistant", content: null, tool_calls: [{ ...call, type: "builtin_function" }] },
      { role: "tool", tool_call_id: "c1", name: "$web_search", content: "1" },
      { role: "assistant", content: null, tool_calls: [{ ...call, type: "function" }] },
      { role: "tool", tool_call_id: "c1", name: "$web_search", content: "1" },
    ];
    const builtin = { type: "builtin_function", function: { name: "$web_search" } };
    const dotted = { type: "function", function: { name: "a.b" } };
    const { body, changes } = send(CHAT, { messages, tools: [builtin, dotted] });
    expect(body["messages"]).toEqual(messages);
    expect(body["tools"]).toEqual([builtin, { ...dotted, function: { name: "a_b" } }]);
    expect(changes?.toolNames).toEqual(new Map([["a_b", "a.b"]]));
    const crossed = send({ from: "chat", to: "messages" }, { messages: [hello], tools: [builtin] });
    expect([crossed.body["tools"], crossed.dropped]).toEqual([undefined, ["tools[0]"]]);
  });

  test("of the older form and in allowed tools are mapped as well", () => {
    const older = { functions: [{ name: "a.b", parameters: { type: "object" } }], function_call: { name: "a.b" } };
    for (const quirks of [{}, { legacyFunctions: true }]) {
      const { text, changes } = send({ ...CHAT, quirks }, { messages: [hello], ...older });
      expect(text).not.toContain("a.b");
      expect(text).toContain('"a_b"');
      expect(changes?.toolNames).toEqual(new Map([["a_b", "a.b"]]));
    }
    const said = { role: "assistant", content: null, function_call: { name: "a.b", arguments: "{}" } };
    const loop = { messages: [hello, said, { role: "function", name: "a.b", content: "1" }], ...older };
    expect(send({ ...CHAT, quirks: { legacyFunctions: true } }, loop).text).not.toContain("a.b");
    const allowed = {
      type: "allowed_tools",
      allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "files.read" } }] },
    };
    const { body } = send(CHAT, { ...conversation, tool_choice: allowed });
    expect(JSON.stringify(body["tool_choice"])).not.toContain("files.read");
  });

  test("custom tools keep their kind", () => {
    const tools = [{ type: "custom", custom: { name: "run.it" } }];
    const told = send({ ...CHAT, quirks: { customTools: false } }, { messages: [hello], tools });
    expect(told.text).not.toContain("run.it");
    const message = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "d", type: "function", function: { name: "run_it", arguments: '{"input":"ls"}' } }],
    };
    const whole = reply(
      CHAT,
      {
        id: "c",
        object: "chat.completion",
        created: 1,
        model: "up-1",
        choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      },
      told.changes,
    );
    expect(JSON.stringify(whole)).toContain('"custom":{"name":"run.it","input":"ls"}');
  });

  test("legal ones leave the body and the reply alone", () => {
    const own = {
      model: "up-1",
      messages: [
        hello,
        { role: "assistant", content: null, tool_calls: [call("c", "fine")] },
        { role: "tool", tool_call_id: "c", content: "1" },
      ],
      tools: [tool("fine"), tool("a-b_C9")],
    };
    const { body, changes } = send(CHAT, own);
    expect(changes).toBeUndefined();
    expect(body).toEqual(own);
  });

  test("any names: all legal, no two alike, and back again", () => {
    const name = fc.oneof(
      fc.string({ unit: "binary", minLength: 1, maxLength: 90 }),
      fc.constantFrom("__proto__", "a.b", "a_b", "a/b"),
    );
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 6 }), (names) => {
        const { body, changes } = send(CHAT, { messages: [hello], tools: names.map(tool) });
        const told = (body["tools"] as Wire[]).map(nameOf);
        for (const one of told) expect(one).toMatch(LEGAL);
        expect(new Set(told).size).toBe(names.length);
        const back = told.map((one) => changes?.toolNames?.get(one) ?? one);
        // What a client sends is read as UTF-8, in which there are no half characters: those it spelled out are mended.
        expect(back).toEqual(names);
      }),
    );
  });
});

describe("names of tools that a dialect does not take, on the messages and the responses diagonal (dialects.md 2.3, 4.3)", () => {
  const RESPONSES = { from: "responses", to: "responses" } as const;
  const schema = { type: "object", properties: {} };
  const long = "n".repeat(140);
  const inMessages: Wire = {
    tools: [
      { name: "files.read", input_schema: schema },
      { name: "files_read", input_schema: schema },
      { type: "web_search_20250305", name: "web_search" },
    ],
    tool_choice: { type: "tool", name: "files.read" },
    messages: [
      hello,
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: long, input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "1" }] },
    ],
  };
  const inResponses: Wire = {
    tools: [
      { type: "function", name: "files.read", parameters: schema },
      { type: "custom", name: "files/write" },
      { type: "web_search" },
    ],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "files.read" }] },
    input: [
      hello,
      { type: "function_call", call_id: "a", name: long, arguments: "{}" },
      { type: "function_call_output", call_id: "a", output: "1" },
    ],
  };

  test("are mapped wherever they stand, and no two become one", () => {
    const told = send(DIAGONAL, inMessages);
    const [first, second, typed] = told.body["tools"] as Wire[];
    expect([second?.["name"], typed]).toEqual(["files_read", { type: "web_search_20250305", name: "web_search" }]);
    expect(first?.["name"]).toMatch(/^files_read_[0-9a-f]{8}$/);
    expect((told.body["tool_choice"] as Wire)["name"]).toBe(first?.["name"]);
    const [call] = (messagesOf(told.body)[1]?.["content"] ?? []) as Wire[];
    expect(call?.["name"]).toMatch(/^n{119}_[0-9a-f]{8}$/);
    expect([told.text.includes("files.read"), told.dropped]).toEqual([false, []]);
    const bedrock = send({ ...DIAGONAL, quirks: { versionInBody: "v" } }, inMessages);
    expect(bedrock.text).toMatch(/"n{55}_[0-9a-f]{8}"/);

    const { body, text, dropped } = send(RESPONSES, inResponses);
    expect((body["tools"] as Wire[]).map(({ name }) => name)).toStrictEqual(["files_read", "files_write", undefined]);
    expect(body["tool_choice"]).toMatchObject({ tools: [{ type: "function", name: "files_read" }] });
    expect((body["input"] as Wire[])[1]?.["name"]).toMatch(/^n{55}_[0-9a-f]{8}$/);
    expect([text.includes("files."), dropped]).toEqual([false, []]);
    const forced = send(RESPONSES, { ...inResponses, tool_choice: { type: "custom", name: "files/write" } });
    expect(forced.body["tool_choice"]).toEqual({ type: "custom", name: "files_write" });
  });

  test("are mapped back, whole and streamed", () => {
    const { body, changes } = send(DIAGONAL, inMessages);
    const name = (body["tools"] as Wire[])[0]?.["name"];
    const use = { type: "tool_use", id: "t", name, input: { a: 1 } };
    const head = { id: "m", type: "message", role: "assistant", model: "up-1", stop_sequence: null };
    const usage = { input_tokens: 3, output_tokens: 2 };
    const whole = reply(DIAGONAL, { ...head, content: [use], stop_reason: "tool_use", usage }, changes);
    expect(whole["content"]).toEqual([{ ...use, name: "files.read" }]);
    const sse = typedStream(
      { type: "message_start", message: { ...head, content: [], stop_reason: null, usage } },
      { type: "content_block_start", index: 0, content_block: { ...use, input: {} } },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"a":1}' } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage },
      { type: "message_stop" },
    );
    const told = stream(DIAGONAL, sse, changes);
    expect([told.includes('"files.read"'), told.includes(String(name))]).toEqual([true, false]);

    const other = send(RESPONSES, inResponses);
    const calls = [
      { type: "function_call", id: "fc_1", call_id: "a", name: "files_read", arguments: "{}", status: "completed" },
      { type: "custom_tool_call", id: "ctc_1", call_id: "b", name: "files_write", input: "x", status: "completed" },
    ];
    const response = { id: "r", object: "response", created_at: 1, status: "completed", model: "up-1", output: calls };
    const back = reply(RESPONSES, { ...response, usage: { ...usage, total_tokens: 5 } }, other.changes);
    expect((back["output"] as Wire[]).map((item) => item["name"])).toEqual(["files.read", "files/write"]);
  });

  test("legal ones leave the body and the reply alone", () => {
    const own: Wire = { ...inMessages, tools: [{ name: "f", input_schema: schema }], tool_choice: { type: "auto" } };
    own["messages"] = [hello];
    const { body, changes } = send(DIAGONAL, own);
    expect([changes, body]).toEqual([undefined, { ...own, model: "up-1", max_tokens: 64 }]);
    const input = { input: "x", tools: [{ type: "function", name: "f", parameters: schema }, { type: "web_search" }] };
    expect(send(RESPONSES, input)).toMatchObject({ changes: undefined, body: input });
  });
});

describe("a user's turn of nothing that another dialect knows", () => {
  const strange = { type: "hologram", data: "x" };
  const CASES = [
    [
      "chat",
      "messages",
      { messages: [hello, { role: "assistant", content: "?" }, { role: "user", content: [strange] }] },
      "messages[2].content[0]",
    ],
    [
      "chat",
      "gemini",
      { messages: [{ role: "user", content: [{ type: "text", text: " " }, strange] }] },
      "messages[0].content[1]",
    ],
    ["messages", "chat", { messages: [{ role: "user", content: [strange, strange] }] }, "messages[0].content[0]"],
    [
      "messages",
      "responses",
      { messages: [{ role: "user", content: [strange] }, { role: "assistant", content: "?" }, hello] },
      "messages[0].content[0]",
    ],
    ["responses", "messages", { input: [{ role: "user", content: [strange] }] }, "input[0].content[0]"],
  ] as const;

  test.each(CASES)(
    "of a %s client is refused before %s hears of it, and the block is named",
    (from, to, body, param) => {
      const fault = faultOf(() => send({ from, to }, body as unknown as Wire));
      expect([fault.code, fault.param]).toEqual(["invalid_request", param]);
      expect(fault.message).toContain(param);
    },
  );

  test("with a word beside it loses the block alone, which is named once", () => {
    const content = [{ type: "text", text: "See:" }, strange];
    for (const from of ["chat", "messages"] as const) {
      const { text, dropped } = send({ from, to: "gemini" }, { messages: [{ role: "user", content }] });
      expect(text).toContain("See:");
      expect(dropped).toEqual(["messages[0].content[1]"]);
    }
  });

  test("behind a tool's result loses the block alone", () => {
    const use = { type: "tool_use", id: "t", name: "f", input: {} };
    const content = [{ type: "tool_result", tool_use_id: "t", content: "1" }, strange];
    const { dropped } = send(
      { from: "messages", to: "chat" },
      { messages: [hello, { role: "assistant", content: [use] }, { role: "user", content }] },
    );
    expect(dropped).toEqual(["messages[2].content[1]"]);
    const called = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "t", type: "function", function: { name: "f", arguments: "{}" } }],
    };
    const chat = send(
      { from: "chat", to: "messages" },
      {
        messages: [
          hello,
          called,
          { role: "tool", tool_call_id: "t", content: "1" },
          { role: "user", content: [strange] },
        ],
      },
    );
    expect(chat.dropped).toEqual(["messages[3].content[0]"]);
  });

  test("goes to its own dialect as it is, and an empty turn is no strange one", () => {
    const own = { messages: [{ role: "user", content: [strange] }] };
    expect(messagesOf(send(DIAGONAL, own).body)).toEqual(own.messages);
    expect(send({ from: "chat", to: "messages" }, { messages: [{ role: "user", content: [] }] }).text).toContain(
      "(empty)",
    );
  });

  test("is counted all the same: what is only decoded is not refused", () => {
    for (const client of ["chat", "messages"] as const) {
      const body = { model: "a/b", max_tokens: 1, messages: [{ role: "user", content: [strange] }] };
      expect(() => dialects[client].decodeRequest(body)).not.toThrow();
    }
  });
});
