import { describe, expect, test } from "bun:test";
import { countWork } from "../support/wait.ts";
import { chatStream, chunk, recordsOf, reply, send, stream, UPSTREAMS, type Wire } from "./crossing.ts";

const search = (more: Wire = {}) => ({ type: "function", name: "search", parameters: { type: "object" }, ...more });
const space = (name: string, ...tools: Wire[]) => ({ type: "namespace", name, tools });
const user = { role: "user", content: "Hi" };
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
    tools: [search()],
    input: [
      user,
      { type: "tool_search_call", call_id: "s1", execution: "client", arguments: { query: "a" } },
      { type: "tool_search_output", call_id: "s1", execution: "client", tools: [space("mcp__a", search())] },
      { type: "tool_search_call", call_id: "s2", execution: "client", arguments: { query: "b" } },
      {
        type: "tool_search_output",
        call_id: "s2",
        execution: "client",
        tools: [space("mcp__a", search()), space("mcp__b", search())],
      },
      { type: "function_call", call_id: "c1", namespace: "mcp__b", name: "search", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "r" },
    ],
  };

  test.each(UPSTREAMS.filter((to) => to !== "responses"))("%s: what a search has found is offered, once", (to) => {
    const { body, dropped } = send({ from: "responses", to }, searched);
    const offered = [...JSON.stringify(body["tools"]).matchAll(/"name":"(\w+)"/g)].map(([, name]) => name);
    expect(offered).toEqual(["search", "mcp__a_search", "mcp__b_search"]);
    expect(dropped).toEqual(["input[1]", "input[3]"]);
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
