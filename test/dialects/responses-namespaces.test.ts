import { describe, expect, test } from "bun:test";
import type { Event } from "../../src/canon/events.ts";
import { dialects } from "../../src/dialects/index.ts";
import { changeEvents } from "../../src/dialects/reply/changer.ts";
import { countWork } from "../support/wait.ts";
import { chatStream, chunk, contextOf, recordsOf, reply, send, stream, UPSTREAMS, type Wire } from "./crossing.ts";

const search = (more: Wire = {}) => ({ type: "function", name: "search", parameters: { type: "object" }, ...more });
const space = (name: string, ...tools: Wire[]) => ({ type: "namespace", name, tools });
const user = { role: "user", content: "Hi" };
/** What a search for tools is given, and how agents mark what it finds (openai/codex). */
const FINDER = { type: "object", properties: { query: { type: "string" } } };
const LATE = { defer_loading: true };
/** A conversation as newer Codex sends it: no tools in their list, a call of one in a namespace. */
const asked: Wire = {
  tools: [],
  tool_choice: "auto",
  input: [
    {
      type: "additional_tools",
      role: "developer",
      tools: [
        space("mcp__a", search()),
        space("mcp__b", search({ description: "b" })),
        space("functions", { type: "custom", name: "exec" }),
        search(),
        { type: "web_search" },
      ],
    },
    user,
    { type: "function_call", call_id: "c1", namespace: "mcp__a", name: "search", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "r" },
  ],
};
const WAY = { from: "responses", to: "chat" } as const;

describe("tools of namespaces, and those that the input brings, for another dialect", () => {
  test.each(UPSTREAMS.filter((to) => to !== "responses"))("%s: each is offered under a legal name of its own", (to) => {
    const { body, text, dropped } = send({ from: "responses", to }, asked);
    const names = ["mcp__a_search", "mcp__b_search", "functions_exec", "search"];
    const offered = [...JSON.stringify(body["tools"]).matchAll(/"name":"(\w+)"/g)].map(([, name]) => name);
    expect(offered).toEqual(names);
    expect(text.match(/"mcp__a_search"/g)?.length).toBeGreaterThan(1);
    expect(dropped).toEqual(["input[0].tools[4]"]);
  });

  /** Two searches of the client's, one of which finds the other's tool again (openai/codex). */
  const searched: Wire = {
    tools: [search(), { type: "tool_search", execution: "client", description: "d", parameters: FINDER }],
    input: [
      user,
      { type: "tool_search_call", call_id: "s1", execution: "client", arguments: { query: "a" } },
      { type: "tool_search_output", call_id: "s1", execution: "client", tools: [space("mcp__a", search(LATE))] },
      { type: "tool_search_call", call_id: "s2", execution: "client", arguments: { query: "b" } },
      {
        type: "tool_search_output",
        call_id: "s2",
        execution: "client",
        tools: [space("mcp__a", search(LATE)), space("mcp__b", search(LATE))],
      },
      { type: "function_call", call_id: "c1", namespace: "mcp__b", name: "search", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "r" },
    ],
  };

  test.each(UPSTREAMS.filter((to) => to !== "responses"))("%s: what a search has found is offered, once", (to) => {
    const { body, dropped } = send({ from: "responses", to }, searched);
    const offered = [...JSON.stringify(body["tools"]).matchAll(/"name":"(\w+)"/g)].map(([, name]) => name);
    expect(offered).toEqual(["search", "tool_search", "mcp__a_search", "mcp__b_search"]);
    expect(dropped).toEqual([]);
  });

  test("a client's own search for tools is a function for other dialects, what it found its result", () => {
    const { body } = send(WAY, searched);
    const [, offered] = body["tools"] as Wire[];
    expect(offered).toEqual({
      type: "function",
      function: { name: "tool_search", description: "d", parameters: FINDER },
    });
    const told = "These tools can be called from now on: mcp__a_search";
    expect((body["messages"] as Wire[]).slice(1, 5)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: "s1", function: { name: "tool_search", arguments: '{"query":"a"}' } }] },
      { role: "tool", tool_call_id: "s1", content: told },
      { role: "assistant", tool_calls: [{ id: "s2", function: { name: "tool_search", arguments: '{"query":"b"}' } }] },
      { role: "tool", tool_call_id: "s2", content: `${told}, mcp__b_search` },
    ]);
  });

  test("tools that are loaded late wait for the client's own search, which says what it can load", () => {
    const late = search({ name: "late", description: "Later.", ...LATE });
    const crm = { ...space("crm", search(LATE)), description: "Orders." };
    const finder = { type: "tool_search", execution: "client", description: "Loads tools.", parameters: FINDER };
    const tools = [search(), late, crm, finder];
    const { body, dropped } = send(WAY, { tools, input: [user] });
    expect(dropped).toEqual([]);
    expect(body["tools"]).toMatchObject([
      { function: { name: "search" } },
      {
        function: { name: "tool_search", description: "Loads tools.\n\nIt can load:\n- late: Later.\n- crm: Orders." },
      },
    ]);
    const found = { type: "tool_search_output", call_id: "s", execution: "client", tools: [crm] };
    const call = { type: "tool_search_call", call_id: "s", execution: "client", arguments: {} };
    const after = send(WAY, { tools, input: [user, call, found] }).body["tools"] as { function: Wire }[];
    expect(after.map((tool) => tool.function["name"])).toEqual(["search", "tool_search", "crm_search"]);
    // What its own vendor would search for is offered at once.
    const hosted = send(WAY, { tools: [late, { type: "tool_search" }], input: [user] });
    expect(hosted.body["tools"]).toMatchObject([{ function: { name: "late" } }]);
    expect(hosted.dropped).toEqual(["tools[0].defer_loading", "tools[1]"]);
  });

  test("a search that found nothing says so; one that the vendor ran is none of the client's", () => {
    const hosted = { execution: "server", call_id: null };
    const found = [search({ name: "late" })];
    const input = [
      user,
      { type: "tool_search_call", ...hosted, arguments: { paths: ["crm"] } },
      { type: "tool_search_output", ...hosted, tools: found },
      { type: "tool_search_call", call_id: "s", execution: "client", arguments: {} },
      { type: "tool_search_output", call_id: "s", execution: "client", tools: [] },
    ];
    const { body, dropped } = send(WAY, { tools: [{ type: "tool_search" }], input });
    expect(dropped).toEqual(["input[1]", "tools[0]"]);
    expect((body["messages"] as Wire[]).slice(1)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: "s", function: { name: "tool_search", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "s", content: "No tools were found." },
    ]);
    expect(body["tools"]).toMatchObject([{ function: { name: "late" } }]);
  });

  test.each(UPSTREAMS.filter((to) => to !== "responses"))("%s: a call of the search comes back as one", (to) => {
    const { changes } = send({ from: "responses", to }, { ...searched, stream: true });
    const events: Event[] = [
      { type: "start" },
      { type: "block-start", block: { kind: "tool-call", id: "s3", name: "tool_search" } },
      { type: "block-delta", text: '{"query":' },
      { type: "block-delta", text: '"c"}' },
      { type: "block-end" },
      { type: "block-start", block: { kind: "tool-call", id: "s4", name: "tool_search" } },
      { type: "block-end" },
      { type: "finish", finish: { reason: "tool-calls" } },
    ];
    const one = { type: "tool_search_call", execution: "client" };
    const whole = [
      { ...one, call_id: "s3", status: "completed", arguments: { query: "c" } },
      { ...one, call_id: "s4", status: "completed", arguments: {} },
    ];
    const context = contextOf(changes);
    const changed = changeEvents(events, changes);
    expect(dialects.responses.encodeReply(changed, context)["output"]).toMatchObject(whole);
    const encoder = dialects.responses.encoder(context);
    const records = recordsOf(changed.map((event) => encoder.push(event)).join("") + encoder.end());
    const items = records.flatMap(({ type, item }) => (item === undefined ? [] : [{ type, item }]));
    expect(items).toMatchObject(
      whole.flatMap((item) => [
        { type: "response.output_item.added", item: { ...item, status: "in_progress", arguments: {} } },
        { type: "response.output_item.done", item },
      ]),
    );
    // Its vendor has no records for what it is given.
    expect(records.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      ...items.map(({ type }) => type),
      "response.completed",
    ]);
    // An agent sends it back as it came.
    const output = { type: "tool_search_output", call_id: "s3", execution: "client", tools: [] };
    const again = send({ from: "responses", to }, { ...searched, input: [user, items[1]?.item, output] });
    expect(again.text).toContain("No tools were found.");
    expect(again.dropped).toEqual([]);
  });

  const call = (id: string, name: string, given: string) => ({
    id,
    type: "function",
    function: { name, arguments: given },
  });

  test("many searches cost their length, not its square", () => {
    const found = (at: number) => ({ type: "tool_search_output", tools: [search({ name: `t${at}` })] });
    const input = [user, ...Array.from({ length: 20_000 }, (_, at) => found(at % 15_000))];
    const work = countWork();
    expect((send(WAY, { input }).body["tools"] as Wire[]).length).toBe(15_000);
    // A tenth of a second; with all that are known gathered anew for each search it is six.
    expect(work()).toBeLessThan(2_000);
  });

  test("calls of them come back as the client knows them, whole and streamed", () => {
    const { changes } = send(WAY, asked);
    const calls = [
      call("1", "mcp__b_search", "{}"),
      call("2", "functions_exec", '{"input":"ls"}'),
      call("3", "search", "{}"),
    ];
    const message = { role: "assistant", content: null, tool_calls: calls };
    const body = { id: "c", created: 1, model: "m", choices: [{ index: 0, message, finish_reason: "tool_calls" }] };
    const expected = [
      { type: "function_call", call_id: "1", namespace: "mcp__b", name: "search" },
      { type: "custom_tool_call", call_id: "2", namespace: "functions", name: "exec", input: "ls" },
      { type: "function_call", call_id: "3", name: "search" },
    ];
    const items = reply(WAY, body, changes)["output"] as Wire[];
    expect(items).toMatchObject(expected);
    expect(items[2]).not.toContainKey("namespace");
    const deltas = calls.map((one, index) => chunk({ role: "assistant", tool_calls: [{ index, ...one }] }));
    const records = recordsOf(stream(WAY, chatStream(...deltas, chunk({}, "tool_calls")), changes));
    const done = records.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
    expect(done).toMatchObject(expected);
  });

  test("what is said of a namespace is named as lost, and the client's own vendor is sent it as it is", () => {
    const tools = [{ ...space("n", search()), description: "d" }];
    expect(send(WAY, { input: "x", tools }).dropped).toEqual(["tools[0].description"]);
    const own = send({ from: "responses", to: "responses" }, asked).body;
    expect([own["tools"], own["input"]]).toEqual([asked["tools"], asked["input"]]);
  });
});
