import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { startApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream } from "../support/upstream.ts";
import { ONE_ROUTE, PATH, type ScenarioLab, startScenarioLab } from "./lab.ts";
import { readRecords, SAID, type Side, saidIn, soundStream, WIRES } from "./wires.ts";

type Wire = Record<string, unknown>;

let lab: ScenarioLab;
beforeEach(async () => {
  lab = await startScenarioLab();
});
afterEach(() => lab.stop());

const parameters = { type: "object", properties: { path: { type: "string" } } };
const READ = { type: "function", function: { name: "Read", description: "Reads.", parameters } };
const GRAMMAR = { syntax: "lark", definition: "start: WORD" };
/** A custom tool as the responses dialect has it, and as the chat dialect does. */
const FLAT_PATCH = {
  type: "custom",
  name: "ApplyPatch",
  description: "Patches.",
  format: { type: "grammar", ...GRAMMAR },
};
const PATCH = {
  type: "custom",
  custom: { name: "ApplyPatch", description: "Patches.", format: { type: "grammar", grammar: GRAMMAR } },
};
const user = { role: "user", content: "Mend it." };

/** Asks a vendor of either dialect at the chat endpoint; what it was sent. */
async function ask(body: Wire, vendor: Side = "chat") {
  const { answer, calls } = lab.vendors[vendor];
  answer(PATH[vendor], json(WIRES[vendor].reply()));
  const response = await lab.gateway.post(PATH.chat, { model: ONE_ROUTE[vendor], ...body });
  const told = (await response.json()) as { choices?: { message: Wire }[]; error?: { param: string } };
  const sent = calls[0]?.json as (Wire & { messages: Wire[]; tools: Wire[] }) | undefined;
  return { status: response.status, dropped: response.headers.get("x-sluice-dropped"), told, sent };
}

describe("a chat client that tells its tools as another dialect does", () => {
  test("has a custom tool of the responses dialect beside functions of its own", async () => {
    const { status, dropped, sent } = await ask({ messages: [user], tools: [READ, FLAT_PATCH], tool_choice: "auto" });
    expect([status, dropped, sent?.tools]).toEqual([200, null, [READ, PATCH]]);
    expect(sent).toMatchObject({ messages: [user], tool_choice: "auto" });
  });

  test("has functions of that dialect, and names one of them", async () => {
    const flat = { type: "function", name: "Read", description: "Reads.", parameters, strict: false };
    const asked = { messages: [user], tools: [flat, FLAT_PATCH], tool_choice: { type: "custom", name: "ApplyPatch" } };
    const { sent } = await ask(asked);
    expect(sent?.tools).toEqual([{ ...READ, function: { ...READ.function, strict: false } }, PATCH]);
    expect(sent?.["tool_choice"]).toEqual({ type: "custom", custom: { name: "ApplyPatch" } });
  });

  const CLAUDES = [{ name: "Read", description: "Reads.", input_schema: parameters }];
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
  const conversation = [
    user,
    { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "Read", input: { path: "a" } }] },
    {
      role: "user",
      content: [
        { type: "text", text: "And now?" },
        { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "Found." }, image] },
      ],
    },
  ];

  test("has tools, calls and results of the messages dialect", async () => {
    const asked = { messages: conversation, tools: CLAUDES, tool_choice: { type: "any" } };
    const { status, dropped, sent } = await ask(asked);
    expect([status, dropped, sent?.tools, sent?.["tool_choice"]]).toEqual([200, null, [READ], "required"]);
    const called = { name: "Read", arguments: '{"path":"a"}' };
    const shown = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
    expect(sent?.messages).toEqual([
      user,
      { role: "assistant", content: null, tool_calls: [{ id: "toolu_1", type: "function", function: called }] },
      { role: "tool", tool_call_id: "toolu_1", content: [{ type: "text", text: "Found." }, shown] },
      { role: "user", content: [{ type: "text", text: "And now?" }] },
    ]);
  });

  test("shows images of the messages dialect itself, to vendors of either dialect", async () => {
    const byAddress = { type: "image", source: { type: "url", url: "https://example.com/a.png" } };
    const seen = [
      { role: "user", content: [{ type: "text", text: "Mend it." }, image, byAddress] },
      conversation[1],
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "Found." }, image] },
      { role: "user", content: [{ ...image, cache_control: { type: "ephemeral" } }] },
    ];
    const { status, dropped, sent } = await ask({ messages: seen, tools: CLAUDES });
    const shown = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
    expect([status, dropped]).toEqual([200, null]);
    expect(sent?.messages[0]).toEqual({
      role: "user",
      content: [
        { type: "text", text: "Mend it." },
        shown,
        { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      ],
    });
    expect(sent?.messages.slice(2)).toEqual([
      { role: "tool", tool_call_id: "toolu_1", content: "Found." },
      { role: "user", content: [shown] },
      { role: "user", content: [{ ...shown, cache_control: { type: "ephemeral" } }] },
    ]);
    const claude = await ask({ messages: seen, tools: CLAUDES }, "messages");
    expect([claude.status, claude.dropped]).toEqual([200, null]);
    expect(claude.sent?.messages[0]).toMatchObject({ content: [{ text: "Mend it." }, image, byAddress] });
  });

  test("is told of what this dialect has no word for, and calls one tool at a time where it asks for that", async () => {
    const failed = { type: "tool_result", tool_use_id: "toolu_1", content: "No such file.", is_error: true };
    const asked = {
      messages: [user, conversation[1]!, { role: "user", content: [failed] }],
      tools: [{ ...CLAUDES[0], cache_control: { type: "ephemeral" }, defer_loading: true }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
    };
    const { status, dropped, sent } = await ask(asked);
    expect([status, dropped]).toEqual([200, "tools[0].defer_loading, messages[2].content[0].is_error"]);
    expect(sent).toMatchObject({ tool_choice: "auto", parallel_tool_calls: false });
  });

  test("keeps each digit of a long number in its calls", async () => {
    const use = { type: "tool_use", id: "toolu_1", name: "Read", input: { id: "LONG" } };
    const body = JSON.stringify({
      model: ONE_ROUTE.chat,
      messages: [user, { role: "assistant", content: [use] }, conversation[2]],
      tools: CLAUDES,
    }).replace('"LONG"', "12345678901234567890");
    const { answer, calls } = lab.vendors.chat;
    answer(PATH.chat, json(WIRES.chat.reply()));
    expect((await lab.gateway.post(PATH.chat, body)).status).toBe(200);
    expect(calls[0]?.json).toMatchObject({
      messages: [user, { tool_calls: [{ function: { arguments: '{"id":12345678901234567890}' } }] }, {}, {}],
    });
  });

  test("has them reach a vendor of that dialect as they were", async () => {
    const { status, sent } = await ask({ messages: conversation, tools: CLAUDES }, "messages");
    expect([status, sent?.tools]).toMatchObject([200, CLAUDES]);
    expect(sent?.messages[1]).toEqual(conversation[1]!);
    const said = [
      { type: "tool_result", tool_use_id: "toolu_1" },
      { type: "text", text: "And now?" },
    ];
    expect(sent?.messages[2]).toMatchObject({ content: said });
  });

  test("is told of a tool without a name, as before", async () => {
    const { status, told } = await ask({ messages: [user], tools: [{ type: "custom", description: "Patches." }] });
    expect([status, told.error?.param]).toEqual([400, "tools[0].custom"]);
  });
});

describe("a responses client that says its effort as the chat dialect does", () => {
  const summary = { summary: "auto" };
  test.each<[string, Wire, Wire | undefined]>([
    ["alone", { reasoning_effort: "medium" }, { effort: "medium" }],
    [
      "beside what else is said of reasoning",
      { reasoning_effort: "medium", reasoning: summary },
      { ...summary, effort: "medium" },
    ],
    ["beside its own", { reasoning_effort: "medium", reasoning: { effort: "low" } }, { effort: "low" }],
    ["in no word at all", { reasoning_effort: null }, undefined],
  ])("is heard: %s", async (_how, said, reasoning) => {
    const upstream = startUpstream();
    const app = await startApp({ vendors: [{ ...vendorAt(upstream, "responses", "agents"), models: "any" }] });
    try {
      upstream.answer("/v1/responses", json({ id: "r", object: "response", status: "completed", output: [] }));
      const response = await app.post("/v1/responses", { model: "agents/m", input: "Hi", ...said });
      await response.text();
      const sent = upstream.calls[0]?.json as Wire;
      expect([sent["reasoning"], sent["reasoning_effort"] ?? undefined]).toEqual([reasoning, undefined]);
      expect(response.headers.get("x-sluice-dropped")).toBeNull();
    } finally {
      await app.stop();
      upstream.close();
    }
  });
});

describe("a whole body of the responses dialect at the chat endpoint", () => {
  const input = [
    { role: "user", content: [{ type: "input_text", text: "Mend it." }] },
    { type: "custom_tool_call", call_id: "call_1", name: "ApplyPatch", input: "*** Begin" },
    { type: "custom_tool_call_output", call_id: "call_1", output: "Done." },
  ];
  const body = {
    input,
    tools: [FLAT_PATCH],
    reasoning: { effort: "low" },
    max_output_tokens: 50,
    metadata: { trace: "t" },
    store: false,
  };

  test("is asked in the chat dialect, and answered in it", async () => {
    const { status, dropped, told, sent } = await ask(body);
    expect([status, dropped, told.choices?.[0]?.message["content"]]).toEqual([200, null, SAID]);
    expect(sent).toMatchObject({ tools: [PATCH], reasoning_effort: "low", metadata: { trace: "t" } });
    expect(sent?.["max_completion_tokens"]).toBe(50);
    const called = { name: "ApplyPatch", input: "*** Begin" };
    expect(sent?.messages).toEqual([
      user,
      { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "custom", custom: called }] },
      { role: "tool", tool_call_id: "call_1", content: "Done." },
    ]);
  });

  test("is answered by a stream of the chat dialect", async () => {
    lab.vendors.chat.answer(PATH.chat, sse([soundStream(WIRES.chat)]));
    const response = await lab.gateway.post(PATH.chat, { model: ONE_ROUTE.chat, input: "Mend it.", stream: true });
    expect(saidIn("chat", readRecords(await response.text()))).toBe(SAID);
  });

  test("loses nothing of what both dialects say of a stream", async () => {
    lab.vendors.chat.answer(PATH.chat, sse([soundStream(WIRES.chat)]));
    const asked = { model: ONE_ROUTE.chat, input: "Mend it.", stream: true, stream_options: { include_usage: true } };
    const response = await lab.gateway.post(PATH.chat, asked, { headers: { "x-sluice-strict": "1" } });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(readRecords(await response.text()).at(-2)?.value).toMatchObject({ choices: [], usage: {} });
  });

  test("is refused by its own fields' names where it is none", async () => {
    expect((await ask({ input: 5 })).told.error?.param).toBe("input");
    expect((await ask({})).told.error?.param).toBe("messages");
  });
});
