import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CallIds } from "../../src/dialects/chat/call-ids.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { traitsOf } from "../../src/dialects/messages/model-traits.ts";
import { toStrictSchema } from "../../src/dialects/schema/strict-schema.ts";
import { soundText } from "../../src/dialects/sound-text.ts";
import { toInput } from "../../src/dialects/tools/tool-input.ts";
import { replyText, send, type Wire } from "./crossing.ts";

const hello: Wire[] = [{ role: "user", content: "Hi" }];

describe("an assistant's turn at the end (dialects.md 2.1, 2.9, 4.2)", () => {
  const messages = [...hello, { role: "assistant", content: "So: " }];
  const last = (body: Wire) => (body["messages"] as Wire[]).at(-1);

  test.each([
    ["claude-opus-5", false, true, true],
    ["claude-opus-5-20260101", false, true, true],
    ["anthropic.claude-opus-5-5-v1:0", false, false, true],
    ["claude-opus-5-5", false, false, true],
    ["claude-haiku-5-5", false, true, true],
    ["claude-sonnet-5-5", false, false, true],
    ["claude-sonnet-5", false, true, true],
    ["claude-opus-4-8", false, true, true],
    ["claude-opus-4-7", false, true, false],
    ["claude-opus-4.6", false, true, false],
    ["us.anthropic.claude-sonnet-4-6-20260217-v1:0", false, true, false],
    ["claude-opus-4-5-20251101", true, true, false],
    ["claude-sonnet-4-5", true, true, false],
    ["claude-opus-4-20250514", true, true, false],
    ["claude-sonnet-4@20250514", true, true, false],
    ["claude-3-7-sonnet-20250219", true, true, false],
    ["claude-3-5-haiku-latest", true, true, false],
    ["claude-fable-5", false, false, true],
    ["claude-fable-5-20261001", false, false, true],
    ["claude-fable-5-1", false, false, true],
    ["claude-fable-5-2", false, false, true],
    ["claude-mythos-5", false, false, true],
    ["claude-mythos-5-1", false, false, true],
    ["claude-mythos-preview", false, true, false],
    ["some-other", true, true, false],
  ])("%s: prefill %p, forced choice %p, later system turns %p", (model, prefill, forcedChoice, laterSystem) => {
    expect(traitsOf(model)).toEqual({ claude: model !== "some-other", prefill, forcedChoice, laterSystem });
  });

  test("is continued where the model can, without white space at its end", () => {
    const { body } = send({ from: "chat", to: "messages", orders: { upstreamModel: "claude-opus-4-5" } }, { messages });
    expect(last(body)).toEqual({ role: "assistant", content: [{ type: "text", text: "So:" }] });
  });

  test("is answered to where the model refuses to continue one", () => {
    const { body } = send({ from: "chat", to: "messages", orders: { upstreamModel: "claude-opus-5" } }, { messages });
    expect(last(body)).toMatchObject({ role: "user", content: [{ type: "text", text: "(continue)" }] });
  });

  test("is marked as the chat vendor wants it", () => {
    const way = (quirks: Quirks) => ({ from: "messages", to: "chat", quirks }) as const;
    expect(send(way({ prefill: "prefix" }), { messages }).body["messages"]).toEqual([
      ...hello,
      { role: "assistant", content: "So: ", prefix: true },
    ]);
    expect(send(way({ prefill: "continue" }), { messages }).body).toMatchObject({
      continue_final_message: true,
      add_generation_prompt: false,
    });
    const plain = send(way({}), { messages }).body;
    expect(last(plain)).toEqual({ role: "assistant", content: "So: " });
    expect(plain).not.toContainKey("continue_final_message");
    expect(JSON.stringify(send(way({ prefill: "prefix" }), { messages: hello }).body)).not.toContain("prefix");
  });

  test("a client's own mark is no loss at the end, and one in the middle", () => {
    const marked = { role: "assistant", content: "So", prefix: true };
    expect(send({ from: "chat", to: "messages" }, { messages: [...hello, marked] }).dropped).toEqual([]);
    expect(send({ from: "chat", to: "messages" }, { messages: [...hello, marked, ...hello] }).dropped).toEqual([
      "messages[1].prefix",
    ]);
  });
});

describe("system turns inside a conversation (dialects.md 2.1, 4.1)", () => {
  const marked = { type: "text", text: "B", cache_control: { type: "ephemeral" } };
  const messages = [
    { role: "user", content: "1" },
    { role: "system", content: "A" },
    { role: "assistant", content: "2" },
    { role: "user", content: "3" },
    { role: "system", content: [marked] },
  ];
  const spoken = messages.filter(({ role }) => role !== "system");
  const ask = (upstreamModel: string, more: Wire) =>
    send({ from: "messages", to: "messages", orders: { upstreamModel } }, { messages, ...more });

  test.each(["claude-haiku-4-5", "claude-opus-4-7"])("%s gets them in the system prompt", (model) => {
    const a = { type: "text", text: "A" };
    const s = { type: "text", text: "S" };
    for (const [own, wanted] of [
      [{}, [a, marked]],
      [{ system: "" }, [a, marked]],
      [{ system: "S" }, [s, a, marked]],
      [{ system: [s] }, [s, a, marked]],
    ] as const) {
      const { body, dropped } = ask(model, own);
      expect([body["messages"], body["system"], dropped]).toEqual([spoken, wanted, []]);
    }
  });

  test("models of others get in their place, as the user's text, those behind the first answer: what is cached stays as it was", () => {
    const reminder = (text: string) => ({ type: "text", text: `<system-reminder>\n${text}\n</system-reminder>` });
    const [first, , answer, asked] = messages;
    const told = [
      first,
      answer,
      {
        ...asked,
        content: [
          { type: "text", text: "3" },
          { ...marked, ...reminder("B") },
        ],
      },
    ];
    const { body, dropped } = ask("qwen3.8-max", { system: "S" });
    const system = [
      { type: "text", text: "S" },
      { type: "text", text: "A" },
    ];
    expect([body["messages"], body["system"], dropped]).toEqual([told, system, []]);
    const use = (id: string) => ({ role: "assistant", content: [{ type: "tool_use", id, name: "f", input: {} }] });
    const results = (id: string) => [{ type: "tool_result", tool_use_id: id, content: "R" }];
    const hook = { role: "system", content: "<system-reminder>H</system-reminder>" };
    const [called, calledAgain] = [use("c"), use("d")];
    const loop = [called, hook, { role: "user", content: results("c") }, calledAgain];
    const last = [{ role: "user", content: results("d") }, answer, hook];
    const next = ask("qwen3.8-max", { system: "S", messages: [...messages, ...loop, ...last] }).body;
    const said = { type: "text", text: "<system-reminder>H</system-reminder>" };
    expect([next["messages"], next["system"]]).toEqual([
      [
        ...[...told, called, { role: "user", content: [...results("c"), said] }, calledAgain],
        ...[last[0], answer, { role: "user", content: [said] }],
      ],
      system,
    ]);
  });

  test.each([undefined, "", "S"])("the system prompt stays as it is where nothing is said in it: %p", (system) => {
    const own = {
      ...(system !== undefined && { system }),
      messages: [{ role: "user", content: "1" }, ...messages.slice(2)],
    };
    const { body } = ask("qwen3.8-max", own);
    expect([body["system"], JSON.stringify(body["messages"]).includes("B")]).toEqual([system || undefined, true]);
  });

  test("the models that know them get them where they stand", () => {
    for (const model of ["claude-opus-4-8", "claude-haiku-5-5"]) {
      const { body } = ask(model, { system: "S" });
      expect([body["messages"], body["system"]]).toEqual([messages, "S"]);
    }
  });

  test("beside a tool choice that is said in words, and with nothing else said", () => {
    const tools = [{ name: "f", input_schema: { type: "object", properties: {} } }];
    const more = {
      tools,
      tool_choice: { type: "any" },
      thinking: { type: "enabled", budget_tokens: 2000 },
      max_tokens: 4000,
    };
    const orders = {
      upstreamModel: "claude-sonnet-4-5",
      reasoning: { kind: "budget", form: "budget", tokens: 2000 },
    } as const;
    const { body } = send({ from: "messages", to: "messages", orders }, { messages: messages.slice(0, 2), ...more });
    expect(body["system"]).toEqual([
      { type: "text", text: "A" },
      { type: "text", text: "Answer this time by calling one of the tools." },
    ]);
    const alone = send(
      { from: "messages", to: "messages", orders: { upstreamModel: "claude-haiku-4-5" } },
      { messages: [{ role: "system", content: "A" }] },
    );
    expect(alone.body["system"]).toEqual([{ type: "text", text: "A" }]);
    expect(alone.body["messages"]).toMatchObject([{ role: "user" }]);
  });
});

describe("system turns of other dialects, for models that know them", () => {
  const CALL = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
  const SAID: Record<string, Wire> = {
    s: { role: "system", content: "S" },
    d: { role: "developer", content: "D" },
    u: { role: "user", content: "U" },
    a: { role: "assistant", content: "A" },
    c: { role: "assistant", content: null, tool_calls: [CALL] },
    r: { role: "tool", tool_call_id: "c1", content: "R" },
  };
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
  const ask = (letters: string, upstreamModel: string, quirks: Quirks = {}): Wire => {
    const said = [...letters].map((letter) => SAID[letter]);
    return send({ from: "chat", to: "messages", orders: { upstreamModel }, quirks }, { messages: said, tools }).body;
  };
  const WORD: Record<string, string> = { tool_use: "c", tool_result: "r" };
  /** The turns of a body, each by its side and what it holds. */
  const turnsOf = ({ messages }: Wire): string =>
    (messages as { role: string; content: Wire[] }[])
      .map(({ role, content }) => `${role[0]}:${content.map(({ type, text }) => text ?? WORD[String(type)]).join("")}`)
      .join(" ");

  // They stand behind the user, and before the assistant or at the end; two are one.
  test.each([
    ["suaus", "u:U a:A u:U s:S"],
    ["uasu", "u:U a:A u:U s:S"],
    ["uasduds", "u:U a:A u:U s:SDDS"],
    ["usaua", "u:U s:S a:A u:U a:A u:(continue)"],
    ["ucsru", "u:U a:c u:rU s:S"],
    ["ucrsa", "u:U a:c u:r s:S a:A u:(continue)"],
    ["uas", "u:U a:A u:(continue) s:S"],
    ["uasau", "u:U a:A u:(continue) s:S a:A u:U"],
    ["ucs", "u:U a:c u:r s:S"],
    ["s", "u:(empty)"],
  ])("%s → %s", (letters, turns) => {
    const body = ask(letters, "claude-opus-5-5");
    expect([turnsOf(body), JSON.stringify(body["system"])?.includes("S") ?? false]).toEqual([
      turns,
      letters[0] === "s",
    ]);
  });

  test("older models and Amazon's door get them in the system prompt", () => {
    for (const body of [
      ask("uasdu", "claude-opus-4-7"),
      ask("uasdu", "anthropic.claude-opus-5-5", { versionInBody: "bedrock-2023-05-31" }),
    ]) {
      expect([turnsOf(body), (body["system"] as Wire[]).map(({ text }) => text)]).toEqual(["u:U a:A u:U", ["S", "D"]]);
    }
  });

  test("what was sent before stays as it was: the vendor's cache and its proofs of reasoning hold for that", () => {
    const unmarked = (body: Wire) =>
      JSON.parse(JSON.stringify(body, (key, value: unknown) => (key === "cache_control" ? undefined : value))) as Wire;
    const answers = fc.array(fc.tuple(fc.stringMatching(/^[su]{0,3}$/), fc.constantFrom("a", "csr", "cr")), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(answers, (steps) => {
        let said = "u";
        let before: Wire[] = [];
        for (const [words, answer] of steps) {
          const { messages, system } = unmarked(ask(`${said}${words}`, "claude-opus-5-5"));
          expect([(messages as Wire[]).slice(0, before.length), system]).toEqual([before, undefined]);
          before = messages as Wire[];
          said += `${words}${answer}`;
          // After its answer the user or a tool speaks next.
          if (answer === "a") said += "u";
        }
      }),
    );
  });
});

test("a tool's property whose name this dialect's vendor refuses is left out and named, and the tool stays", () => {
  const text = { type: "string" };
  const parameters = {
    type: "object",
    properties: { $filter: text, id: text, "@odata.id": text, deep: { type: "object", properties: { $top: text } } },
    required: ["id", "@odata.id"],
  };
  const schema = {
    type: "object",
    properties: { id: text, deep: parameters.properties.deep },
    required: ["id"],
  };
  const called = { name: "f", parameters };
  const chat = send(
    { from: "chat", to: "messages" },
    { messages: hello, tools: [{ type: "function", function: called }] },
  );
  const responses = send(
    { from: "responses", to: "messages" },
    { input: "Hi", tools: [{ type: "function", ...called }] },
  );
  for (const [{ body, dropped }, at] of [
    [chat, "tools[0].function"],
    [responses, "tools[0]"],
  ] as const) {
    expect((body["tools"] as Wire[])[0]).toMatchObject({ name: "f", input_schema: schema });
    expect(dropped).toEqual([`${at}.parameters.properties.$filter`, `${at}.parameters.properties.@odata.id`]);
  }
  const elsewhere = send({ from: "responses", to: "chat" }, { input: "Hi", tools: [{ type: "function", ...called }] });
  expect(elsewhere.dropped).toEqual([]);
});

describe("a tool choice that may not be forced (dialects.md 2.9, 4.8 #50)", () => {
  const tools = [{ name: "f", input_schema: { type: "object", properties: {} } }];
  const ask = (upstreamModel: string, choice: Wire, more: Wire = {}) =>
    send(
      { from: "messages", to: "messages", orders: { upstreamModel } },
      { messages: hello, tools, tool_choice: choice, ...more },
    ).body;

  test("becomes auto and a word in the system prompt", () => {
    const choice = { type: "tool", name: "f", disable_parallel_tool_use: true };
    expect(ask("claude-sonnet-5-5", choice)).toMatchObject({
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      system: "Answer this time by calling the tool f.",
    });
    expect(ask("claude-sonnet-5-5", { type: "any" }, { system: "S" })["system"]).toBe(
      "S\nAnswer this time by calling one of the tools.",
    );
    expect(ask("claude-sonnet-5-5", { type: "any" }, { system: [{ type: "text", text: "S" }] })["system"]).toEqual([
      { type: "text", text: "S" },
      { type: "text", text: "Answer this time by calling one of the tools." },
    ]);
  });

  test("stays where the model takes it, and where nothing was forced", () => {
    expect(ask("claude-sonnet-5", { type: "any" })["tool_choice"]).toEqual({ type: "any" });
    expect(ask("claude-sonnet-5-5", { type: "auto" })).not.toContainKey("system");
  });
});

describe("betas in a header, for a vendor that reads bodies alone (Bedrock)", () => {
  const headers = new Headers({ "anthropic-beta": "a-1, b-2,,a-1" });
  const bedrock = { from: "messages", to: "messages", quirks: { versionInBody: "v" }, headers } as const;

  test("stand in the body, each once, behind the client's own", () => {
    expect(send(bedrock, { messages: hello }).body["anthropic_beta"]).toEqual(["a-1", "b-2"]);
    expect(send(bedrock, { messages: hello, anthropic_beta: ["b-2", "c"] }).body["anthropic_beta"]).toEqual([
      "b-2",
      "c",
      "a-1",
    ]);
    const twice = send(bedrock, { messages: hello, anthropic_beta: ["c", "c", "c"] });
    expect(twice.body["anthropic_beta"]).toEqual(["c", "a-1", "b-2"]);
  });

  test("not for others, and not without any", () => {
    expect(send({ ...bedrock, quirks: {} }, { messages: hello }).body).not.toContainKey("anthropic_beta");
    expect(send({ ...bedrock, headers: new Headers() }, { messages: hello }).body).not.toContainKey("anthropic_beta");
    const across = { from: "chat", to: "messages", quirks: { versionInBody: "v" }, headers } as const;
    expect(send(across, { messages: hello }).body).not.toContainKey("anthropic_beta");
  });
});

describe("lone surrogates (dialects.md 4.8 #44)", () => {
  test("are replaced as toWellFormed does, whatever stands around them; all else keeps its bytes", () => {
    const unit = fc.constantFrom("\ud83d", "\ude00", "😀", "\\", '"', "u", "d83d", "a", "\u0000", "é");
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 12 }), fc.boolean(), (units, ascii) => {
        const value = units.join("");
        const plain = JSON.stringify({ value });
        const json = ascii
          ? plain.replace(/[\u0080-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)
          : plain;
        const sound = soundText(json);
        expect((JSON.parse(sound) as Wire)["value"]).toBe(value.toWellFormed());
        if (value.isWellFormed()) expect(sound).toBe(json);
      }),
    );
  });

  test("a half behind the mere letters of the other one is alone", () => {
    expect(JSON.parse(soundText(JSON.stringify("\\ud83d\ude00")))).toBe("\\ud83d\ufffd");
  });

  test("on the diagonal, in names and keys alike", () => {
    const body = { messages: [{ role: "user", content: "a\ud83d", name: "b\udc00" }], "k\ud800": 1 };
    const sent = JSON.stringify(send({ from: "chat", to: "chat" }, body).body);
    expect(sent).not.toMatch(/\\ud[89a-f]/);
    expect(sent).toContain('"a\ufffd"');
    expect(sent).toContain('"b\ufffd"');
    expect(sent).toContain('"k\ufffd":1');
  });
});

describe("arguments of a call", () => {
  test("numbers keep their digits where an object is demanded (dialects.md 4.8 #43)", () => {
    const text = '{"id":12345678901234567890,"list":[0.10000000000000000555,1e400],"small":1}';
    expect(JSON.stringify(toInput(text))).toBe(text);
    expect(toInput("12345678901234567890")).toEqual({ value: 12345678901234567000 });
    const messages = [
      ...hello,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: text } }],
      },
      { role: "tool", tool_call_id: "c", content: "ok" },
    ];
    for (const to of ["messages", "gemini"] as const) {
      expect(send({ from: "chat", to }, { messages }).text).toContain(text);
    }
    const answer = {
      id: "1",
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: { role: "assistant", tool_calls: [{ id: "c", function: { name: "f", arguments: text } }] },
        },
      ],
    };
    expect(replyText({ from: "messages", to: "chat" }, answer)).toContain(`"input":${text}`);
  });

  test("nested deeper than a body can be, they stay the text that they came as", () => {
    const deep = (levels: number) => `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    expect(toInput(deep(127))).toEqual(JSON.parse(deep(127)));
    for (const levels of [128, 20_000, 500_000]) expect(toInput(deep(levels))).toEqual({ value: deep(levels) });
  });

  test("ids: over-long and missing ones become hashes, two alike in one turn become two (dialects.md 4.3)", () => {
    const ids = new CallIds({});
    expect([ids.take("call_1"), ids.take("call_1"), ids.take("toolu_a.b:0")]).toEqual([
      "call_1",
      "call_1_2",
      "toolu_a.b:0",
    ]);
    const long = "x".repeat(41);
    expect(new CallIds({}).take(long)).toMatch(/^call_[0-9A-Za-z]{20}$/);
    expect(new CallIds({}).take(long)).toBe(new CallIds({}).take(long));
    // A vendor of its own kind may read its long ids.
    const kimi = `functions.${"x".repeat(60)}:0`;
    expect(new CallIds({ customTools: false }).take(kimi)).toBe(kimi);
    expect(new CallIds({}).take("")).toMatch(/^call_[0-9A-Za-z]{20}$/);
    const nine = new CallIds({ nineCharacterToolIds: true });
    const given = Array.from({ length: 500 }, (_, at) => nine.take(`toolu_${at % 250}`));
    expect(new Set(given).size).toBe(500);
    for (const id of given) expect(id).toMatch(/^[0-9A-Za-z]{9}$/);
  });
});

describe("a tool's schema for OpenAI (dialects.md 4.8 #32)", () => {
  const told = (from: "chat" | "messages" | "responses", to: "chat" | "responses", schema: Wire) => {
    const called = { name: "f", parameters: schema };
    const tool = {
      chat: { type: "function", function: called },
      messages: { name: "f", input_schema: schema },
      responses: { type: "function", ...called },
    }[from];
    const { body } = send({ from, to }, { [from === "responses" ? "input" : "messages"]: hello, tools: [tool] });
    const [sent] = body["tools"] as Wire[];
    return ((sent?.["function"] ?? sent) as Wire)["parameters"];
  };

  function expectAcross(schema: Wire, expected: Wire): void {
    for (const [from, to] of [
      ["messages", "chat"],
      ["messages", "responses"],
      ["chat", "responses"],
      ["responses", "chat"],
    ] as const) {
      expect([from, to, told(from, to, schema)]).toEqual([from, to, expected]);
    }
  }

  // "In context=(), object schema missing properties": MCP lets a tool without arguments say no more than its type.
  test.each([
    [{ type: "object" }, { type: "object", properties: {} }],
    [{}, { type: "object", properties: {} }],
    [
      { type: "object", additionalProperties: false },
      { type: "object", additionalProperties: false, properties: {} },
    ],
    [{ properties: { a: { type: "object" } } }, { type: "object", properties: { a: { type: "object" } } }],
  ] as [Wire, Wire][])("%j names its properties, be there none", expectAcross);

  const a = { a: { type: "string" } };
  const b = { b: { type: "string" } };
  // "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level"
  test.each([
    [
      { anyOf: [{ type: "object", properties: a, required: ["a"] }, { properties: b }] },
      { type: "object", properties: { ...a, ...b } },
    ],
    [
      { type: "object", properties: a, required: ["a"], oneOf: [{ required: ["b"] }, { properties: b }] },
      { type: "object", properties: { ...a, ...b }, required: ["a"] },
    ],
    [
      { allOf: [{ $ref: "#/$defs/x" }, { properties: b }], $defs: { x: { properties: a, required: ["a"] } } },
      { type: "object", properties: { ...a, ...b }, required: ["a"], $defs: { x: { properties: a, required: ["a"] } } },
    ],
    [
      { type: "object", properties: a, anyOf: [], not: { required: ["a"] }, enum: [{}], const: {} },
      { type: "object", properties: a },
    ],
    [
      { type: ["object", "null"], properties: a },
      { type: "object", properties: a },
    ],
    [
      { $ref: "#/definitions/X", definitions: { X: { type: "object", properties: a, required: ["a"] } }, title: "t" },
      {
        type: "object",
        properties: a,
        required: ["a"],
        definitions: { X: { type: "object", properties: a, required: ["a"] } },
        title: "t",
      },
    ],
    [
      { $ref: "#", properties: a },
      { type: "object", properties: a },
    ],
  ] as [Wire, Wire][])("%j is an object and no choice at its root", expectAcross);

  test("is told to its client's own vendor as the client wrote it", () => {
    const tools = [{ type: "function", function: { name: "f", parameters: { anyOf: [{ properties: a }] } } }];
    expect(send({ from: "chat", to: "chat" }, { messages: hello, tools }).body["tools"]).toEqual(tools);
  });
});

describe("an array that does not say what it holds (OpenAI: array schema missing items)", () => {
  const bare = { type: "array", description: "names" };
  const whole = { ...bare, items: {} };
  const sound = { type: "array", items: { type: "string" }, default: [{ type: "array" }] };

  test.each([
    [
      { a: bare, b: sound },
      { a: whole, b: sound },
    ],
    [{ a: { type: "array", items: { type: "array" } } }, { a: { type: "array", items: { type: "array", items: {} } } }],
    [{ a: { anyOf: [bare, { type: "null" }] } }, { a: { anyOf: [whole, { type: "null" }] } }],
    [
      { a: { type: ["array", "null"], prefixItems: [bare] } },
      { a: { type: ["array", "null"], prefixItems: [whole], items: {} } },
    ],
    [{ a: { type: "object", additionalProperties: bare } }, { a: { type: "object", additionalProperties: whole } }],
    // Words that only look like a schema.
    [
      { a: { enum: [bare] }, type: { const: bare } },
      { a: { enum: [bare] }, type: { const: bare } },
    ],
  ] as [Wire, Wire][])("%j holds anything", (properties, expected) => {
    const schema = (of: Wire) => ({ type: "object", properties: of, $defs: { a: of["a"] } });
    const asked = { messages: hello, tools: [{ name: "f", input_schema: schema(properties) }] };
    const format = { format: { type: "json_schema", schema: schema(properties) } };
    for (const to of ["chat", "responses"] as const) {
      const { body, dropped } = send({ from: "messages", to }, { ...asked, output_config: format });
      const told = JSON.stringify([body["tools"], body["response_format"] ?? body["text"]]);
      expect(told.split(JSON.stringify(schema(expected))).length).toBe(3);
      expect(dropped).toEqual([]);
    }
  });

  test("cannot be held to strictly", () => {
    const schema = { type: "object", properties: { a: bare }, required: ["a"], additionalProperties: false };
    const tools = [{ type: "function", function: { name: "f", parameters: schema, strict: true } }];
    const { body, dropped } = send({ from: "chat", to: "responses" }, { messages: hello, tools });
    const parameters = { ...schema, properties: { a: whole } };
    expect(body["tools"]).toEqual([{ type: "function", name: "f", parameters, strict: false }]);
    expect(dropped).toEqual(["tools[0].function.strict"]);
  });

  test("is told to its client's own vendor as the client wrote it", () => {
    const parameters = { type: "object", properties: { a: bare } };
    const tools = [{ type: "function", function: { name: "f", parameters } }];
    expect(send({ from: "chat", to: "chat" }, { messages: hello, tools }).body["tools"]).toEqual(tools);
  });
});

describe("a strict schema for OpenAI (dialects.md 4.8 #32)", () => {
  const closed = (properties: Wire) => ({
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  });
  test.each([
    [
      { type: "object", properties: {} },
      { type: "object", properties: {}, additionalProperties: false },
    ],
    [
      { type: "object", properties: { a: { type: "integer", default: 1 } }, required: ["a"] },
      closed({ a: { type: "integer" } }),
    ],
    [
      { ...closed({ a: { $ref: "#/$defs/x" } }), $defs: { x: { type: "object", properties: {} } } },
      {
        ...closed({ a: { $ref: "#/$defs/x" } }),
        $defs: { x: { type: "object", properties: {}, additionalProperties: false } },
      },
    ],
    [closed({ a: { anyOf: [closed({})] } }), closed({ a: { anyOf: [closed({})] } })],
    // "schema must have a 'type' key"
    [
      closed({ a: { const: "b" }, b: { enum: ["c", null] }, c: { properties: {} } }),
      closed({
        a: { const: "b", type: "string" },
        b: { enum: ["c", null], type: ["string", "null"] },
        c: { type: "object", properties: {}, additionalProperties: false },
      }),
    ],
    // "$ref cannot have keywords {'description'}"
    [
      { ...closed({ a: { $ref: "#/$defs/x", description: "A", default: "b" } }), $defs: { x: { type: "string" } } },
      { ...closed({ a: { anyOf: [{ $ref: "#/$defs/x" }], description: "A" } }), $defs: { x: { type: "string" } } },
    ],
    // A property may be called like a keyword.
    [
      closed({ default: { type: "string" }, oneOf: { type: "string" } }),
      closed({ default: { type: "string" }, oneOf: { type: "string" } }),
    ],
  ] as [Wire, Wire][])("%j is closed", (schema, expected) => {
    expect(toStrictSchema(schema)).toEqual(expected);
  });

  test.each([
    [{ type: "object", properties: { a: {} } }],
    [{ type: "object", additionalProperties: true }],
    [{ type: "object", additionalProperties: { type: "string" } }],
    [closed({ a: { oneOf: [{ type: "string" }] } })],
    [closed({ a: { type: "array", items: { type: "object", properties: { b: {} } } } })],
    [closed({ a: { anyOf: [{ type: "object", properties: { b: {} } }] } })],
    [closed({ a: true })],
    [closed({ a: {} })],
    [closed({ a: { description: "Anything" } })],
    [closed({ a: { anyOf: [{}, { type: "null" }] } })],
    [closed({ a: { $ref: "#/$defs/x", minItems: 1 } })],
    [closed({ a: { type: "array", items: { type: "string" }, uniqueItems: true } })],
    [closed({ a: { type: "string", minLength: 1 } })],
    [{ ...closed({ a: { type: "string" } }), propertyNames: { type: "string" } }],
    [closed({ a: { allOf: [{ type: "string" }] } })],
    [{ ...closed({}), dependentSchemas: {} }],
    [{ type: "object", anyOf: [closed({})] }],
  ] as [Wire][])("%j cannot be", (schema) => {
    expect(toStrictSchema(schema)).toBeUndefined();
  });

  test("a tool that cannot be is sent as it is, and so named", () => {
    const input_schema = closed({ a: { allOf: [{ type: "string" }] } });
    const { body, dropped } = send(
      { from: "messages", to: "chat", quirks: { customTools: true } },
      {
        messages: [{ role: "user", content: "Hi" }],
        max_tokens: 9,
        tools: [{ name: "f", strict: true, input_schema }],
      },
    );
    const called = { name: "f", parameters: input_schema };
    expect([body["tools"], dropped]).toEqual([[{ type: "function", function: called }], ["tools[0].strict"]]);
  });
});

test.each([0, -1])(
  "top_k %j, by which clients of local servers ask for nothing, is said to no other vendor and is no loss",
  (top_k) => {
    const body = { messages: [{ role: "user", content: "Hi" }], top_k };
    const of = ({ body: { top_k: told, generationConfig }, dropped }: ReturnType<typeof send>) => [
      told,
      generationConfig,
      dropped,
    ];
    for (const to of ["messages", "responses", "gemini"] as const) {
      expect([to, ...of(send({ from: "chat", to }, body))]).toEqual([to, undefined, undefined, []]);
    }
    expect(of(send({ from: "chat", to: "chat", quirks: { unknownFields: ["top_k"] } }, body))).toEqual([
      undefined,
      undefined,
      [],
    ]);
    expect(send({ from: "chat", to: "chat" }, body).body["top_k"]).toBe(top_k);
    expect(send({ from: "messages", to: "messages" }, body).body["top_k"]).toBe(top_k);
    expect(of(send({ from: "messages", to: "gemini" }, body))).toEqual([undefined, { maxOutputTokens: 64 }, []]);
  },
);
