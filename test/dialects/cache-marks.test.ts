import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Orders } from "../../src/canon/intent.ts";
import { markMessagesBody } from "../../src/dialects/cache-marks.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";
import { registry } from "../../src/vendors/registry.ts";
import { translateWhole } from "../support/translate.ts";

type Wire = Record<string, unknown>;

const MARK = { type: "ephemeral" };
const orders = (upstreamModel: string): Orders => ({
  upstreamModel,
  stream: false,
  reasoning: { kind: "nothing" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
});

function send(body: Wire, from: "chat" | "messages" | "responses", to: "chat" | "messages", quirks = {}, model = "m") {
  const json: ObjectText = new JsonText(JSON.stringify(body));
  return JSON.parse(
    translateWhole(json, dialects[from], upstreamDialects[to], { orders: orders(model), quirks }).text,
  ) as Wire;
}

/** Paths of all cache marks in a value. */
function marksIn(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((one, at) => marksIn(one, `${path}[${at}]`));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === "cache_control" ? [path] : marksIn(inner, path === "" ? key : `${path}.${key}`),
  );
}

const call = (id: string) => ({ id, type: "function", function: { name: "run", arguments: "{}" } });
const tools = ["look", "run"].map((name) => ({ type: "function", function: { name, parameters: { type: "object" } } }));
/** An agent of the chat dialect in its second step. */
const agent = {
  model: "m",
  messages: [
    { role: "system", content: "You are an agent." },
    { role: "user", content: "Do it." },
    { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
    { role: "tool", tool_call_id: "a", content: "one" },
    { role: "tool", tool_call_id: "b", content: "two" },
  ],
  tools,
};

describe("a messages vendor and a client of another dialect", () => {
  test("the ends of tools, system and the last two turns are marked", () => {
    const sent = send(agent, "chat", "messages");
    expect(marksIn(sent)).toEqual(["system[0]", "tools[1]", "messages[0].content[0]", "messages[2].content[1]"]);
    expect(sent["system"]).toEqual([{ type: "text", text: "You are an agent.", cache_control: MARK }]);
  });

  test("a responses client's too", () => {
    const input = [
      { role: "user", content: "Do it." },
      { type: "function_call", call_id: "a", name: "run", arguments: "{}" },
      { type: "function_call_output", call_id: "a", output: "one" },
    ];
    const sent = send({ model: "m", instructions: "You are an agent.", input }, "responses", "messages");
    expect(marksIn(sent)).toContain("system[0]");
    expect(marksIn(sent)).toContain("messages[2].content[0]");
  });

  test("a first question without tools stays unmarked, to the byte of its system text", () => {
    const messages = agent.messages.slice(0, 2);
    const sent = send({ model: "m", messages }, "chat", "messages");
    expect(marksIn(sent)).toEqual([]);
    expect(sent["system"]).toBe("You are an agent.");
  });

  test("nothing is added for a vendor whose row forbids it", () => {
    expect(marksIn(send(agent, "chat", "messages", { noAddedCacheMarks: true }))).toEqual([]);
  });

  test.each([
    ["anthropic.claude-sonnet-4-20250514-v1:0", true],
    ["us.anthropic.claude-opus-4-5-20251101-v1:0", true],
    ["global.anthropic.claude-haiku-5-5", true],
    ["anthropic.claude-3-7-sonnet-20250219-v1:0", true],
    ["anthropic.claude-3-5-haiku-20241022-v1:0", true],
    ["anthropic.claude-3-5-sonnet-20240620-v1:0", false],
    ["anthropic.claude-3-haiku-20240307-v1:0", false],
    ["arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", false],
  ])("Bedrock's models get some where they are known to take them: %s", (model, known) => {
    const sent = send(agent, "chat", "messages", registry.find(({ id }) => id === "bedrock")?.quirks, model);
    expect(marksIn(sent).length).toBe(known ? 4 : 0);
  });

  test("the client's own marks stay where they are, and groups that have one get no other", () => {
    const system = [
      { type: "text", text: "Always.", cache_control: { type: "ephemeral", ttl: "1h" } },
      { type: "text", text: "Today." },
    ];
    const sent = send(
      { ...agent, messages: [{ role: "system", content: system }, ...agent.messages.slice(1)] },
      "chat",
      "messages",
    );
    expect((sent["system"] as Wire[])[0]?.["cache_control"]).toEqual({ type: "ephemeral", ttl: "1h" });
    expect(marksIn(sent)).toEqual(["system[0]", "tools[1]", "messages[0].content[0]", "messages[2].content[1]"]);
  });

  test("a mark inside a tool's result is the result's own, and the result is written as it is without one", () => {
    const hour = { type: "ephemeral", ttl: "1h" };
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,aW1n" } };
    const contents: [Wire, unknown][] = [
      [{ content: "two", cache_control: MARK }, "two"],
      [{ content: [{ type: "text", text: "two", cache_control: hour }] }, "two"],
      [
        { content: [{ type: "text", text: "two", cache_control: MARK }, image] },
        [
          { type: "text", text: "two" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "aW1n" } },
        ],
      ],
    ];
    for (const [result, content] of contents) {
      const messages = [...agent.messages.slice(0, -1), { role: "tool", tool_call_id: "b", ...result }];
      const sent = send({ ...agent, messages }, "chat", "messages")["messages"] as { content: Wire[] }[];
      const mark = JSON.stringify(result).includes("1h") ? hour : MARK;
      const block = { type: "tool_result", tool_use_id: "b", content, cache_control: mark };
      expect(sent[2]?.content[1]).toEqual(block);
    }
  });

  test("nothing that is kept for less stands before what the client keeps for an hour: Anthropic refuses that", () => {
    const hour = { type: "ephemeral", ttl: "1h" };
    const markAt = (list: unknown, at: number) => (list as Wire[])[at]?.["cache_control"];
    const lastPart = (message: unknown) => markAt((message as Wire)["content"], 0);
    const system = { role: "system", content: [{ type: "text", text: "Always.", cache_control: hour }] };
    const first = { role: "user", content: [{ type: "text", text: "a", cache_control: hour }] };
    const second = { role: "user", content: [{ type: "text", text: "b", cache_control: hour }] };
    const tools = { ...agent, messages: [system, ...agent.messages.slice(1)] };
    expect(markAt(send(tools, "chat", "messages")["tools"], 1)).toEqual(hour);
    const turns = [{ role: "user", content: "o" }, { role: "assistant", content: "p" }, second];
    const sent = send({ model: "m", messages: [{ role: "system", content: "S" }, ...turns] }, "chat", "messages");
    expect(markAt(sent["system"], 0)).toEqual(hour);
    expect((sent["messages"] as unknown[]).filter((_one, at) => at !== 1).map(lastPart)).toEqual([hour, hour]);
    // Behind it the usual ones may stand.
    const later = [first, { role: "assistant", content: "p" }, { role: "user", content: "q" }];
    const open = send({ model: "m", messages: later }, "chat", "messages");
    expect([0, 2].map((at) => lastPart((open["messages"] as unknown[])[at]))).toEqual([hour, MARK]);
  });

  test("of more than four of the client's the last four stay", () => {
    const marked = (text: string) => ({ type: "text", text, cache_control: MARK });
    const content = ["a", "b", "c", "d", "e", "f"].map(marked);
    const messages = [
      { role: "user", content },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "Go." },
    ];
    const sent = send({ model: "m", messages }, "chat", "messages");
    expect(marksIn(sent)).toEqual([2, 3, 4, 5].map((at) => `messages[0].content[${at}]`));
  });

  test("reasoning is never marked, a prefill neither", () => {
    const body: Wire = {
      messages: [
        { role: "user", content: [{ type: "text", text: "Hi" }] },
        { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "s" }] },
      ],
    };
    markMessagesBody(body);
    expect(marksIn(body)).toEqual(["messages[0].content[0]"]);
  });

  test("never more than four, whatever the client marked", () => {
    const block = fc.record({ text: fc.constantFrom("x", "y"), marked: fc.boolean() }).map(({ text, marked }) => ({
      type: "text",
      text,
      ...(marked && { cache_control: MARK }),
    }));
    const turn = (role: string) =>
      fc.array(block, { minLength: 1, maxLength: 5 }).map((content) => ({ role, content }));
    const body = fc.record({
      system: fc.oneof(fc.string({ minLength: 1 }), fc.array(block, { maxLength: 5 })),
      messages: fc.array(fc.oneof(turn("user"), turn("assistant")), { maxLength: 8 }),
      tools: fc.array(fc.record({ name: fc.constant("t"), cache_control: fc.constantFrom(MARK, null) }), {
        maxLength: 4,
      }),
    });
    fc.assert(
      fc.property(body, (given) => {
        const isAgent = given.tools.length > 0 || given.messages.some(({ role }) => role === "assistant");
        const before = structuredClone(given) as Wire;
        const after = structuredClone(given) as Wire;
        markMessagesBody(after);
        if (!isAgent) expect(after).toEqual(before);
        else {
          // Beside its marks the request is what it was.
          const unmarked = (value: unknown) =>
            JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner));
          expect(JSON.stringify(after).split(JSON.stringify(MARK)).length - 1).toBeLessThanOrEqual(4);
          const blocks =
            typeof before["system"] === "string"
              ? { ...before, system: [{ type: "text", text: before["system"] }] }
              : before;
          expect(unmarked(after)).toBe(unmarked(blocks));
        }
      }),
    );
  });
});

describe("on the diagonal", () => {
  test("a messages client's marks, and their absence, are its own affair", () => {
    const body = {
      model: "m",
      max_tokens: 9,
      system: "s",
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Yes" },
        { role: "user", content: "Go" },
      ],
    };
    expect(send(body, "messages", "messages")).toEqual(body);
  });

  test("of more than its vendor takes the latest stay, and beside them the request is what it was (dialects.md 2.1)", () => {
    const marked = (value: string) => ({ type: "text", text: value, cache_control: MARK });
    const result = { type: "tool_result", tool_use_id: "t", content: [marked("r")], cache_control: MARK };
    const body = {
      model: "m",
      max_tokens: 9,
      tools: [{ name: "f", input_schema: { type: "object" }, cache_control: MARK }],
      system: [marked("s")],
      messages: [
        { role: "user", content: [marked("a")] },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] },
        { role: "user", content: [result, marked("b")] },
      ],
    };
    const before = structuredClone(body);
    const sent = send(body, "messages", "messages");
    const rest = ["messages[2].content[0]", "messages[2].content[1]", "messages[2].content[0].content[0]"];
    expect(marksIn(sent).sort()).toEqual(["messages[0].content[0]", ...rest].sort());
    const unmarked = (value: unknown) =>
      JSON.stringify(value).replaceAll(`,"cache_control":${JSON.stringify(MARK)}`, "");
    expect(unmarked(sent)).toBe(unmarked(before));
    expect(body).toEqual(before);
    // The mark that stands for the whole is one of them.
    expect(marksIn(send({ ...body, cache_control: MARK }, "messages", "messages")).sort()).toEqual(
      ["", ...rest].sort(),
    );
    const { tools: _tools, system: _system, ...four } = body;
    expect(send(four, "messages", "messages")).toEqual(four);
  });
});

/** Such as cache nothing else (openrouter.ai, "Prompt Caching"). */
const MARKED = ["anthropic/claude-5", "~anthropic/claude-sonnet-latest", "qwen/qwen3.7-max"];

describe("an aggregator of the chat dialect", () => {
  const quirks = { acceptsCacheControl: true };
  const claude = {
    model: "m",
    max_tokens: 9,
    system: [
      { type: "text", text: "You are an agent.", cache_control: MARK },
      { type: "text", text: "Today." },
    ],
    messages: [
      { role: "user", content: "Do it." },
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "run", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "one", cache_control: MARK }] },
    ],
  };

  test.each(MARKED)("a model behind it gets the client's marks on system, and the last turns' ends: %s", (model) => {
    const sent = send(claude, "messages", "chat", quirks, model);
    expect(marksIn(sent)).toEqual(["messages[0].content[0]", "messages[1].content[0]", "messages[3].content[0]"]);
    expect((sent["messages"] as Wire[])[3]).toEqual({
      role: "tool",
      tool_call_id: "a",
      content: [{ type: "text", text: "one", cache_control: MARK }],
    });
  });

  test("a result's own mark, or one inside it, goes with it, for as long as its client asks", () => {
    const hour = { type: "ephemeral", ttl: "1h" };
    const results = [
      { tool_use_id: "a", content: "one", cache_control: hour },
      { tool_use_id: "a", is_error: true, content: [{ type: "text", text: "one", cache_control: hour }] },
    ];
    const contents = results.map((result) => {
      const [asked, called] = claude.messages;
      const messages = [asked, called, { role: "user", content: [{ type: "tool_result", ...result }] }];
      const system = [{ type: "text", text: "You are an agent.", cache_control: hour }];
      const sent = send({ ...claude, system, messages }, "messages", "chat", quirks, "anthropic/claude-5");
      return (sent["messages"] as Wire[])[3]?.["content"];
    });
    const one = { type: "text", text: "one", cache_control: hour };
    expect(contents).toEqual([[one], [{ ...one, text: "Error: one" }]]);
  });

  test.each(["anthropic/claude-5", "google/gemini-3.1-pro-preview"])(
    "what a mark stood on reads the same when it has moved on, so that it is found in the cache: %s",
    (model) => {
      const text = (words: string) => ({ type: "text", text: words });
      const use = (id: string) => ({ type: "tool_use", id, name: "run", input: {} });
      const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
      const turns: Wire[] = [
        { role: "user", content: [text("Reminder."), text("Do it.")] },
        { role: "assistant", content: [text("Now."), use("a"), use("b")] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "a", is_error: true, content: [text("no"), text("such file")] },
            { type: "tool_result", tool_use_id: "b", is_error: true, content: "no" },
          ],
        },
        { role: "assistant", content: [use("c")] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: [text("a page"), picture] }] },
        { role: "assistant", content: [text("Done.")] },
        { role: "user", content: [text("Reminder."), text("Go on.")] },
      ];
      const withoutMarks = (message: Wire): string => {
        const { content } = JSON.parse(JSON.stringify({ ...message, cache_control: undefined })) as Wire;
        const parts: Wire[] | null = typeof content === "string" ? [text(content)] : (content as Wire[] | null);
        return JSON.stringify({ ...message, content: parts?.map(({ cache_control: _mark, ...part }) => part) });
      };
      let before: string[] = [];
      for (let count = 1; count <= turns.length; count += 2) {
        const messages = structuredClone(turns.slice(0, count));
        (messages.at(-1)!["content"] as Wire[]).at(-1)!["cache_control"] = MARK;
        const sent = send({ ...claude, messages }, "messages", "chat", quirks, model)["messages"] as Wire[];
        const now = sent.map(withoutMarks);
        expect(now.slice(0, before.length)).toEqual(before);
        before = now;
      }
    },
  );

  test("the mark that stands for a client's whole request is its end's, for as long as it asks", () => {
    const hour = { type: "ephemeral", ttl: "1h" };
    const unmarked = JSON.parse(JSON.stringify({ ...claude, tools }), (key, value) =>
      key === "cache_control" || key === "tools" ? undefined : value,
    ) as Wire;
    for (const model of MARKED) {
      const sent = send({ ...unmarked, cache_control: hour }, "messages", "chat", quirks, model);
      expect(marksIn(sent)).toEqual(["messages[0].content[0]", "messages[1].content[0]", "messages[3].content[0]"]);
      expect(new Set(JSON.stringify(sent).match(/"cache_control":\{[^}]*\}/g))).toEqual(
        new Set([`"cache_control":${JSON.stringify(hour)}`]),
      );
    }
    expect(marksIn(send({ ...unmarked, cache_control: hour }, "messages", "chat", quirks, "openai/gpt-5"))).toEqual([]);
  });

  test("a chat client's mark for its whole request is alone towards a vendor that knows it, and that of its end to others", () => {
    const hour = { type: "ephemeral", ttl: "1h" };
    const body = { ...structuredClone(agent), cache_control: hour };
    for (const model of MARKED) {
      const sent = send(body, "chat", "chat", quirks, model);
      expect([marksIn(sent), sent["cache_control"]]).toEqual([[""], hour]);
    }
    const sent = send(body, "chat", "messages");
    expect(sent).not.toContainKey("cache_control");
    expect(new Set(JSON.stringify(sent).match(/"cache_control":\{[^}]*\}/g))).toEqual(
      new Set([`"cache_control":${JSON.stringify(hour)}`]),
    );
  });

  test("models that cache by themselves are sent plain strings", () => {
    const sent = send(claude, "messages", "chat", quirks, "openai/gpt-5");
    expect((sent["messages"] as Wire[]).slice(1).map(({ content }) => content)).toEqual(["Do it.", null, "one"]);
  });

  test.each(MARKED)(
    "a chat client that knows nothing of marks gets them, on copies of what they stand on: %s",
    (model) => {
      const body = structuredClone(agent);
      const sent = send(body, "chat", "chat", quirks, model);
      expect(marksIn(sent)).toEqual(["messages[0].content[0]", "messages[3].content[0]", "messages[4].content[0]"]);
      expect((sent["messages"] as Wire[])[2]).toEqual(agent.messages[2] as Wire);
      expect(body).toEqual(agent);
      const text = JSON.stringify(agent.messages);
      for (const [other, flags] of [
        ["openai/gpt-5", quirks],
        [model, {}],
      ] as const) {
        expect(JSON.stringify(send(agent, "chat", "chat", flags, other)["messages"])).toBe(text);
      }
    },
  );

  test("a chat client's own marks, and a first question, stay to the byte", () => {
    const marked = { role: "user", content: [{ type: "text", text: "Do it.", cache_control: MARK }] };
    for (const messages of [[agent.messages[0], marked, ...agent.messages.slice(2)], agent.messages.slice(0, 2)]) {
      const sent = send({ model: "m", messages }, "chat", "chat", quirks, "anthropic/claude-5");
      expect(sent["messages"]).toEqual(messages as Wire[]);
    }
  });

  test("vendors that take no marks see none", () => {
    expect(marksIn(send(claude, "messages", "chat", {}, "anthropic/claude-5"))).toEqual([]);
  });
});

describe("Claude Code's billing line", () => {
  const line = "x-anthropic-billing-header: cc_version=2; cch=1a2b;";
  const body = (system: unknown) => ({
    model: "m",
    max_tokens: 9,
    system,
    messages: [{ role: "user", content: "Hi" }],
  });
  const blocks = [
    { type: "text", text: line },
    { type: "text", text: "You are Claude Code.", cache_control: MARK },
  ];

  test("its own vendor gets it, to the byte", () => {
    expect(send(body(blocks), "messages", "messages", { ownBillingLine: true })).toEqual(body(blocks));
  });

  test("other vendors of the dialect do not, and the rest stays", () => {
    expect(send(body(blocks), "messages", "messages")).toEqual(body(blocks.slice(1)));
    expect(send(body(`${line}\nYou are Claude Code.`), "messages", "messages")).toEqual(body("You are Claude Code."));
    expect(send(body(blocks.slice(0, 1)), "messages", "messages")).not.toHaveProperty("system");
    expect(send(body(line), "messages", "messages")).not.toHaveProperty("system");
  });

  test("two requests that differ in it are one to the vendor", () => {
    const other = [{ type: "text", text: line.replace("1a2b", "9f9f") }, ...blocks.slice(1)];
    for (const to of ["messages", "chat"] as const) {
      expect(send(body(other), "messages", to)).toEqual(send(body(blocks), "messages", to));
      expect(JSON.stringify(send(body(other), "messages", to))).not.toContain("billing");
    }
  });

  test("a text that only speaks of it stays", () => {
    const quoted = [
      { type: "text", text: "Be kind." },
      { type: "text", text: line },
    ];
    expect(send(body(quoted), "messages", "messages")).toEqual(body(quoted));
  });
});
