import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Prompt } from "../../src/canon/prompt.ts";
import {
  fitToolNames,
  GEMINI_NAMES,
  MESSAGES_NAMES,
  type NameRule,
  OPENAI_NAMES,
} from "../../src/dialects/tools/tool-names.ts";
import { CLIENTS, type ClientName, chatStream, chunk, reply, send, stream, UPSTREAMS, type Wire } from "./crossing.ts";

const promptOf = (names: readonly string[], called: readonly string[] = [], chosen?: string): Prompt => ({
  system: [],
  turns: called.map((name, at) => ({
    role: "assistant",
    parts: [{ type: "tool-call", id: `c${at}`, name, arguments: "{}" }],
  })),
  tools: names.map((name) => ({ name, schema: { type: "object" } })),
  ...(chosen !== undefined && { toolChoice: { type: "tool", name: chosen } }),
  stop: [],
});

const RULES: [string, NameRule, RegExp][] = [
  ["chat and responses", OPENAI_NAMES, /^[A-Za-z0-9_-]{1,64}$/],
  ["messages", MESSAGES_NAMES, /^[A-Za-z0-9_-]{1,128}$/],
  ["gemini", GEMINI_NAMES, /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/],
];

/** Names as clients write them: legal ones, dotted ones, other scripts, very long ones that begin alike. */
const name = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{1,12}$/),
  fc.stringMatching(/^[a-z_.:/ -]{1,10}$/),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 }),
  fc.tuple(fc.constantFrom("mcp__server__", "ns."), fc.nat(9)).map(([head, tail]) => head.repeat(12) + tail),
);

describe.each(RULES)("names for %s", (_dialects, rule, legal) => {
  test("are legal, tell tools apart, lead back, and stand alike in tools, choice and history", () => {
    const names = fc.uniqueArray(name, { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(names, fc.array(name, { maxLength: 4 }), (offered, called) => {
        const given = promptOf(offered, [...offered, ...called], offered[0]);
        const { prompt, toolNames } = fitToolNames(given, rule, []);
        const written = prompt.tools.map((tool) => tool.name);
        for (const one of written) expect(one).toMatch(legal);
        expect(new Set(written).size).toBe(offered.length);
        expect(written.map((one) => toolNames?.get(one) ?? one)).toEqual(offered);
        expect(prompt.toolChoice).toEqual({ type: "tool", name: written[0]! });
        const history = prompt.turns.flatMap(({ parts }) => parts.map((part) => ("name" in part ? part.name : "")));
        expect(history.slice(0, offered.length)).toEqual(written);
        for (const one of history) expect(one).toMatch(legal);
        expect(history.map((one) => toolNames?.get(one) ?? one)).toEqual([...offered, ...called]);
        expect(fitToolNames(given, rule, [])).toEqual({ prompt, ...(toolNames && { toolNames }) });
      }),
    );
  });

  test("that are legal already leave the prompt as it is", () => {
    const given = promptOf(["get_weather", "Read"], ["get_weather"], "Read");
    expect(fitToolNames(given, rule, []).prompt).toBe(given);
  });
});

test("an over-long name keeps its head and gets a hash; a strange character becomes a line (dialects.md 4.3)", () => {
  const long = `mcp__${"a".repeat(80)}`;
  const { toolNames } = fitToolNames(promptOf([long, "db.query", "db_query", "db/query"]), OPENAI_NAMES, []);
  const written = [...(toolNames?.keys() ?? [])];
  expect(written[0]).toMatch(new RegExp(`^${long.slice(0, 55)}_[0-9a-f]{8}$`));
  // The plain form is another tool's own name.
  expect(written[1]).toMatch(/^db_query_[0-9a-f]{8}$/);
  expect(written[2]).toMatch(/^db_query_[0-9a-f]{8}$/);
  expect([...(toolNames?.values() ?? [])]).toEqual([long, "db.query", "db/query"]);
  expect(fitToolNames(promptOf(["db.query"]), GEMINI_NAMES, []).toolNames).toBeUndefined();
  expect([...(fitToolNames(promptOf(["1st"]), GEMINI_NAMES, []).toolNames ?? [])]).toEqual([["_1st", "1st"]]);
});

test("of two tools of one name the first is kept, and another one is named as lost", () => {
  const tools = [
    { name: "f", schema: { type: "object" } },
    { name: "f", schema: { type: "object" } },
    { name: "f", description: "other", schema: { type: "object" } },
  ];
  const dropped: string[] = [];
  const { prompt } = fitToolNames({ ...promptOf([]), tools }, OPENAI_NAMES, dropped);
  expect(prompt.tools).toEqual([tools[0]!]);
  expect(dropped).toEqual(["tools.f"]);
});

const STRANGE = "wetter.in der Stadt";
const BODIES: Record<ClientName, Wire> = {
  chat: {
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: STRANGE, arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "ok" },
    ],
    tools: [{ type: "function", function: { name: STRANGE, parameters: { type: "object", properties: {} } } }],
    tool_choice: { type: "function", function: { name: STRANGE } },
  },
  messages: {
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "c1", name: STRANGE, input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "ok" }] },
    ],
    tools: [{ name: STRANGE, input_schema: { type: "object", properties: {} } }],
    tool_choice: { type: "tool", name: STRANGE },
  },
  responses: {
    input: [
      { role: "user", content: "Hi" },
      { type: "function_call", call_id: "c1", name: STRANGE, arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "ok" },
    ],
    tools: [{ type: "function", name: STRANGE, parameters: { type: "object", properties: {} } }],
    tool_choice: { type: "function", name: STRANGE },
  },
};

/** A reply that calls a tool, as each upstream writes it. */
const REPLIES: Record<(typeof UPSTREAMS)[number], (name: string) => Wire> = {
  chat: (called) => ({
    id: "1",
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        message: { role: "assistant", tool_calls: [{ id: "c2", type: "function", function: { name: called } }] },
      },
    ],
  }),
  messages: (called) => ({
    id: "1",
    type: "message",
    role: "assistant",
    content: [{ type: "tool_use", id: "c2", name: called, input: {} }],
    stop_reason: "tool_use",
    usage: { input_tokens: 1, output_tokens: 1 },
  }),
  responses: (called) => ({
    id: "1",
    status: "completed",
    output: [{ type: "function_call", call_id: "c2", name: called, arguments: "{}" }],
  }),
  gemini: (called) => ({
    candidates: [{ content: { parts: [{ functionCall: { name: called, args: {} } }] }, finishReason: "STOP" }],
  }),
};

const PAIRS = CLIENTS.flatMap((from) => UPSTREAMS.filter((to) => to !== from).map((to) => ({ from, to })));

test.each(PAIRS)("a strange name from $from is legal for $to everywhere, and the client's own in the reply", (way) => {
  const { body, changes, dropped } = send(way, BODIES[way.from]);
  expect(JSON.stringify(body)).not.toContain(STRANGE);
  expect(dropped).toEqual([]);
  const written = [...(changes?.toolNames?.keys() ?? [])];
  expect(written).toHaveLength(1);
  // In the definition, the choice and the earlier call.
  const places = JSON.stringify(body).split(`"${written[0]}"`).length - 1;
  expect(places).toBe(way.to === "gemini" ? 4 : 3);
  expect(JSON.stringify(reply(way, REPLIES[way.to](written[0]!), changes))).toContain(`"name":"${STRANGE}"`);
  // Without the changes the upstream's own name would be told.
  expect(JSON.stringify(reply(way, REPLIES[way.to](written[0]!)))).not.toContain(STRANGE);
});

test("in a stream too", () => {
  const way = { from: "messages", to: "chat" } as const;
  const { changes } = send(way, BODIES.messages);
  const written = [...(changes?.toolNames?.keys() ?? [])][0]!;
  const sse = chatStream(
    chunk({ role: "assistant", tool_calls: [{ index: 0, id: "c2", function: { name: written, arguments: "{}" } }] }),
    chunk({}, "tool_calls"),
  );
  const text = stream(way, sse, changes);
  expect(text).toContain(`"name":"${STRANGE}"`);
  expect(text).not.toContain(written);
});
