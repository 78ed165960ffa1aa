import { describe, expect, test } from "bun:test";
import { chatStream, chunk, recordsOf, reply, send, stream, UPSTREAMS, type Wire } from "./crossing.ts";

const user = { role: "user", content: "Hi" };
const WAY = { from: "responses", to: "chat" } as const;
const OTHERS = UPSTREAMS.filter((to) => to !== "responses");

type Case = {
  /** What the client offers, and the function that it is elsewhere. */
  tool: Wire & { type: string };
  required: string[];
  /** The arguments that a model gives, and what they are in the item of its call. */
  given: Wire;
  call: Wire & { type: string };
  answer: Wire;
  told: string;
};

/** Each with its items as OpenAI's SDK types them. */
const CASES: Case[] = [
  {
    tool: { type: "local_shell" },
    required: ["command"],
    given: { command: ["ls", "-l"], env: { A: "b" }, working_directory: "/src", timeout_ms: 5000 },
    call: {
      type: "local_shell_call",
      action: { type: "exec", command: ["ls", "-l"], env: { A: "b" }, working_directory: "/src", timeout_ms: 5000 },
    },
    answer: { type: "local_shell_call_output", output: '{"stdout":"a.ts"}' },
    told: '{"stdout":"a.ts"}',
  },
  {
    tool: { type: "shell", environment: { type: "local" } },
    required: ["commands"],
    given: { commands: ["ls", "pwd"], timeout_ms: 5000 },
    call: {
      type: "shell_call",
      action: { commands: ["ls", "pwd"], timeout_ms: 5000, max_output_length: null },
      environment: null,
    },
    answer: {
      type: "shell_call_output",
      output: [{ stdout: "a.ts", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
      max_output_length: null,
    },
    told: '[{"stdout":"a.ts","stderr":"","outcome":{"type":"exit","exit_code":0}}]',
  },
  {
    tool: { type: "apply_patch" },
    required: ["type", "path"],
    given: { type: "update_file", path: "a.ts", diff: "@@\n-a\n+b" },
    call: { type: "apply_patch_call", operation: { type: "update_file", path: "a.ts", diff: "@@\n-a\n+b" } },
    answer: { type: "apply_patch_call_output", status: "failed", output: "no such line" },
    told: "failed: no such line",
  },
];

const named = CASES.map((one) => [one.tool.type, one] as const);

/** A reply of one call, by which a chat vendor calls a function. */
const calling = (name: string, given: string): Wire => {
  const call = { id: "c1", type: "function", function: { name, arguments: given } };
  const message = { role: "assistant", content: null, tool_calls: [call] };
  return { id: "r", created: 1, model: "m", choices: [{ index: 0, message, finish_reason: "tool_calls" }] };
};

/** The item of the call that a whole reply makes. */
const itemOf = (tool: Wire & { type: string }, given: string): Wire => {
  const { changes } = send(WAY, { tools: [tool], input: [user] });
  return (reply(WAY, calling(tool.type, given), changes)["output"] as Wire[])[0] as Wire;
};

describe("tools with a type of their own that the client runs, for another dialect", () => {
  test.each(named)("%s is a function, its calls and answers are a function's", (name, { tool, required, ...one }) => {
    const items = [
      { ...one.call, id: "i1", call_id: "c1", status: "completed" },
      { ...one.answer, call_id: "c1" },
    ];
    const { body, dropped } = send(WAY, { tools: [tool], input: [user, ...items] });
    expect(dropped).toEqual([]);
    expect(body["tools"]).toMatchObject([{ function: { name, parameters: { type: "object", required } } }]);
    const [, call, result] = body["messages"] as [Wire, Wire, Wire];
    const [{ id, function: made }] = call["tool_calls"] as [{ id: string; function: Wire }];
    expect([id, made["name"], JSON.parse(made["arguments"] as string)]).toEqual(["c1", name, one.given]);
    expect(result).toEqual({ role: "tool", tool_call_id: "c1", content: one.told });
  });

  test.each(OTHERS.flatMap((to) => named.map(([name, one]) => [to, name, one] as const)))(
    "%s: nothing of %s is lost",
    (to, name, { tool, call, answer, told }) => {
      const input = [user, { ...call, call_id: "c1" }, { ...answer, call_id: "c1" }];
      const { body, text, dropped } = send({ from: "responses", to }, { tools: [tool], input });
      expect(dropped).toEqual([]);
      expect(JSON.stringify(body["tools"])).toContain(`"name":"${name}"`);
      expect(text).toContain(JSON.stringify(told).slice(1, -1));
    },
  );

  test.each(named)("a call of %s comes back as its own item, whole and streamed", (name, { tool, given, call }) => {
    const { changes } = send(WAY, { tools: [tool], input: [user], stream: true });
    const whole = { ...call, call_id: "c1", status: "completed" };
    const [item] = reply(WAY, calling(name, JSON.stringify(given)), changes)["output"] as Wire[];
    expect(item).toEqual({ ...whole, id: expect.any(String) });
    const begun = { index: 0, id: "c1", type: "function", function: { name, arguments: "" } };
    const deltas = [begun, { index: 0, function: { arguments: JSON.stringify(given) } }];
    const sse = chatStream(...deltas.map((delta) => chunk({ tool_calls: [delta] })), chunk({}, "tool_calls"));
    const records = recordsOf(stream(WAY, sse, changes)).filter((record) => record["item"] !== undefined);
    expect(records).toMatchObject([
      { type: "response.output_item.added", item: { type: call.type, call_id: "c1", status: "in_progress" } },
      { type: "response.output_item.done", item: whole },
    ]);
  });

  test.each([
    ["local_shell", '{"command":"ls | wc"}', { action: { command: ["bash", "-lc", "ls | wc"], env: {} } }],
    ["shell", '{"commands":"ls"}', { action: { commands: ["ls"], timeout_ms: null, max_output_length: null } }],
    ["apply_patch", '{"type":"delete_file","path":"a"}', { operation: { type: "delete_file", path: "a" } }],
    ["apply_patch", '{"path":"a"}', { operation: { type: "update_file", path: "a", diff: "" } }],
    ["shell", "", { action: { commands: [] } }],
    ["shell", '{"commands":["ls C:\\Work"]}</tool_call>', { action: { commands: ["ls C:\\Work"] } }],
  ])("%s: what a model writes otherwise is made what the client reads: %s", (type, given, expected) => {
    expect(itemOf({ type }, given)).toMatchObject(expected);
  });

  test("a shell in a container is the vendor's, and named as lost; so is a tool whose name another one has", () => {
    const hosted = { type: "shell", environment: { type: "container_auto" } };
    const call = { type: "shell_call", call_id: "c1", action: { commands: ["ls"] } };
    const input = [user, { ...call, environment: { type: "container_reference", container_id: "x" } }];
    const { body, dropped } = send(WAY, { tools: [hosted], input });
    expect([body["tools"], dropped.toSorted()]).toEqual([undefined, ["input[1]", "tools[0]"]]);
    const own = { type: "function", name: "shell", parameters: { type: "object" } };
    const both = send(WAY, {
      tools: [{ type: "shell" }, own, { type: "apply_patch" }, { type: "apply_patch" }],
      input: "x",
    });
    expect(both.dropped.toSorted()).toEqual(["tools[0]", "tools[3]"]);
    expect((both.body["tools"] as { function: Wire }[]).map((tool) => tool.function["name"])).toEqual([
      "shell",
      "apply_patch",
    ]);
  });

  test("the skills of a local shell are told in its description", () => {
    const skills = [{ name: "pdf", description: "Reads PDF.", path: "/skills/pdf" }];
    const { body, dropped } = send(WAY, {
      tools: [{ type: "shell", environment: { type: "local", skills } }],
      input: "x",
    });
    expect(dropped).toEqual([]);
    const [{ function: made }] = body["tools"] as [{ function: Wire }];
    expect(made["description"]).toContain("- pdf (/skills/pdf): Reads PDF.");
  });

  test("one is chosen by its type, alone or among those that are allowed", () => {
    const tools = [{ type: "shell" }, { type: "apply_patch" }];
    const forced = send(WAY, { tools, input: "x", tool_choice: { type: "apply_patch" } });
    expect(forced.body["tool_choice"]).toEqual({ type: "function", function: { name: "apply_patch" } });
    const allowed = { type: "allowed_tools", mode: "required", tools: [{ type: "shell" }] };
    const some = send(WAY, { tools, input: "x", tool_choice: allowed });
    expect(some.body["tools"]).toMatchObject([{ function: { name: "shell" } }]);
    expect([some.body["tool_choice"], some.dropped]).toEqual(["required", []]);
  });

  test("a local shell's call is answered by the id of its item, too, as some clients do", () => {
    const call = { type: "local_shell_call", action: { type: "exec", command: ["ls"], env: {} } };
    const answer = { type: "local_shell_call_output", id: "i1", output: "a.ts" };
    for (const [ids, id] of [
      [{ id: "i1", call_id: "c1" }, "c1"],
      [{ id: "i1" }, "i1"],
    ] as const) {
      const { body } = send(WAY, { tools: [{ type: "local_shell" }], input: [user, { ...call, ...ids }, answer] });
      expect((body["messages"] as Wire[]).slice(1)).toMatchObject([
        { tool_calls: [{ id }] },
        { role: "tool", tool_call_id: id, content: "a.ts" },
      ]);
    }
  });
});
