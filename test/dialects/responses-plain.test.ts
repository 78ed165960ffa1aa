import { describe, expect, test } from "bun:test";
import { recordsOf, reply, send, stream, typedStream, type Wire } from "./crossing.ts";

const quirks = { customTools: false, noDeveloperRole: true } as const;
const way = { from: "responses", to: "responses", quirks, orders: { reasoning: { kind: "keep" } } } as const;
const user = { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] };
const schema = { type: "object", properties: {} };
const f = (name: string) => ({ type: "function", name, parameters: schema, strict: false });
const patch = {
  type: "custom",
  name: "apply_patch",
  format: { type: "grammar", syntax: "lark", definition: "start: X" },
};
const space = { type: "namespace", name: "db", tools: [f("query")] };
const ask = (body: Wire) => send(way, { input: [user], ...body });
const namesOf = (body: Wire) => (body["tools"] as Wire[] | undefined)?.map(({ type, name }) => [type, name]);

describe("a responses server that knows functions alone, for clients of its own dialect", () => {
  test("is told custom tools, namespaces and tools of a client's as functions; the words that are lost are named", () => {
    const runs = [{ type: "image_generation" }, { type: "programmatic_tool_calling" }];
    const tools = [f("run"), patch, space, { type: "local_shell" }, ...runs];
    const { body, dropped } = ask({ tools, tool_choice: { type: "custom", name: "apply_patch" } });
    expect(namesOf(body)).toEqual(["run", "apply_patch", "db_query", "local_shell"].map((name) => ["function", name]));
    expect(body["tool_choice"]).toEqual({ type: "function", name: "apply_patch" });
    expect(dropped.toSorted()).toEqual(["tools[1].format", "tools[4]", "tools[5]"]);
  });

  test("is told no choice of tools where none of them can be told", () => {
    const { body } = ask({ tools: [{ type: "image_generation" }], tool_choice: "auto", parallel_tool_calls: true });
    expect(body).not.toContainAnyKeys(["tools", "tool_choice", "parallel_tool_calls"]);
  });

  test("is told tools that it may run itself as they are; of a search of the web only where its row says so", () => {
    const own = [{ type: "x_search" }, { type: "mcp", server_label: "a", server_url: "https://a.example" }];
    const { body, dropped } = ask({ tools: [...own, patch, { type: "web_search" }] });
    expect([body["tools"], dropped.toSorted()]).toEqual([
      [expect.objectContaining({ type: "function", name: "apply_patch" }), ...own],
      ["tools[2].format", "tools[3]"],
    ]);
    expect(ask({ tools: own, tool_choice: "auto" }).body).toMatchObject({ tools: own, tool_choice: "auto" });
    const searching = send(
      { ...way, quirks: { ...quirks, webTools: true } },
      { input: "Hi", tools: [{ type: "web_search" }] },
    );
    expect([searching.body["tools"], searching.dropped]).toEqual([[{ type: "web_search" }], []]);
  });

  test("is told what else the client says as it is", () => {
    const others = { top_k: 4, client_metadata: { a: "b" }, text: { verbosity: "low" }, prompt_cache_key: "k" };
    expect(ask({ tools: [patch], ...others }).body).toMatchObject(others);
  });

  test("is not asked for what only OpenAI's tools have, which is named, nor told fields that are null", () => {
    const own = ["reasoning.encrypted_content", "message.output_text.logprobs"];
    const sources = "web_search_call.action.sources";
    const nulls = { tools: null, tool_choice: null, service_tier: null, instructions: null, reasoning: null };
    const { body, dropped } = ask({ include: [...own, sources], ...nulls });
    expect([body["include"], dropped]).toEqual([own, ["include"]]);
    expect(body).not.toContainAnyKeys(Object.keys(nulls));
    expect(ask({ include: [sources] }).body).not.toContainKey("include");
    const openAI = send({ ...way, quirks: {} }, { input: "Hi", include: [sources], ...nulls });
    expect([openAI.body, openAI.dropped]).toEqual([expect.objectContaining({ include: [sources], ...nulls }), []]);
  });

  test("does not know the developer: it is the system's word, also to a server that knows all else", () => {
    const said = { type: "message", role: "developer", content: [{ type: "input_text", text: "D" }] };
    const input = [user, said, patch];
    const { body } = send({ ...way, quirks: { noDeveloperRole: true } }, { input, tools: [patch] });
    expect([body["input"], body["tools"]]).toEqual([[user, { ...said, role: "system" }, patch], [patch]]);
    expect(ask({ input: [said, user] }).body).toMatchObject({ instructions: "D", input: [user] });
  });

  test("is told all that earlier turns hold as messages, calls, their outputs and reasoning", () => {
    const picture = { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=", detail: "auto" };
    const call = { type: "function_call", call_id: "b", name: "query", namespace: "db", arguments: "{}" };
    const { body, dropped } = ask({
      instructions: "I",
      tools: [patch, space],
      input: [
        { type: "message", role: "developer", content: [{ type: "input_text", text: "D" }] },
        user,
        { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "Hm" }] },
        { type: "custom_tool_call", call_id: "a", name: "apply_patch", input: "+x" },
        call,
        { type: "custom_tool_call_output", call_id: "a", output: "done" },
        { type: "function_call_output", call_id: "b", output: [{ type: "input_text", text: "see" }, picture] },
        { type: "agent_message", author: "/root", content: [{ type: "input_text", text: "/root: go" }] },
        { role: "assistant", content: "Yes" },
        { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No" }] },
        user,
      ],
    });
    expect(body["instructions"]).toBe("I\nD");
    const shown = { type: "input_text", text: "What the tool call b showed:" };
    const said = (role: string, text: string) => ({
      type: "message",
      role,
      content: [{ type: role === "user" ? "input_text" : "output_text", text }],
    });
    expect(body["input"]).toEqual([
      said("user", "Hi"),
      { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm" }] },
      { type: "function_call", call_id: "a", name: "apply_patch", arguments: '{"input":"+x"}' },
      { type: "function_call", call_id: "b", name: "db_query", arguments: "{}" },
      { type: "function_call_output", call_id: "a", output: "done" },
      { type: "function_call_output", call_id: "b", output: "see" },
      { type: "message", role: "user", content: [shown, picture] },
      said("user", "/root: go"),
      said("assistant", "Yes"),
      said("assistant", "No"),
      said("user", "Hi"),
    ]);
    expect(dropped).toEqual(["tools[0].format"]);
  });

  test("is told a body that holds nothing else as it came, and another vendor's custom tools pass", () => {
    const plain = { input: [user], tools: [f("run")], tool_choice: { type: "function", name: "run" } };
    expect(ask(plain).body).toMatchObject(plain);
    expect(ask(plain).changes).toBeUndefined();
    const own = send({ ...way, quirks: {} }, { input: [user], tools: [patch, space] });
    expect([own.body["tools"], own.dropped]).toEqual([[patch, space], []]);
  });

  const calls: [Wire, Wire] = [
    { type: "function_call", id: "fc_1", call_id: "a", name: "apply_patch", arguments: '{"input":"+x"}' },
    { type: "function_call", id: "fc_2", call_id: "b", name: "db_query", arguments: "{}" },
  ];
  const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
  const whole = { id: "r", status: "completed", output: calls, usage };
  const wanted: [Wire, Wire] = [
    { type: "custom_tool_call", call_id: "a", name: "apply_patch", input: "+x" },
    { type: "function_call", call_id: "b", name: "query", namespace: "db", arguments: "{}" },
  ];

  test.each([
    ["custom tools and a namespace", [patch, space], wanted],
    ["a namespace alone", [space], [calls[0], wanted[1]]],
  ])("its calls come back as the client knows them, whole and streamed: %s", (_name, tools, output) => {
    const { changes } = ask({ tools });
    const expected = { output: output.map(({ id: _id, ...item }: Wire) => item), tools };
    expect(reply(way, whole, changes)).toMatchObject(expected);
    const records = calls.map((item, at) => ({ type: "response.output_item.done", output_index: at, item }));
    const sse = typedStream(...records, { type: "response.completed", response: whole });
    expect(recordsOf(stream(way, sse, changes)).at(-1)?.["response"]).toMatchObject(expected);
  });
});
