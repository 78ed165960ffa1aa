import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import type { Orders } from "../../src/canon/intent.ts";
import type { Dialect, Quirks, UpstreamDialect } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { packReasoning } from "../../src/dialects/reasoning/proof.ts";
import { streamWriter, translateReply } from "../../src/dialects/translate.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";
import { translateWhole } from "../support/translate.ts";
import { context, normalise } from "./diagonal.ts";
import { eventsOf } from "./responses-events.ts";
import { accumulate } from "./responses-run.ts";

type Wire = Record<string, unknown>;
const { chat, messages, responses } = dialects;
const { gemini } = upstreamDialects;
const orders: Orders = {
  upstreamModel: "up-1",
  stream: false,
  reasoning: { kind: "level", form: "effort", level: "low" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
};

const write = (dialect: Dialect, events: readonly Event[]): string => {
  const encoder = dialect.encoder(context);
  return events.map((event) => encoder.push(event)).join("") + encoder.end();
};
const readAll = (dialect: Dialect, sse: string): Event[] => {
  const decoder = dialect.decoder({ quirks: {} });
  const splitter = new FrameSplitter();
  return [...[...splitter.push(sse), ...splitter.end()].flatMap((frame) => decoder.push(frame)), ...decoder.end()];
};
/** A stream of `upstream` as `client` gets it. */
const forward = (upstream: Dialect, client: Dialect, sse: string): string => {
  const decoder = upstream.decoder({ quirks: {} });
  const writer = streamWriter({ upstream, client, context });
  let text = "";
  for (const frame of new FrameSplitter().push(sse)) text += writer.push(frame, decoder.push(frame));
  return text + writer.end(decoder.end());
};

/** What of a reply every dialect can say: text, reasoning and calls, joined by kind, and why it ended. */
function gist(events: readonly Event[]) {
  const said = { text: "", reasoning: "", calls: [] as string[], finish: "", total: 0 };
  let kind = "";
  for (const event of events) {
    if (event.type === "block-start") {
      kind = event.block.kind;
      if (event.block.kind === "tool-call") said.calls.push(`${event.block.id} ${event.block.name} `);
    } else if (event.type === "block-delta") {
      if (kind === "text") said.text += event.text;
      else if (kind === "reasoning") said.reasoning += event.text;
      else said.calls.push(said.calls.pop() + event.text);
    } else if (event.type === "finish") said.finish = event.finish.reason;
    else if (event.type === "usage") said.total = event.usage.input + event.usage.cacheRead + event.usage.output;
  }
  // A whole message holds arguments as an object: one spelling for all.
  said.calls = said.calls.map((call) => call.replace(/ \{\}$/, " "));
  return said;
}

const PAIRS = [
  ["responses", responses, "chat", chat],
  ["responses", responses, "messages", messages],
  ["chat", chat, "responses", responses],
  ["messages", messages, "responses", responses],
  ["responses", responses, "responses", responses],
] as const;

describe.each(PAIRS)("upstream %s", (_upstreamName, upstream, _clientName, client) => {
  test(`a stream keeps its meaning for a client of ${client.name}`, () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const seen = readAll(client, forward(upstream, client, write(upstream, events)));
        expect(gist(seen)).toEqual(gist(readAll(upstream, write(upstream, events))));
      }),
      { numRuns: 50 },
    );
  });

  test(`a whole reply keeps its meaning for a client of ${client.name}`, () => {
    fc.assert(
      fc.property(eventsOf(), (events) => {
        const body: ObjectText = new JsonText(JSON.stringify(upstream.encodeReply(events, context)));
        const { text, events: metered } = translateReply(body, { upstream, client, context }, {});
        const seen = client.decodeReply(JSON.parse(text), { quirks: {} });
        expect(gist(seen)).toEqual(gist(metered));
      }),
      { numRuns: 50 },
    );
  });
});

/** One conversation with a tool loop, as each dialect says it. */
const CONVERSATION: Record<string, Wire> = {
  chat: {
    model: "a/b",
    messages: [
      { role: "system", content: "be brief" },
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url: "https://a.test/b.png" } },
        ],
      },
      {
        role: "assistant",
        content: "ok",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "done" },
      { role: "user", content: "and?" },
    ],
    tools: [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }],
    tool_choice: "required",
    max_completion_tokens: 100,
  },
  messages: {
    model: "a/b",
    max_tokens: 100,
    system: "be brief",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image", source: { type: "url", url: "https://a.test/b.png" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "ok" },
          { type: "tool_use", id: "call_1", name: "f", input: { a: 1 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: "done" },
          { type: "text", text: "and?" },
        ],
      },
    ],
    tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
    tool_choice: { type: "any" },
  },
  responses: {
    model: "a/b",
    max_output_tokens: 100,
    instructions: "be brief",
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url: "https://a.test/b.png" },
        ],
      },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] },
      { type: "function_call", call_id: "call_1", name: "f", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "call_1", output: "done" },
      { role: "user", content: "and?" },
    ],
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false }],
    tool_choice: "required",
  },
};

/** A prompt without what one dialect spells out and another leaves to its default. */
const bare = (dialect: Dialect, body: Wire) =>
  JSON.parse(JSON.stringify(dialect.decodeRequest(body).prompt), (key, value) =>
    key === "detail" || key === "strict" || key === "place" ? undefined : value,
  );

describe("requests", () => {
  for (const [, upstream, , client] of PAIRS) {
    test(`${client.name} → ${upstream.name}: same meaning, a sound body, nothing dropped`, () => {
      const body = CONVERSATION[client.name] ?? {};
      client.check(body);
      const { text, dropped } = translateWhole(new JsonText(JSON.stringify(body)), client, upstream, {
        orders,
        quirks: {
          noAddedCacheMarks: true,
        },
      });
      const sent = JSON.parse(text) as Wire;
      upstream.check(sent);
      expect(dropped).toEqual([]);
      expect(sent["model"]).toBe("up-1");
      expect(bare(upstream, sent)).toEqual(bare(client, body));
    });
  }

  const steered = { prompt_cache_key: "k", prompt_cache_retention: "24h", service_tier: "flex", metadata: { a: "b" } };
  const STEERING = new Set([...Object.keys(steered), "verbosity", "text"]);
  const { metadata: _metadata, ...unstored } = steered;
  const SHARED: [Dialect, UpstreamDialect, Wire, Wire, string[], Quirks?][] = [
    [chat, responses, { ...steered, verbosity: "low" }, { ...steered, text: { verbosity: "low" } }, []],
    [
      responses,
      chat,
      { ...steered, text: { verbosity: "low" } },
      { ...unstored, verbosity: "low" },
      ["metadata"],
      { customTools: true },
    ],
    // Who is not known to know them may refuse a request for each.
    [responses, chat, { ...unstored, text: { verbosity: "low" } }, {}, ["service_tier", "text.verbosity"]],
    [chat, responses, { logprobs: true, top_logprobs: 2 }, {}, ["logprobs", "top_logprobs"]],
    [chat, messages, { ...steered, verbosity: "low" }, {}, [...Object.keys(steered), "verbosity"]],
    [chat, gemini, { ...steered, verbosity: "low" }, {}, [...Object.keys(steered), "verbosity"]],
    // What steers a vendor's cache alone is no loss to agents that always send it.
    [
      responses,
      messages,
      { ...steered, text: { verbosity: "low" } },
      {},
      ["service_tier", "metadata", "text.verbosity"],
    ],
    [responses, gemini, { text: { verbosity: "medium" }, prompt_cache_key: "k" }, {}, []],
    [
      responses,
      chat,
      { ...unstored, text: { verbosity: "low" } },
      { service_tier: "flex" },
      ["text.verbosity"],
      { customTools: true, unknownFields: ["verbosity", "prompt_cache_key", "prompt_cache_retention"] },
    ],
  ];
  test.each(SHARED)(
    "what both of OpenAI's dialects have crosses: %#",
    (client, upstream, said, told, lost, quirks = {}) => {
      const hello = client === chat ? { messages: [{ role: "user", content: "Hi" }] } : { input: "Hi" };
      const body = { model: "a/b", ...hello, ...said };
      client.check(body);
      const sent = translateWhole(new JsonText(JSON.stringify(body)), client, upstream, { orders, quirks });
      const written = Object.entries(JSON.parse(sent.text) as Wire).filter(([field]) => STEERING.has(field));
      expect(Object.fromEntries(written)).toEqual(told);
      expect(sent.dropped.toSorted()).toEqual(lost.toSorted());
    },
  );

  test("from another dialect the upstream is asked for a summary and for reasoning that can be carried back", () => {
    const body: ObjectText = new JsonText(JSON.stringify(CONVERSATION["messages"]));
    const sent = JSON.parse(translateWhole(body, messages, responses, { orders, quirks: {} }).text) as Wire;
    expect(sent["reasoning"]).toEqual({ effort: "low", summary: "auto" });
    expect(sent["include"]).toEqual(["reasoning.encrypted_content"]);
    expect(sent["store"]).toBe(false);
    const plain = JSON.parse(
      translateWhole(body, messages, responses, { orders: { ...orders, reasoning: { kind: "keep" } }, quirks: {} })
        .text,
    ) as Wire;
    expect(plain).not.toContainKeys(["reasoning", "include"]);
  });
});

describe("reasoning goes round", () => {
  const proof = { id: "rs_9", encrypted: "gAAAA-proof" };
  const reply: Event[] = [
    { type: "start" },
    { type: "block-start", block: { kind: "reasoning" } },
    { type: "block-delta", text: "hm" },
    { type: "block-signature", signature: packReasoning(proof) },
    { type: "block-end" },
    { type: "block-start", block: { kind: "tool-call", id: "call_1", name: "f" } },
    { type: "block-delta", text: "{}" },
    { type: "block-end" },
    { type: "finish", finish: { reason: "tool-calls" } },
  ];

  /** The next turn of a messages client that was given `reply`. */
  const continuation = (events: readonly Event[]) => ({
    model: "a/b",
    max_tokens: 9,
    messages: [
      { role: "user", content: "x" },
      { role: "assistant", content: messages.encodeReply(events, context)["content"] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "done" }] },
    ],
  });

  test("a messages client carries it back to the vendor it came from", () => {
    const body: ObjectText = new JsonText(JSON.stringify(continuation(reply)));
    const { input } = JSON.parse(translateWhole(body, messages, responses, { orders, quirks: {} }).text) as {
      input: Wire[];
    };
    expect(input[1]).toEqual({
      type: "reasoning",
      id: "rs_9",
      summary: [{ type: "summary_text", text: "hm" }],
      encrypted_content: "gAAAA-proof",
    });
    expect(input[2]?.["type"]).toBe("function_call");
  });

  test("and never to a vendor of its own dialect, which would refuse the whole request", () => {
    const body: ObjectText = new JsonText(JSON.stringify(continuation(reply)));
    expect(translateWhole(body, messages, messages, { orders, quirks: {} }).text).not.toContain("rs:");
    expect(translateWhole(body, messages, messages, { orders, quirks: {} }).text).toContain("tool_use");
  });

  test("a responses client carries another vendor's proof back as it was, and never to a vendor of its own dialect", () => {
    const claude: Event[] = reply.map((event) =>
      event.type === "block-signature" ? { type: "block-signature", signature: "ErUB-claude" } : event,
    );
    const output = responses.encodeReply(claude, context)["output"] as Wire[];
    const next = {
      model: "a/b",
      input: [
        { role: "user", content: "x" },
        ...output,
        { type: "function_call_output", call_id: "call_1", output: "done" },
      ],
    };
    const body: ObjectText = new JsonText(JSON.stringify(next));
    const across = JSON.parse(translateWhole(body, responses, messages, { orders, quirks: {} }).text) as {
      messages: { content: Wire[] }[];
    };
    expect(across.messages[1]?.content[0]).toEqual({ type: "thinking", thinking: "hm", signature: "ErUB-claude" });
    expect(translateWhole(body, responses, responses, { orders, quirks: {} }).text).not.toContain("ErUB-claude");
  });

  test("a responses client that changes from the dialect's own vendor to another takes no proof along", () => {
    const item = { type: "reasoning", id: "rs_9", summary: [], encrypted_content: "gAAAA-proof" };
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    const body: ObjectText = new JsonText(
      JSON.stringify({ model: "a/b", input: [{ role: "user", content: "x" }, item, call] }),
    );
    const { text } = translateWhole(body, responses, messages, { orders, quirks: {} });
    expect(text).not.toContain("thinking");
    expect(text).not.toContain("gAAAA");
    expect(text).toContain("tool_use");
  });
});

test("the SDK reads a chat vendor's stream through this dialect", async () => {
  const chunk = (delta: Wire, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const sse =
    chunk({ role: "assistant", content: "" }) +
    chunk({ reasoning_content: "hm" }) +
    chunk({ content: "Hel" }) +
    chunk({ content: "lo" }) +
    chunk({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "f", arguments: "" } }] }) +
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }) +
    chunk({}, "tool_calls") +
    "data: [DONE]\n\n";
  const response = await accumulate(forward(chat, responses, sse));
  expect(response.output.map((item) => item.type)).toEqual(["reasoning", "message", "function_call"]);
  expect(response.output_text).toBe("Hello");
  expect(response.output[2]).toMatchObject({ call_id: "call_1", name: "f", arguments: '{"a":1}' });
  expect(normalise(readAll(responses, forward(chat, responses, sse))).at(-1)).toEqual({
    type: "finish",
    finish: { reason: "tool-calls" },
  });
});
