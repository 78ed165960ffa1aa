import { describe, expect, test } from "bun:test";
import type { Orders } from "../../src/canon/intent.ts";
import {
  DIALECTS,
  type DialectName,
  type Quirks,
  UPSTREAM_DIALECTS,
  type UpstreamDialectName,
} from "../../src/dialects/dialect.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { packReasoning } from "../../src/dialects/reasoning/proof.ts";
import { translateRequest } from "../../src/dialects/translate.ts";
import { JsonText, type ObjectText } from "../../src/lib/json-text.ts";
import { wholeText } from "../../src/lib/text-pieces.ts";

type Wire = Record<string, unknown>;

const ORDERS: Orders = {
  upstreamModel: "m",
  stream: false,
  reasoning: { kind: "nothing" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
};

const schema = { type: "object", properties: {} };
const PNG = "iVBORw0KGgo=";
const HELLO = { role: "user", content: "u" };
const PDF = "JVBERi0xLjQK";

const chatTool = { type: "function", function: { name: "f", description: "d", parameters: schema } };
const messagesTool = { name: "f", description: "d", input_schema: schema };
const responsesTool = { type: "function", name: "f", description: "d", parameters: schema };

/** A plain conversation with a tool in each dialect. */
const PLAIN: Record<DialectName, Wire> = {
  chat: {
    model: "x/m",
    max_completion_tokens: 100,
    tools: [chatTool],
    messages: [
      { role: "system", content: "s" },
      { role: "user", content: "u" },
      {
        role: "assistant",
        content: "a",
        tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "r" },
      { role: "user", content: [{ type: "text", text: "x" }] },
    ],
  },
  messages: {
    model: "x/m",
    max_tokens: 100,
    system: [{ type: "text", text: "s" }],
    tools: [messagesTool],
    messages: [
      { role: "user", content: "u" },
      {
        role: "assistant",
        content: [
          { type: "text", text: "a" },
          { type: "tool_use", id: "c1", name: "f", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "c1", content: "r" },
          { type: "text", text: "x" },
        ],
      },
    ],
  },
  responses: {
    model: "x/m",
    max_output_tokens: 100,
    instructions: "s",
    tools: [responsesTool],
    input: [
      { role: "user", content: "u" },
      { role: "assistant", content: "a" },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "r" },
    ],
  },
};

const json = { type: "json_schema", json_schema: { name: "n", schema, strict: true } };

/** Fields that say something, one by one, on top of the plain conversation (dialects.md 1.1, 2.1, 2.3). */
const SAID: Record<DialectName, Wire[]> = {
  chat: [
    ..."n:2 logprobs:true top_logprobs:3 seed:3 temperature:0.5 top_p:0.5 top_k:4 min_p:0.1 store:true unknown:7"
      .split(" ")
      .map((pair) => ({ [pair.split(":")[0] as string]: JSON.parse(pair.split(":")[1] as string) })),
    { stop: ["a", "b"] },
    { tool_choice: "required" },
    { tool_choice: { type: "function", function: { name: "f" } } },
    { parallel_tool_calls: false },
    { response_format: { type: "json_object" } },
    { response_format: json },
    { logit_bias: { "1": 2 } },
    { frequency_penalty: 0.3 },
    { presence_penalty: 0.3 },
    { verbosity: "low" },
    { user: "u" },
    { safety_identifier: "s" },
    { metadata: { a: "b" } },
    { service_tier: "flex" },
    { modalities: ["text", "audio"] },
    { audio: { voice: "x", format: "wav" } },
    { prediction: { type: "content", content: "x" } },
    { web_search_options: {} },
    { provider: { order: ["a"] } },
    { tools: [{ ...chatTool, function: { ...chatTool.function, strict: true } }] },
    { tools: [chatTool, { type: "web_search" }] },
    { messages: [{ role: "user", name: "bob", content: "u" }] },
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "video_url", video_url: { url: "v" } },
            { type: "text", text: "t" },
          ],
        },
      ],
    },
  ],
  messages: [
    { temperature: 0.5 },
    { top_p: 0.5 },
    { top_k: 5 },
    { stop_sequences: ["a"] },
    { tool_choice: { type: "any" } },
    { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    { output_config: { format: { type: "json_schema", schema } } },
    { output_config: { task_budget: { total: 4 } } },
    { metadata: { user_id: "u" } },
    { metadata: { other: "u" } },
    { service_tier: "standard_only" },
    { speed: "fast" },
    { container: "c" },
    { mcp_servers: [{ type: "url", url: "x", name: "n" }] },
    { context_management: { edits: [] } },
    { unknown: 7 },
    { tools: [{ ...messagesTool, strict: true }] },
    { tools: [{ ...messagesTool, input_examples: [{}] }] },
    { tools: [{ ...messagesTool, defer_loading: true }] },
    { tools: [{ ...messagesTool, allowed_callers: ["code_execution_20260120"] }] },
    { tools: [messagesTool, { type: "web_search_20250305", name: "web_search" }] },
    { tools: [messagesTool, { type: "bash_20250124", name: "bash" }] },
    {
      messages: [
        {
          role: "user",
          content: [
            {
              type: "document",
              source: { type: "text", media_type: "text/plain", data: "x" },
              citations: { enabled: true },
            },
          ],
        },
      ],
    },
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "container_upload", file_id: "f" },
            { type: "text", text: "x" },
          ],
        },
      ],
    },
  ],
  responses: [
    { temperature: 0.5 },
    { top_p: 0.5 },
    { top_logprobs: 3 },
    { tool_choice: "required" },
    { parallel_tool_calls: false },
    { text: { format: { type: "json_schema", name: "n", schema } } },
    { text: { verbosity: "low" } },
    { user: "u" },
    { metadata: { a: "b" } },
    { store: true },
    { service_tier: "flex" },
    { background: true },
    { max_tool_calls: 3 },
    { truncation: "auto" },
    { include: ["message.output_text.logprobs"] },
    { prompt_cache_options: { prewarm: true } },
    { unknown: 7 },
    { tools: [responsesTool, { type: "web_search" }] },
    { tools: [{ ...responsesTool, strict: true }] },
    {
      input: [
        { type: "image_generation_call", id: "i" },
        { role: "user", content: "z" },
      ],
    },
    {
      input: [
        { role: "user", content: [{ type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "high" }] },
      ],
    },
  ],
};

/** A vendor that takes none of these, whoever says them. */
const UNKNOWING: Quirks = { unknownFields: ["user", "response_format", "parallel_tool_calls"] };
const open = { type: "object", properties: { a: { type: "string" } } };
const openChat = { type: "json_schema", json_schema: { name: "n", schema: open, strict: true } };
const openResponses = { type: "json_schema", name: "n", schema: open, strict: true };

/** What encoders name in one dialect's words, and each client said in its own (contract 6, x-sluice-dropped). */
const TOLD: [DialectName, UpstreamDialectName, Wire, string[]][] = [
  ["chat", "gemini", { user: "u" }, ["user"]],
  ["responses", "messages", { prompt_cache_options: { ttl: "30m", prewarm: true } }, ["prompt_cache_options.prewarm"]],
  ["chat", "gemini", { safety_identifier: "u" }, ["safety_identifier"]],
  [
    "chat",
    "gemini",
    {
      messages: [
        {
          role: "user",
          content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}`, detail: "low" } }],
        },
      ],
    },
    ["messages[0].content[0].image_url.detail"],
  ],
  ["messages", "gemini", { metadata: { user_id: "u" } }, ["metadata.user_id"]],
  ["messages", "gemini", { service_tier: "auto", speed: "standard", mcp_servers: [], betas: [], container: "" }, []],
  ["messages", "gemini", { service_tier: "standard_only", speed: "fast" }, ["service_tier", "speed"]],
  ["responses", "gemini", { safety_identifier: "u" }, ["safety_identifier"]],
  ["chat", "gemini", { parallel_tool_calls: false }, ["parallel_tool_calls"]],
  ["chat", "gemini", { tools: undefined, functions: [{ name: "f" }] }, []],
  [
    "messages",
    "gemini",
    { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    ["tool_choice.disable_parallel_tool_use"],
  ],
  ["messages", "chat", { metadata: { user_id: "u" } }, ["metadata.user_id"]],
  ["messages", "chat", { output_config: { format: { type: "json_schema", schema } } }, ["output_config.format"]],
  ["messages", "chat", { output_format: { type: "json_schema", schema } }, ["output_format"]],
  ["responses", "chat", { text: { format: { type: "json_object" } } }, ["text.format"]],
  ["chat", "responses", { response_format: openChat }, ["response_format.json_schema.strict"]],
  ["responses", "chat", { text: { format: openResponses }, user: "u" }, ["text.format.strict", "user", "text.format"]],
  ["messages", "chat", { stop_sequences: ["a", "b", "c", "d", "x".repeat(600)] }, ["stop_sequences"]],
  [
    "chat",
    "gemini",
    { tools: [{ type: "web_search" }, { ...chatTool, function: { ...chatTool.function, strict: true } }] },
    ["tools[0]", "tools[1].function.strict"],
  ],
  ["chat", "gemini", { tools: [chatTool, { type: "function", function: { name: "f" } }] }, ["tools[1].function"]],
  ["messages", "gemini", { tools: [{ ...messagesTool, name: "a b", strict: true }] }, ["tools[0].strict"]],
  ["messages", "chat", { thinking: { type: "adaptive", display: "omitted" } }, []],
  [
    "messages",
    "gemini",
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "search_result", source: "s", title: "t", content: [], citations: { enabled: true } },
            {
              type: "image",
              source: { type: "base64", media_type: "image/png", data: PNG },
              transformations: { oversized_image: "error" },
            },
          ],
        },
      ],
    },
    ["messages[0].content[0].citations", "messages[0].content[1].transformations"],
  ],
  ["messages", "responses", { messages: [HELLO, { role: "assistant", content: "{" }] }, ["prefill"]],
  ["messages", "responses", { messages: [HELLO, { role: "assistant", content: " " }] }, []],
  ["messages", "gemini", { messages: [HELLO, { role: "assistant", content: "{" }] }, []],
  ["chat", "responses", { messages: [HELLO, { role: "assistant", content: "{" }] }, []],
  ["chat", "responses", { messages: [HELLO, { role: "assistant", content: "{", prefix: true }] }, ["prefill"]],
  ["responses", "messages", { user: "u", safety_identifier: "s" }, ["user"]],
  ["responses", "chat", { reasoning: { context: "all_turns", mode: "pro" } }, ["reasoning.context", "reasoning.mode"]],
  [
    "responses",
    "gemini",
    {
      tools: [
        {
          ...responsesTool,
          defer_loading: true,
          async: true,
          allowed_callers: ["programmatic"],
          output_schema: schema,
        },
        { type: "custom", name: "g", defer_loading: true, allowed_callers: ["direct"] },
      ],
    },
    [
      "tools[0].defer_loading",
      "tools[0].async",
      "tools[0].allowed_callers",
      "tools[0].output_schema",
      "tools[1].defer_loading",
    ],
  ],
  [
    "responses",
    "messages",
    {
      input: [
        {
          role: "user",
          content: [
            { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}`, detail: "high" },
          ],
        },
      ],
    },
    ["input[0].content[0].detail"],
  ],
  ["responses", "gemini", { tools: [{ ...responsesTool, strict: true }] }, ["tools[0].strict"]],
  ["chat", "responses", { max_completion_tokens: 15 }, ["max_completion_tokens"]],
  ["chat", "responses", { max_completion_tokens: undefined, max_tokens: 1 }, ["max_tokens"]],
  ["messages", "responses", { max_tokens: 15 }, ["max_tokens"]],
  ["messages", "responses", { max_tokens: 16 }, []],
  [
    "chat",
    "messages",
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "u", min_pixels: 4, other: [] },
            { type: "video_url", fps: 2 },
          ],
        },
        {
          role: "assistant",
          content: "a",
          images: [{ type: "image_url" }],
          annotations: [{}],
          refusal: null,
          audio: null,
        },
        HELLO,
      ],
    },
    ["messages[0].content[0].min_pixels", "messages[0].content[1]", "messages[1].images[0]"],
  ],
  [
    "messages",
    "chat",
    {
      messages: [
        { role: "user", content: [{ type: "text", text: "u", citations: null, hint: "x" }], priority: 3 },
        {
          role: "assistant",
          content: [{ type: "text", text: "a", citations: [{}], parsed_output: { a: 1 } }],
          id: "m",
          usage: { input_tokens: 1 },
        },
        {
          role: "user",
          content: [
            { type: "container_upload", file_id: "f", hint: "x" },
            { type: "text", text: "u" },
          ],
        },
      ],
    },
    ["messages[0].priority", "messages[0].content[0].hint", "messages[2].content[0]"],
  ],
  [
    "responses",
    "gemini",
    {
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "u", hint: "x" },
            { type: "input_video", url: "v" },
          ],
        },
        {
          type: "function_call",
          call_id: "c1",
          name: "f",
          arguments: "{}",
          id: "fc",
          status: "completed",
          priority: 1,
        },
        { type: "function_call_output", call_id: "c1", output: "r", id: null },
        // As OpenAI's SDK has what it has read.
        { type: "function_call", call_id: "c2", name: "f", arguments: "{}", parsed_arguments: { a: 1 } },
        { role: "assistant", content: [{ type: "output_text", text: "{}", annotations: [], parsed: { a: 1 } }] },
      ],
    },
    ["input[0].content[0].hint", "input[1].priority", "input[0].content[1]"],
  ],
];

/** What becomes of a body: the upstream's, the paths of what was lost, and what the gateway will do in the upstream's place; or a refusal. */
function fateOf(body: Wire, from: DialectName, to: UpstreamDialectName): string {
  try {
    const json: ObjectText = new JsonText(JSON.stringify(body));
    const { text, dropped, changes } = translateRequest(json, dialects[from], upstreamDialects[to], {
      orders: ORDERS,
      quirks: {},
    });
    const stops = [...(changes?.stops ?? [])];
    return JSON.stringify([text, dropped, stops, [...(changes?.customTools ?? [])], changes?.request ?? null]);
  } catch (thrown) {
    return String(thrown);
  }
}

/** Marks of a thing that is said inside a message: the plain conversation is the same without it. */
const EXTRAS = new Set(["video_url", "container_upload", "image_generation_call"]);
const DETAILS = new Set(["name", "citations", "detail"]);

/** The same messages with what is said in them left out. */
function unsaid(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.filter((one) => !EXTRAS.has(String((one as Wire | null)?.["type"]))).map(unsaid);
  }
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([field]) => !DETAILS.has(field));
  return Object.fromEntries(kept.map(([field, inner]) => [field, unsaid(inner)]));
}

/** The plain conversation; where something is said inside a message, the same messages without it. */
function plainOf(from: DialectName, said: Wire): Wire {
  const { messages, input } = said;
  return {
    ...PLAIN[from],
    ...(messages !== undefined && { messages: unsaid(messages) }),
    ...(input !== undefined && { input: unsaid(input) }),
  };
}

/** A tool loop of a messages client, with what was thought before its call; `asked`: words of the user that end it. */
function loopOfMessages(thought: Wire, asked?: string): Wire {
  const call = { type: "tool_use", id: "c1", name: "f", input: {} };
  const turns = [
    { role: "user", content: "u" },
    { role: "assistant", content: [thought, call] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "r" }] },
  ];
  const answered = [
    { role: "assistant", content: "a" },
    { role: "user", content: asked },
  ];
  return { ...PLAIN.messages, messages: asked === undefined ? turns : [...turns, ...answered] };
}

/** The same of a responses client. */
function loopOfResponses(thought: Wire, asked?: string): Wire {
  const items = [
    { role: "user", content: "u" },
    { type: "reasoning", id: "rs_1", summary: [], ...thought },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "r" },
  ];
  const answered = [
    { role: "assistant", content: "a" },
    { role: "user", content: asked },
  ];
  return { ...PLAIN.responses, input: asked === undefined ? items : [...items, ...answered] };
}

/** The same with another tool of the client's than a function. */
const loopOfShell = (thought: Wire): Wire => ({
  ...PLAIN.responses,
  input: [
    { role: "user", content: "u" },
    { type: "reasoning", id: "rs_1", summary: [], ...thought },
    { type: "shell_call", call_id: "c1", action: { commands: ["ls"] } },
    { type: "shell_call_output", call_id: "c1", output: [] },
  ],
});

/** And of a chat client. */
const loopOfChat = (thought: Wire): Wire => ({
  ...PLAIN.chat,
  messages: [
    { role: "user", content: "u" },
    {
      ...{ role: "assistant", content: null, ...thought },
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c1", content: "r" },
  ],
});

const CLAUDES = { type: "thinking", thinking: "t", signature: "EqQB" };
const REDACTED = { type: "redacted_thinking", data: "EqQB" };
const plainBy = (maker: string) => ({ type: "thinking", thinking: "t", signature: `unsigned:${maker}` });
const packed = { type: "thinking", thinking: "t", signature: packReasoning({ id: "rs_1", encrypted: "gAAA" }) };
const REPLAYING: Quirks = { reasoningReplay: "reasoning_content" };
const OFF: Orders["reasoning"] = { kind: "off", form: "effort" };
const LOW: Orders["reasoning"] = { kind: "level", form: "effort", level: "low" };

/** Reasoning of another vendor inside a tool loop (dialects.md 2.9, 4.2, 4.3): whose body, to whom, and whether it is named. */
const THOUGHT: [string, DialectName, UpstreamDialectName, Wire, string[], Quirks?, Orders["reasoning"]?][] = [
  ["Claude's", "messages", "chat", loopOfMessages(CLAUDES), ["thinking"]],
  ["Claude's", "messages", "responses", loopOfMessages(CLAUDES), ["thinking"]],
  ["Claude's", "messages", "gemini", loopOfMessages(CLAUDES), ["thinking"]],
  ["redacted", "messages", "chat", loopOfMessages(REDACTED), ["thinking"], REPLAYING],
  ["redacted", "messages", "responses", loopOfMessages(REDACTED), ["thinking"]],
  ["redacted", "messages", "gemini", loopOfMessages(REDACTED), ["thinking"]],
  ["a chat vendor's", "messages", "chat", loopOfMessages(plainBy("other")), ["thinking"]],
  ["the model's own, unwanted", "messages", "chat", loopOfMessages(plainBy("m")), []],
  ["wanted", "messages", "chat", loopOfMessages(CLAUDES), [], REPLAYING],
  ["of before the user's last word", "messages", "chat", loopOfMessages(CLAUDES, "and?"), []],
  ["switched off", "messages", "chat", loopOfMessages(CLAUDES), [], {}, OFF],
  ["the responses vendor's own", "messages", "responses", loopOfMessages(packed), [], {}, LOW],
  ["the like, to a model that does not reason", "messages", "responses", loopOfMessages(packed), ["thinking"]],
  ["another vendor's on the diagonal", "messages", "messages", loopOfMessages(packed), ["thinking"]],
  ["the like of before", "messages", "messages", loopOfMessages(packed, "and?"), []],
  ["the like, switched off", "messages", "messages", loopOfMessages(packed), [], {}, OFF],
  ["Claude's own", "messages", "messages", loopOfMessages(CLAUDES), []],
  ["OpenAI's", "responses", "chat", loopOfResponses({ encrypted_content: "gAAA" }), ["reasoning"]],
  ["OpenAI's", "responses", "messages", loopOfResponses({ encrypted_content: "gAAA" }), ["reasoning"]],
  ["OpenAI's", "responses", "gemini", loopOfResponses({ encrypted_content: "gAAA" }), ["reasoning"]],
  ["of before", "responses", "messages", loopOfResponses({ encrypted_content: "gAAA" }, "and?"), []],
  ["stored by its vendor", "responses", "responses", loopOfResponses({}), ["reasoning"]],
  ["stored, before a shell's call", "responses", "responses", loopOfShell({}), ["reasoning"]],
  ["of before, stored", "responses", "responses", loopOfResponses({}, "and?"), []],
  ["bare text", "chat", "messages", loopOfChat({ reasoning_content: "t" }), []],
  ["bare text", "chat", "responses", loopOfChat({ reasoning_content: "t" }), []],
];

describe("reasoning of a tool loop that its vendor cannot be shown is named", () => {
  test.each(THOUGHT)("%s: %s → %s", (_what, from, to, said, told, quirks = {}, reasoning = ORDERS.reasoning) => {
    const body: ObjectText = new JsonText(JSON.stringify(said));
    const sent = translateRequest(body, dialects[from], upstreamDialects[to], {
      orders: { ...ORDERS, reasoning },
      quirks,
    });
    expect(sent.dropped).toEqual(told);
  });
});

test("what an answer's format is for reaches models whose vendors have no place for it beside the schema", () => {
  for (const to of UPSTREAM_DIALECTS) {
    const response_format = { ...json, json_schema: { ...json.json_schema, description: "For the list." } };
    const body: ObjectText = new JsonText(JSON.stringify({ ...PLAIN.chat, response_format }));
    const { text, dropped } = translateRequest(body, dialects.chat, upstreamDialects[to], {
      orders: ORDERS,
      quirks: {},
    });
    expect([wholeText(text).includes("For the list."), dropped]).toEqual([true, []]);
  }
});

test("the effort of an answer without thinking stays; one that the model may then refuse is named", () => {
  const sent = ["low", "max"].map((effort) => {
    const body = { ...PLAIN.messages, thinking: { type: "disabled" }, output_config: { effort } };
    const orders: Orders = { ...ORDERS, reasoning: { kind: "off", form: "adaptive-effort" } };
    const said: ObjectText = new JsonText(JSON.stringify(body));
    const { text, dropped } = translateRequest(said, dialects.messages, dialects.messages, { orders, quirks: {} });
    const { thinking, output_config: config } = JSON.parse(wholeText(text)) as Wire;
    return [thinking, config, dropped];
  });
  const thinking = { type: "disabled" };
  expect(sent).toEqual([
    [thinking, { effort: "low" }, []],
    [thinking, undefined, ["output_config.effort"]],
  ]);
});

test("storing that is asked for is named on the diagonal too, where nothing is stored either", () => {
  const dropped = [true, false, undefined].map((store) => {
    const body: ObjectText = new JsonText(JSON.stringify({ ...PLAIN.responses, store }));
    return translateRequest(body, dialects.responses, upstreamDialects.responses, { orders: ORDERS, quirks: {} })
      .dropped;
  });
  expect(dropped).toEqual([["store"], [], []]);
});

describe("a client is told what is lost by the name that it has for it", () => {
  test.each(TOLD)("%s → %s: %j", (from, to, said, told) => {
    const body: ObjectText = new JsonText(JSON.stringify({ ...PLAIN[from], ...said }));
    const sent = translateRequest(body, dialects[from], upstreamDialects[to], { orders: ORDERS, quirks: UNKNOWING });
    expect(sent.dropped).toEqual(told);
  });
});

describe("nothing a client says is lost without a word", () => {
  for (const from of DIALECTS) {
    for (const to of UPSTREAM_DIALECTS.filter((dialect) => dialect !== from)) {
      for (const said of SAID[from]) {
        test(`${from} → ${to}: ${JSON.stringify(said).slice(0, 90)}`, () => {
          expect(fateOf({ ...PLAIN[from], ...said }, from, to)).not.toBe(fateOf(plainOf(from, said), from, to));
        });
      }
    }
  }
});
