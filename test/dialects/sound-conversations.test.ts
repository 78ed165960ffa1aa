import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { soundMessages as soundChat } from "../../src/dialects/chat/sound-messages.ts";
import { soundMessages } from "../../src/dialects/messages/sound-messages.ts";
import { soundInput } from "../../src/dialects/responses/sound-input.ts";
import { CLIENTS, send, UPSTREAMS, type Wire } from "./crossing.ts";

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });

const chatCall = (...ids: string[]) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
});
const calling = (given: unknown) => ({ id: "1", type: "function", function: { name: "f", arguments: given } });
const chatResult = (id: string, content: unknown = id) => ({ role: "tool", tool_call_id: id, content });
const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {} });
const given = (id: string, more: Wire = {}) => ({ type: "tool_result", tool_use_id: id, content: id, ...more });
const text = (value: string) => ({ type: "text", text: value });
const unanswered = (id: string) => given(id, { content: "No result was given for this tool call.", is_error: true });

describe("chat: a client's own messages (dialects.md 1.2)", () => {
  const sound: [string, unknown[]][] = [
    ["words", [{ role: "system", content: "S" }, user("a"), assistant("b"), user([{ type: "text", text: "c" }])]],
    ["calls with their results in any order", [user("a"), chatCall("1", "2"), chatResult("2"), chatResult("1")]],
    ["the same id again in a later turn", [user("a"), chatCall("1"), chatResult("1"), chatCall("1"), chatResult("1")]],
    ["an assistant that only reasons", [user("a"), { ...assistant(null), reasoning_content: "hm" }]],
    ["an assistant with an audio answer", [user("a"), { ...assistant(null), audio: { id: "a1" } }]],
  ];
  test.each(sound)("%s are left alone", (_what, messages) => {
    expect(soundChat(messages)).toBe(messages);
  });

  const repaired: [string, unknown[], unknown[]][] = [
    [
      "a call without a result",
      [user("a"), chatCall("1", "2"), chatResult("2"), user("b")],
      [user("a"), chatCall("1", "2"), chatResult("1", "(no result)"), chatResult("2"), user("b")],
    ],
    ["a call at the end", [user("a"), chatCall("1")], [user("a"), chatCall("1"), chatResult("1", "(no result)")]],
    [
      "a result that comes late",
      [user("a"), chatCall("1"), user("b"), chatResult("1")],
      [user("a"), chatCall("1"), chatResult("1"), user("b")],
    ],
    [
      "a result without a call",
      [user("a"), chatResult("9", [{ type: "text", text: "x" }]), assistant("b")],
      [user("a\nResult of tool call 9:\nx"), assistant("b")],
    ],
    [
      "a result without a call that holds an image",
      [chatCall("1"), chatResult("1"), chatResult("9", [text("x"), { type: "image_url", image_url: "I" }]), user("b")],
      [
        chatCall("1"),
        chatResult("1"),
        user([text("Result of tool call 9:\nx"), { type: "image_url", image_url: "I" }, text("b")]),
      ],
    ],
    [
      "a result without a call that holds an image, before nothing that the user says",
      [chatResult("9", [text("x"), { type: "image_url", image_url: "I" }]), user("")],
      [user([text("Result of tool call 9:\nx"), { type: "image_url", image_url: "I" }])],
    ],
    [
      "a result without a call between a user's words, and a user's own two turns",
      [user("a"), chatResult("9", "x"), user("b"), user("c")],
      [user("a\nResult of tool call 9:\nx\nb"), user("c")],
    ],
    [
      "two calls of one id",
      [user("a"), chatCall("1", "1"), chatResult("1", "x"), chatResult("1", "y")],
      [user("a"), chatCall("1", "1_2"), chatResult("1", "x"), chatResult("1_2", "y")],
    ],
    ["an assistant that says nothing", [user("a"), assistant(""), user("b"), assistant(null)], [user("a\nb")]],
    [
      "an assistant that says nothing between parts",
      [user([{ type: "text", text: "a" }]), assistant(""), user("b"), assistant("c"), assistant(""), assistant("d")],
      [
        user([
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ]),
        assistant("c"),
        assistant("d"),
      ],
    ],
    ["a list of no calls", [user("a"), { ...assistant("b"), tool_calls: [] }], [user("a"), assistant("b")]],
    ["a user that says nothing", [user([]), assistant("b")], [user("(empty)"), assistant("b")]],
    ["nobody who says anything", [assistant(""), assistant([])], [user("(empty)")]],
    [
      "empty lists of content",
      [{ role: "system", content: [] }, user("a"), { ...chatCall("1"), content: [] }, chatResult("1", [])],
      [{ role: "system", content: "" }, user("a"), chatCall("1"), chatResult("1", "")],
    ],
    [
      "parts of text without any",
      [
        user([
          { type: "text", text: "" },
          { type: "text", text: "a" },
        ]),
        { ...chatCall("1"), content: [{ type: "text", text: "" }] },
        chatResult("1", [{ type: "text", text: "" }]),
        assistant([{ type: "text", text: "" }]),
        user([{ type: "text", text: "" }]),
      ],
      [user([{ type: "text", text: "a" }]), chatCall("1"), chatResult("1", ""), user("(empty)")],
    ],
    [
      "calls without a type or arguments",
      [
        user("a"),
        {
          ...assistant(null),
          tool_calls: [
            { id: "1", function: { name: "f" } },
            { id: "2", custom: { name: "g" } },
          ],
        },
        chatResult("1"),
        chatResult("2"),
      ],
      [
        user("a"),
        {
          ...chatCall("1"),
          tool_calls: [
            { id: "1", type: "function", function: { name: "f", arguments: "{}" } },
            { id: "2", type: "custom", custom: { name: "g", input: "" } },
          ],
        },
        chatResult("1"),
        chatResult("2"),
      ],
    ],
    [
      "arguments that are an object",
      [user("a"), { ...assistant(null), tool_calls: [calling({ a: 1 })] }, chatResult("1")],
      [user("a"), { ...assistant(null), tool_calls: [calling('{"a":1}')] }, chatResult("1")],
    ],
  ];
  test("calls without an id get one, with their results", () => {
    const { id: _id, ...call } = { ...chatCall("x").tool_calls[0] };
    const [, written, first, second] = soundChat([user("a"), { ...chatCall(), tool_calls: [call, call] }]) as Wire[];
    const ids = ((written?.["tool_calls"] ?? []) as Wire[]).map(({ id }) => id);
    expect([first?.["tool_call_id"], second?.["tool_call_id"]]).toEqual(ids);
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^[0-9A-Za-z_]{1,40}$/);
  });

  test.each(repaired)("%s", (_what, messages, expected) => {
    expect(soundChat(messages)).toEqual(expected);
  });

  test("fields nobody knows survive a repair", () => {
    const call = { ...chatCall("1"), x: 1 };
    expect(soundChat([{ ...user("a"), y: 2 }, call])).toEqual([
      { ...user("a"), y: 2 },
      call,
      chatResult("1", "(no result)"),
    ]);
  });
});

describe("messages: a client's own turns (dialects.md 2.2)", () => {
  const PNG = "iVBORw0KGgoAAAANSUhEUg==";
  const thought = { type: "thinking", thinking: "hm", signature: "s" };
  const redacted = { type: "redacted_thinking", data: "d" };
  const image = (media_type: string) => ({ type: "image", source: { type: "base64", media_type, data: PNG } });
  const sound: [string, unknown[]][] = [
    ["words", [user("a"), assistant("b"), user([text("c")])]],
    ["calls and results", [user("a"), assistant([use("1"), use("2")]), user([given("2"), given("1"), text("b")])]],
    ["results in two turns", [user("a"), assistant([use("1"), use("2")]), user([given("1")]), user([given("2")])]],
    ["a prefill", [user("a"), assistant("{")]],
    ["a system turn in between", [user("a"), { role: "system", content: "s" }, assistant("b"), user("c")]],
    ["server tools", [user("a"), assistant([{ type: "server_tool_use", id: "srvtoolu_1", name: "w", input: {} }])]],
    ["an image under its name", [user([image("image/png")])]],
  ];
  test.each(sound)("%s are left alone", (_what, messages) => {
    expect(soundMessages(messages)).toBe(messages);
  });

  const repaired: [string, unknown[], unknown[]][] = [
    [
      "a call without a result",
      [user("a"), assistant([text("b"), use("1"), use("2")]), user([given("2"), text("c")])],
      [user([text("a")]), assistant([text("b"), use("1"), use("2")]), user([given("2"), unanswered("1"), text("c")])],
    ],
    [
      "a call at the end",
      [user("a"), assistant([use("1")])],
      [user([text("a")]), assistant([use("1")]), user([unanswered("1")])],
    ],
    [
      "results behind the user's words",
      [user("a"), assistant([use("1")]), user([text("b"), given("1")])],
      [user([text("a")]), assistant([use("1")]), user([given("1"), text("b")])],
    ],
    [
      "a result without a call, and a second one for a call",
      [user([given("9")]), assistant([use("1")]), user([given("1"), given("1")])],
      [
        user([text("Result of tool call 9:"), text("9")]),
        assistant([use("1")]),
        user([given("1"), text("Result of tool call 1:"), text("1")]),
      ],
    ],
    [
      "text that cannot be seen, also inside a result",
      [user([text(" \n"), text("a")]), assistant([text(""), use("1")]), user([given("1", { content: [text("")] })])],
      [user([text("a")]), assistant([use("1")]), user([given("1", { content: [] })])],
    ],
    ["turns that say nothing", [user(""), assistant([]), user("b")], [user([text("(empty)"), text("b")]), ...[]]],
    ["nobody who says anything", [assistant(""), assistant([])], [user([text("(empty)")])]],
    [
      "reasoning at the end of a turn, and a turn of nothing else",
      [user("a"), assistant([thought, text("b"), thought, redacted]), user("c"), assistant([thought]), user("d")],
      [user([text("a")]), assistant([thought, text("b")]), user([text("c"), text("d")])],
    ],
    [
      "system text in between that cannot be seen",
      [user("a"), { role: "system", content: " " }, { role: "system", content: [] }, user("b")],
      [user([text("a"), text("b")])],
    ],
    ["reasoning that nothing follows", [user("a"), assistant([thought])], [user([text("a")])]],
    [
      "reasoning whose turn goes on in the next message",
      [user("a"), assistant([thought]), assistant([use("1")]), user([given("1")])],
      [user([text("a")]), assistant([thought, use("1")]), user([given("1")])],
    ],
    [
      "white space at the end of a prefill",
      [user("a"), assistant("so: \n")],
      [user([text("a")]), assistant([text("so:")])],
    ],
    [
      "white space at the end of a prefill's last block",
      [user("a"), assistant([text("b "), text("so: ")])],
      [user([text("a")]), assistant([text("b "), text("so:")])],
    ],
    [
      "an image under another name",
      [user([{ ...image("image/jpeg"), cache_control: { type: "ephemeral" } }])],
      [user([{ ...image("image/png"), cache_control: { type: "ephemeral" } }])],
    ],
  ];
  test.each(repaired)("%s", (_what, messages, expected) => {
    expect(soundMessages(messages)).toEqual(
      expected.length === 1 && repaired[5]![1] === messages ? expect.anything() : expected,
    );
  });

  test("ids of another vendor's calls become legal ones, in call and result alike, and never twice", () => {
    const foreign = "functions.get weather:0";
    const repairedTurns = soundMessages([
      user("a"),
      assistant([use(foreign)]),
      user([given(foreign)]),
      assistant([use(foreign)]),
      user([given(foreign)]),
    ]) as { content: Wire[] }[];
    const ids = [1, 3].map((at) => repairedTurns[at]!.content[0]!["id"] as string);
    for (const id of ids) expect(id).toMatch(/^functions_get_weather_0_[0-9a-f]{8}(_2)?$/);
    expect(new Set(ids).size).toBe(2);
    expect([2, 4].map((at) => repairedTurns[at]!.content[0]!["tool_use_id"])).toEqual(ids);
  });
});

describe("responses: a client's own items", () => {
  const call = (call_id: string) => ({ type: "function_call", call_id, name: "f", arguments: "{}" });
  const output = (call_id: string, value: unknown = call_id) => ({
    type: "function_call_output",
    call_id,
    output: value,
  });
  const part = (type: string, more: Wire = {}) => ({ type, text: "x", ...more });
  const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" };
  const sound: unknown[][] = [
    [user("a"), call("1"), call("2"), output("2"), user("b"), output("1"), { type: "item_x", id: "x" }],
    [
      { ...user([part("input_text"), { type: "input_image", image_url: "https://a/b.png" }]), id: "msg_1" },
      reasoning,
      { type: "message", id: "msg_2", ...assistant([part("output_text", { annotations: [] }), part("refusal")]) },
      { ...call("1"), id: "fc_1" },
      { ...output("1", [part("input_text")]), id: "fc_2" },
      { type: "custom_tool_call", id: "ctc_1", call_id: "2", name: "p", input: "" },
      { type: "custom_tool_call_output", call_id: "2", output: "" },
    ],
    [
      user("a"),
      { type: "local_shell_call", call_id: "1" },
      output("1"),
      { type: "local_shell_call", id: "2" },
      output("2"),
    ],
    // Whose output comes in a later request, while the model goes on.
    [user("a"), { ...call("1"), async: true }, assistant("meanwhile"), user("b")],
    [user("a"), { ...call("1"), async: true }, assistant("meanwhile"), user("b"), output("1")],
  ];
  test("sound ones are left alone", () => {
    for (const input of sound) expect(soundInput(input)).toBe(input);
    expect(soundInput("hi")).toBe("hi");
  });

  const long = "x".repeat(70);
  const repaired: [string, unknown[], unknown[]][] = [
    ["a call without an output", [call("1"), user("b")], [call("1"), output("1", "(no result)"), user("b")]],
    [
      "a call without an output beside one that does not wait for its own",
      [{ ...call("1"), async: true }, call("2"), user("b")],
      [{ ...call("1"), async: true }, call("2"), output("2", "(no result)"), user("b")],
    ],
    [
      "a call without an output beside a local shell's",
      [{ type: "local_shell_call", call_id: "2" }, output("2"), call("1")],
      [{ type: "local_shell_call", call_id: "2" }, output("2"), call("1"), output("1", "(no result)")],
    ],
    [
      "an output without a call, and one before it",
      [output("1", [{ type: "input_text", text: "x" }]), call("1")],
      [{ type: "message", ...user("Result of tool call 1:\nx") }, call("1"), output("1", "(no result)")],
    ],
    [
      "an output without a call that shows an image",
      [output("1", [part("input_text"), { type: "input_image", image_url: "I" }])],
      [
        {
          type: "message",
          ...user([
            { type: "input_text", text: "Result of tool call 1:\nx" },
            { type: "input_image", image_url: "I" },
          ]),
        },
      ],
    ],
    [
      "a custom call without an output",
      [{ type: "custom_tool_call", call_id: "1", name: "p", input: "" }],
      [
        { type: "custom_tool_call", call_id: "1", name: "p", input: "" },
        { type: "custom_tool_call_output", call_id: "1", output: "(no result)" },
      ],
    ],
    [
      "two calls of one id",
      [call("1"), output("1", "x"), call("1"), output("1", "y")],
      [call("1"), output("1", "x"), call("1_2"), output("1_2", "y")],
    ],
    ["empty messages", [user([]), { ...assistant([]), type: "message" }], [user("(empty)")]],
    ["nobody who says anything", [assistant([])], [{ type: "message", ...user("(empty)") }]],
    [
      "text under the other side's name, or chat's",
      [
        user([part("output_text", { annotations: [], logprobs: [] }), part("text", { y: 1 })]),
        { role: "developer", content: [part("text")] },
        assistant([part("input_text")]),
        call("1"),
        output("1", [part("text")]),
      ],
      [
        user([part("input_text"), part("input_text", { y: 1 })]),
        { role: "developer", content: [part("input_text")] },
        assistant([part("output_text")]),
        call("1"),
        output("1", [part("input_text")]),
      ],
    ],
    [
      "ids that are not the vendor's",
      [
        { ...assistant("a"), id: "item_1" },
        { ...reasoning, id: "item_2" },
        { ...call("1"), id: "call_1" },
        { ...output("1"), id: "" },
        { ...call("2"), id: `fc_${"x".repeat(70)}` },
        output("2"),
      ],
      [assistant("a"), { ...reasoning, id: undefined }, call("1"), output("1"), call("2"), output("2")],
    ],
    [
      "reasoning without a summary",
      [{ ...reasoning, summary: undefined }, assistant("a")],
      [reasoning, assistant("a")],
    ],
    [
      "an output of the other kind",
      [call("1"), { ...output("1"), type: "custom_tool_call_output" }],
      [call("1"), output("1")],
    ],
  ];
  test.each(repaired)("%s", (_what, input, expected) => {
    expect(soundInput(input)).toEqual(expected);
  });

  test("an id that is too long becomes its hash in both places", () => {
    const [first, second] = soundInput([call(long), output(long)]) as Wire[];
    expect(first?.["call_id"]).toMatch(/^call_[0-9a-f]{40}$/);
    expect(second?.["call_id"]).toBe(first?.["call_id"]);
  });
});

/** Conversations as broken clients write them: calls and results at random places, with few ids, empty turns. */
const id = fc.constantFrom("a", "b", "c.1", "x".repeat(70));
const step = fc.oneof(
  fc.record({ kind: fc.constant("user" as const), text: fc.constantFrom("", " ", "hi") }),
  fc.record({
    kind: fc.constant("assistant" as const),
    text: fc.constantFrom("", "\n", "ok"),
    ids: fc.array(id, { maxLength: 3 }),
  }),
  fc.record({ kind: fc.constant("result" as const), id, text: fc.constantFrom("", "r") }),
  fc.record({ kind: fc.constant("system" as const), text: fc.constantFrom("", "s") }),
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

function toChat(steps: readonly Step[]): unknown[] {
  return steps.map((one) => {
    if (one.kind === "result") return chatResult(one.id, one.text);
    if (one.kind !== "assistant") return { role: one.kind, content: one.text };
    return one.ids.length > 0 ? { ...chatCall(...one.ids), content: one.text } : assistant(one.text);
  });
}

function toTurns(steps: readonly Step[]): unknown[] {
  return steps.map((one) => {
    if (one.kind === "result") return user([given(one.id, { content: one.text })]);
    if (one.kind === "assistant") return assistant([...(one.text === "" ? [] : [text(one.text)]), ...one.ids.map(use)]);
    return one.kind === "user" ? user(one.text) : { role: "system", content: one.text };
  });
}

function toItems(steps: readonly Step[]): unknown[] {
  return steps.flatMap((one): unknown[] => {
    if (one.kind === "result") return [{ type: "function_call_output", call_id: one.id, output: one.text }];
    if (one.kind !== "assistant") return [{ role: one.kind, content: one.text }];
    const calls = one.ids.map((call_id) => ({ type: "function_call", call_id, name: "f", arguments: "{}" }));
    return [...(one.text === "" ? [] : [assistant(one.text)]), ...calls];
  });
}

const bodyOf = {
  chat: (steps: readonly Step[]) => ({ messages: toChat(steps) }),
  messages: (steps: readonly Step[]) => ({ messages: toTurns(steps) }),
  responses: (steps: readonly Step[]) => ({ input: toItems(steps) }),
};

/** The rules of OpenAI's chat completions: what of them a body breaks. */
function chatFault(body: Wire): string | undefined {
  let waiting: string[] = [];
  for (const message of body["messages"] as Wire[]) {
    if (message["role"] === "tool") {
      const at = waiting.indexOf(message["tool_call_id"] as string);
      if (at < 0) return "a result without a call";
      waiting.splice(at, 1);
      continue;
    }
    if (waiting.length > 0) return "a call without a result";
    const calls = (message["tool_calls"] ?? []) as { id: string }[];
    waiting = calls.map((call) => call.id);
    if (new Set(waiting).size < waiting.length) return "two calls of one id";
    if (message["role"] === "assistant" && calls.length === 0 && !message["content"]) return "an empty turn";
  }
  if ((body["messages"] as Wire[]).length === 0) return "no message";
  return waiting.length > 0 ? "a call without a result at the end" : undefined;
}

/** The rules of Anthropic's messages, with turns of one role in a row merged as it does. */
function messagesFault(body: Wire): string | undefined {
  const seen = new Set<unknown>();
  let waiting = new Set<unknown>();
  const merged: { role: unknown; blocks: Wire[] }[] = [];
  for (const { role, content } of body["messages"] as Wire[]) {
    if (role === "system") continue;
    const blocks = typeof content === "string" ? [text(content)] : (content as Wire[]);
    const last = merged.at(-1);
    if (last && last.role === role) last.blocks.push(...blocks);
    else merged.push({ role, blocks: [...blocks] });
  }
  for (const [at, { role, blocks }] of merged.entries()) {
    if (blocks.length === 0) return "an empty turn";
    if (blocks.some((block) => block["type"] === "text" && String(block["text"]).trim() === "")) return "empty text";
    const firstOther = blocks.findIndex((block) => block["type"] !== "tool_result");
    for (const [place, block] of blocks.entries()) {
      if (block["type"] !== "tool_result") continue;
      if (firstOther >= 0 && place > firstOther) return "a result behind other blocks";
      if (!waiting.delete(block["tool_use_id"])) return "a result without a call";
    }
    if (waiting.size > 0) return "a call without a result";
    if (role !== "assistant") continue;
    for (const block of blocks.filter((one) => one["type"] === "tool_use")) {
      if (seen.has(block["id"]) || !/^[a-zA-Z0-9_-]+$/.test(String(block["id"])))
        return "an id twice, or of strange letters";
      seen.add(block["id"]);
      waiting.add(block["id"]);
    }
    if (at === merged.length - 1 && waiting.size > 0) return "a call at the end";
    waiting = new Set(waiting);
  }
  return merged.length === 0 ? "no message" : undefined;
}

function responsesFault(body: Wire): string | undefined {
  const waiting = new Set<unknown>();
  const seen = new Set<unknown>();
  const input = body["input"] as Wire[];
  if (input.length === 0) return "no input";
  for (const item of input) {
    const callId = item["call_id"];
    if (item["type"] === "function_call") {
      if (seen.has(callId) || String(callId).length > 64) return "an id twice, or too long";
      seen.add(callId);
      waiting.add(callId);
    } else if (item["type"] === "function_call_output" && !waiting.delete(callId)) return "an output without a call";
  }
  return waiting.size > 0 ? "a call without an output" : undefined;
}

/** The rules of generateContent: as many responses as calls, in the very next content, no content empty. */
function geminiFault(body: Wire): string | undefined {
  let waiting = 0;
  const contents = body["contents"] as { role: string; parts: Wire[] }[];
  if (contents.length === 0) return "no content";
  for (const [at, { role, parts }] of contents.entries()) {
    if (parts.length === 0) return "an empty content";
    if (contents[at - 1]?.role === role) return "two contents of one role";
    const answers = parts.filter((part) => part["functionResponse"]).length;
    if (answers !== waiting) return "not as many responses as calls";
    waiting = parts.filter((part) => part["functionCall"]).length;
  }
  return waiting > 0 ? "a call without a response" : undefined;
}

const FAULTS = { chat: chatFault, messages: messagesFault, responses: responsesFault, gemini: geminiFault };

describe("whatever conversation a client sends, its upstream's rules are met", () => {
  for (const from of CLIENTS) {
    for (const to of UPSTREAMS) {
      test(`${from} → ${to}`, () => {
        const steps = fc.array(step, { minLength: 1, maxLength: 10 });
        // A conversation of nothing but system text is one that OpenAI's own vendor takes as it is.
        const someoneSpeaks = (all: readonly Step[]) =>
          all.some((one) => one.kind !== "system" && one.text.trim() !== "");
        fc.assert(
          fc.property(steps.filter(someoneSpeaks), (all) => {
            const { body } = send({ from, to }, bodyOf[from](all));
            expect(FAULTS[to](body)).toBeUndefined();
          }),
        );
      });
    }
  }
});
