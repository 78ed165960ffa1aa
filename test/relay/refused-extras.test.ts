import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { resolveVendors } from "../../src/config/discover.ts";
import { Writer } from "../../src/db/writer.ts";
import { leaveOutExtras, readRefusedExtras } from "../../src/dialects/messages/refused-extras.ts";
import { KEPT_MS } from "../../src/relay/lessons/refused-extras.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { type Call, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const REPLY = {
  ...{ id: "m", type: "message", role: "assistant", model: "m", stop_reason: "end_turn", stop_sequence: null },
  ...{ content: [{ type: "text", text: "ok" }], usage: { input_tokens: 1, output_tokens: 1 } },
};
const mark = { type: "ephemeral", ttl: "1h", scope: "global" };
/** As Claude Code asks its own vendor. */
const ASKED = {
  max_tokens: 50,
  system: [{ type: "text", text: "S", cache_control: mark }],
  context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
  output_config: { effort: "medium" },
  tools: [
    { name: "a", input_schema: { type: "object" }, eager_input_streaming: true },
    { name: "b", input_schema: { type: "object" }, eager_input_streaming: true, cache_control: mark },
  ],
  messages: [{ role: "user", content: [{ type: "text", text: "u", cache_control: mark }] }],
};
const BETAS = { "anthropic-beta": "claude-code-20250219,effort-2025-11-24", "anthropic-version": "2023-06-01" };

/** One refusal at a time, each for what stands in the request still. */
const REFUSALS: [refused: (body: Wire, call: Call) => boolean, message: string][] = [
  [(body, { headers }) => "anthropic_beta" in body || "anthropic-beta" in headers, "invalid beta flag"],
  [(body) => "context_management" in body, "context_management: Extra inputs are not permitted"],
  [
    (body) => JSON.stringify(body).includes("eager"),
    "tools.1.custom.eager_input_streaming: Extra inputs are not permitted",
  ],
  [(body) => "output_config" in body, "output_config.effort: Extra inputs are not permitted"],
  [
    ({ system }) => JSON.stringify(system).includes("scope"),
    "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted",
  ],
  [
    ({ messages }) => JSON.stringify(messages).includes("ttl"),
    "messages.0.content.0.text.cache_control.ephemeral.ttl: Extra inputs are not permitted",
  ],
];
const LOST = [
  "anthropic-beta",
  "context_management",
  "messages[].content[].cache_control.ttl",
  "output_config.effort",
  "system[].cache_control.scope",
  "tools[].eager_input_streaming",
];
const lostIn = (response: Response) => response.headers.get("x-sluice-dropped")?.split(", ").sort();

let upstream: Upstream;
let gateway: TestApp;
const clock = manualClock();
beforeAll(async () => {
  upstream = startUpstream();
  // As a file has it that says nothing of what the server knows.
  const gate = { id: "gate", dialect: "messages" as const, base_url: upstream.url, api_key: "vendor-key-of-gate" };
  const given = { registry, fromEnvironment, environment: {}, rows: [gate], models: [] };
  gateway = await startApp({
    clock,
    vendors: [
      ...resolveVendors(given).vendors,
      vendorAt(upstream, "messages", "rock", { versionInBody: "v-1", refusesExtras: true }),
      vendorAt(upstream, "messages", "newer", { refusesExtras: true }),
      vendorAt(upstream, "messages", "own", { refusesExtras: false }),
      vendorAt(upstream, "responses", "lab"),
      vendorAt(upstream, "responses", "all", { customTools: true }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});
afterEach(() => upstream.reset());

function refuseExtras(): void {
  upstream.always("/v1/messages", (call) => {
    const found = REFUSALS.find(([isRefused]) => isRefused(call.json as Wire, call));
    if (!found) return json(REPLY);
    return json({ type: "error", error: { type: "invalid_request_error", message: found[1] } }, { status: 400 });
  });
}

const ask = (model: string, headers: Record<string, string> = BETAS) =>
  gateway.post("/v1/messages", { model, ...ASKED }, { headers });

describe("a vendor of the messages dialect that does not know what is newer", () => {
  const text = (words: string, more: Wire = {}) => ({ type: "text", text: words, ...more });
  const called = { role: "assistant", content: [{ type: "tool_use", id: "t", name: "a", input: {} }] };
  const result = { type: "tool_result", tool_use_id: "t", content: "r" };
  const hour = { type: "ephemeral", ttl: "1h" };
  test.each<[asked: Wire[], told: Wire[]]>([
    [[{ role: "user", content: "u" }], [{ role: "user", content: [text("u", { cache_control: hour })] }]],
    [
      [{ role: "user", content: [text("a"), text("b")] }],
      [{ role: "user", content: [text("a"), text("b", { cache_control: hour })] }],
    ],
    [
      [{ role: "user", content: "u" }, called, { role: "user", content: [result] }],
      [{ role: "user", content: "u" }, called, { role: "user", content: [{ ...result, cache_control: hour }] }],
    ],
    // What is marked already needs none.
    [
      [{ role: "user", content: [text("u", { cache_control: { type: "ephemeral" } })] }],
      [{ role: "user", content: [text("u", { cache_control: { type: "ephemeral" } })] }],
    ],
  ])("is told the mark that stands for the whole request where it knows it, at its end: %j", async (messages, told) => {
    const model = `rock/auto-${Bun.hash(JSON.stringify(messages))}`;
    upstream.always("/v1/messages", ({ json: body }) => {
      if (!("cache_control" in (body as Wire))) return json(REPLY);
      // Bedrock and Vertex (UKGovernmentBEIS/inspect_ai #3851).
      const message = "cache_control: Extra inputs are not permitted";
      return json({ type: "error", error: { type: "invalid_request_error", message } }, { status: 400 });
    });
    const system = [text("S", { cache_control: hour })];
    for (const calls of [2, 1]) {
      const asked = { model, max_tokens: 50, cache_control: hour, system, messages };
      const response = await gateway.post("/v1/messages", asked);
      expect([response.status, lostIn(response), upstream.calls.length]).toEqual([200, undefined, calls]);
      expect(upstream.calls.at(-1)?.json).toMatchObject({ system, messages: told });
      expect(upstream.calls.at(-1)?.json).not.toContainKey("cache_control");
      upstream.calls.length = 0;
    }
  });

  test.each(["rock", "newer", "gate"])("is told the request without it, and later ones at once: %s", async (vendor) => {
    refuseExtras();
    const first = await ask(`${vendor}/m`);
    expect([first.status, lostIn(first)]).toEqual([200, LOST]);
    expect(upstream.calls.length).toBe(REFUSALS.length + 1);
    expect(upstream.calls.at(-1)?.json).toMatchObject({
      system: [{ type: "text", text: "S", cache_control: { type: "ephemeral", ttl: "1h" } }],
      tools: [{ name: "a" }, { name: "b", cache_control: mark }],
      messages: [{ role: "user", content: [{ type: "text", text: "u", cache_control: { type: "ephemeral" } }] }],
    });
    const before = upstream.calls.length;
    const second = await ask(`${vendor}/m`);
    expect([second.status, lostIn(second), upstream.calls.length - before]).toEqual([200, LOST, 1]);
    // Each model refuses for itself, and who wants nothing left out is refused before anything is sent.
    const strict = await ask(`${vendor}/m`, { ...BETAS, "x-sluice-strict": "1" });
    expect([strict.status, upstream.calls.length - before]).toEqual([400, 1]);
    expect((await ask(`${vendor}/other`)).status).toBe(200);
    expect(upstream.calls.length - before).toBe(2 + REFUSALS.length);
  });

  // Claude Code's newer ones: Bedrock knows how a turn's own effort is told, and not the scope of a cache.
  test.each(["rock", "newer"])("is told the betas that it did not name: %s", async (vendor) => {
    const KNOWN = ["claude-code-20250219", "per-turn-control-2026-07-01"];
    upstream.always("/v1/messages", (call) => {
      const own = (call.json as Wire)["anthropic_beta"] ?? call.headers["anthropic-beta"]?.split(",") ?? [];
      const unknown = (own as string[]).filter((beta) => !KNOWN.includes(beta));
      const names = unknown.map((beta) => `\`${beta}\``).join(", ");
      const message = `Unexpected value(s) ${names} for the \`anthropic-beta\` header. Please consult our documentation at docs.claude.com or try again without the header.`;
      return unknown.length === 0 ? json(REPLY) : json({ message }, { status: 400 });
    });
    const told = () => {
      const { json: body, headers } = upstream.calls.at(-1)!;
      return (body as Wire)["anthropic_beta"] ?? headers["anthropic-beta"]?.split(",");
    };
    const betas = [...KNOWN, "prompt-caching-scope-2026-01-05", "advisor-tool-2026-03-01"].join(",");
    const first = await ask(`${vendor}/named`, { "anthropic-beta": betas });
    expect([first.status, lostIn(first), upstream.calls.length]).toEqual([200, ["anthropic-beta"], 2]);
    expect(told()).toEqual(KNOWN);
    // Whatever stands beside them.
    await ask(`${vendor}/named`, { "anthropic-beta": "claude-code-20250219, advisor-tool-2026-03-01" });
    expect([upstream.calls.length, told()]).toEqual([3, KNOWN.slice(0, 1)]);
    const none = await ask(`${vendor}/named`, { "anthropic-beta": "advisor-tool-2026-03-01" });
    expect([none.status, lostIn(none), upstream.calls.length, told()]).toEqual([200, ["anthropic-beta"], 4, undefined]);
    const all = await ask(`${vendor}/named`, { "anthropic-beta": KNOWN[1]! });
    expect([all.headers.get("x-sluice-dropped"), told()]).toEqual([null, KNOWN.slice(1)]);
  });

  test("is asked again after an hour, since it may have learnt", async () => {
    refuseExtras();
    await ask("rock/late");
    await clock.advance(KEPT_MS);
    upstream.reset();
    upstream.always("/v1/messages", json(REPLY));
    const response = await ask("rock/late");
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect((upstream.calls[0]!.json as Wire)["anthropic_beta"]).toEqual(BETAS["anthropic-beta"].split(","));
  });

  test("is told a field that it names by its place, as Fireworks does, in no tool", async () => {
    upstream.always("/v1/messages", ({ text: body }) => {
      const message = "Extra inputs are not permitted, field: 'tools[0].eager_input_streaming', value: True";
      return body.includes("eager") ? json({ error: { message } }, { status: 400 }) : json(REPLY);
    });
    const response = await ask("gate/placed");
    expect([response.status, lostIn(response), upstream.calls.length]).toEqual([
      200,
      ["tools[].eager_input_streaming"],
      2,
    ]);
  });

  test("what the gateway wrote for a client of another dialect is left out too", async () => {
    upstream.always("/v1/messages", (call) => {
      const isRefused = call.text.includes("strict");
      const message = "tools.0.custom.strict: Extra inputs are not permitted";
      return isRefused ? json({ message }, { status: 400 }) : json(REPLY);
    });
    const parameters = { type: "object", properties: {}, additionalProperties: false };
    const tools = [{ type: "function", function: { name: "f", parameters, strict: true } }];
    const body = { model: "rock/strict", messages: [{ role: "user", content: "u" }], tools };
    const response = await gateway.post("/v1/chat/completions", body);
    expect([response.status, lostIn(response), upstream.calls.length]).toEqual([200, ["tools[].strict"], 2]);
  });

  test("a vendor that refuses one thing after another is asked so often and no more", async () => {
    let count = 0;
    upstream.always("/v1/messages", () => {
      return json({ message: `x${count++}: Extra inputs are not permitted` }, { status: 400 });
    });
    const response = await ask("rock/never");
    expect([response.status, count]).toEqual([400, 9]);
  });

  test("other betas are told, and other accounts learn for themselves", async () => {
    refuseExtras();
    await ask("rock/shared");
    upstream.reset();
    upstream.always("/v1/messages", json(REPLY));
    await ask("rock/shared", { "anthropic-beta": "effort-2025-11-24" });
    expect((upstream.calls[0]!.json as Wire)["anthropic_beta"]).toEqual(["effort-2025-11-24"]);
    const { app, store } = gateway;
    const writer = new Writer(store, clock);
    const other = await new Accounts(store, writer, app.keys, clock).create({ name: "other", plan: "local" });
    await writer.close();
    const { key } = await app.keys.create({ accountId: other.id, name: "other", kind: "api" });
    await ask("rock/shared", { ...BETAS, authorization: `Bearer ${key}` });
    expect(upstream.calls[1]!.json).toMatchObject({ context_management: ASKED.context_management });
  });

  test("other refusals stay", async () => {
    for (const message of [
      "max_tokens: Extra inputs are not permitted",
      "messages.0.content.0.text.text: field required",
    ]) {
      upstream.reset();
      upstream.always("/v1/messages", json({ message }, { status: 400 }));
      const response = await ask("rock/m2");
      expect([response.status, upstream.calls.length]).toEqual([400, 1]);
      expect(await response.text()).toContain(message);
    }
  });

  test("the dialect's own vendor has the last word", async () => {
    refuseExtras();
    const response = await ask("own/m");
    expect([response.status, upstream.calls.length]).toEqual([400, 1]);
    expect(await response.text()).toContain("invalid beta flag");
  });
});

test("paths of what is refused, in whatever words stand around them", () => {
  expect(readRefusedExtras("The model returned the following errors: a_b: Extra inputs are not permitted")).toEqual([
    "a_b",
  ]);
  expect(readRefusedExtras("a.0.b: Extra inputs are not permitted, c: Extra inputs are not permitted")).toEqual([
    "a.0.b",
    "c",
  ]);
  expect(readRefusedExtras("model: Extra inputs are not permitted. a: Field required")).toEqual([]);
  expect(readRefusedExtras("messages.0.content.0.text.source: Extra inputs are not permitted")).toEqual([]);
  // Fireworks', of which no more than the first field is read: behind it stand values.
  expect(
    readRefusedExtras(
      "2 request validation errors: Extra inputs are not permitted, field: 'tools[0].eager_input_streaming', value: True; Extra inputs are not permitted, field: 'tools[1].defer', value: True",
    ),
  ).toEqual(["tools.0.eager_input_streaming"]);
  expect(readRefusedExtras("Extra inputs are not permitted, field: 'system', value: 'x'")).toEqual([]);
  // TensorRT-LLM's, of calls that must not be made side by side.
  expect(readRefusedExtras("tool_choice.disable_parallel_tool_use=true is not supported")).toEqual([
    "tool_choice.disable_parallel_tool_use",
  ]);
  expect(readRefusedExtras("stream=true is not supported")).toEqual([]);
  // What a request says is quoted: no caller tells what others may say.
  expect(readRefusedExtras("Unexpected value(s) `a-1`, `b-2` for the `anthropic-beta` header.")).toEqual([
    "anthropic-beta: a-1",
    "anthropic-beta: b-2",
  ]);
  for (const quoted of [
    "system.0.cache_control: Extra inputs are not permitted",
    "invalid beta flag",
    "Unexpected value(s) `a-1` for the `anthropic-beta` header.",
  ])
    expect(readRefusedExtras(`tools.0: Input tag '${quoted}' found using 'type' does not match`)).toEqual([]);
  const tag = { type: "tag" };
  const body = {
    a: [
      { b: 1, ...tag },
      { b: 2, c: 3, type: "other" },
    ],
    d: { e: 1 },
    f: { g: { h: 1, ...tag }, i: 2 },
  };
  expect(leaveOutExtras(body, ["a.1.tag.b", "d.e", "f.g.tag.h", "z", "a.x.c"])).toEqual({
    edits: { a: [tag, { b: 2, c: 3, type: "other" }], d: undefined, f: { g: tag, i: 2 } },
    lost: ["a[].b", "d.e", "f.g.h"],
  });
});

const RESPONSE = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m" },
  output: [
    {
      ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
      content: [{ type: "output_text", text: "ok", annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};

/** Codex tells servers that it takes for OpenAI's what only OpenAI knows (openai/codex #46481; lidge-jun/opencodex #4853; Wei-Shaw/sub2api #7066). */
describe("a server of the responses dialect that names a field that it does not know", () => {
  const passthrough = { content_item_kinds: ["text"] };
  const item = { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] };
  const call = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}", status: "completed" };
  const agent = {
    access_programs: { cyber: "trusted" },
    text: { verbosity: "low" },
    input: [
      { ...item, internal_chat_message_metadata_passthrough: passthrough },
      call,
      { type: "function_call_output", call_id: "c", output: "x" },
      { ...item, internal_chat_message_metadata_passthrough: passthrough },
    ],
  };
  const NOT_ENABLED = "The access_programs parameter is not enabled for this organization.";
  const refusing = (field: string, message: string) =>
    upstream.always("/v1/responses", ({ json: body }) =>
      JSON.stringify(body).includes(`"${field}"`)
        ? json({ error: { message, type: "invalid_request_error" } }, { status: 400 })
        : json(RESPONSE),
    );
  const say = async (model: string, headers: Record<string, string> = {}) => {
    const response = await gateway.post("/v1/responses", { model, ...agent }, { headers });
    await response.arrayBuffer();
    return [response.status, response.headers.get("x-sluice-dropped"), upstream.calls.length];
  };

  test.each([
    ["access_programs", NOT_ENABLED, "access_programs", "all"],
    ["access_programs", NOT_ENABLED, "access_programs", "lab"],
    ["access_programs", "Unknown parameter: 'access_programs'.", "access_programs", "lab"],
    [
      "access_programs",
      "Error from provider (Console Go): Upstream request failed: [invalid_request_error] unknown parameter `access_programs`",
      "access_programs",
      "lab",
    ],
    [
      "internal_chat_message_metadata_passthrough",
      "[trace_id: ceb9e21a] Unknown parameter: 'input[0].internal_chat_message_metadata_passthrough.content_item_kinds'.",
      "input[].internal_chat_message_metadata_passthrough.content_item_kinds",
      "lab",
    ],
    ["status", "Unknown parameter: 'input[1].status'.", "input[].status", "lab"],
    ...[
      "Argument not supported: access_programs",
      "[{'type': 'extra_forbidden', 'loc': ('body', 'access_programs'), 'msg': 'Extra inputs are not permitted', 'input': {}}]",
      "Extra inputs are not permitted, field: 'access_programs', value: {}",
      "property 'access_programs' is unsupported",
      "Failed to deserialize the JSON body into the target type: unknown field `access_programs`, expected one of `model`, `input`",
      "Unrecognized key(s) in object: 'access_programs'",
    ].map((words): [string, string, string, string] => ["access_programs", words, "access_programs", "lab"]),
    ...["lab", "all"].map((vendor): [string, string, string, string] => [
      "verbosity",
      "Unsupported parameter: 'text.verbosity' is not supported with this model.",
      "text.verbosity",
      vendor,
    ]),
  ])("is told the request without %s, and later ones at once (%s)", async (field, message, lost, vendor) => {
    const model = `${vendor}/${field}-${Bun.hash(message).toString(36)}`;
    refusing(field, message);
    expect(await say(model)).toEqual([200, lost, 2]);
    expect(await say(model)).toEqual([200, lost, 3]);
    expect(upstream.calls.at(-1)?.json).toMatchObject({ input: [item, { call_id: "c" }, { output: "x" }, item] });
    expect(await say(model, { "x-sluice-strict": "1" })).toEqual([400, null, 3]);
    await clock.advance(KEPT_MS);
    expect(await say(model)).toEqual([200, lost, 5]);
  });

  test.each([
    ["what the request is made of", "lab", "name", "Unknown parameter: 'input[1].name'."],
    ["what is refused for another reason", "lab", "verbosity", "Unknown parameter: 'text.verbosity' of 'low'"],
    ["what a client misspells to who knows all", "all", "access_programs", "Unknown parameter: 'access_programs'."],
  ])("is told %s no other way", async (_, vendor, field, message) => {
    refusing(field, message);
    expect(await say(`${vendor}/kept`)).toEqual([400, null, 1]);
  });
});
