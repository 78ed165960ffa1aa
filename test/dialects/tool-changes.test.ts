import { describe, expect, test } from "bun:test";
import { checkRequest } from "../../src/dialects/messages/check.ts";
import { send, type Wire } from "./crossing.ts";

const tool = (name: string, more: Wire = {}): Wire => ({ name, input_schema: { type: "object" }, ...more });
const text = { type: "text", text: "S" };
const byName = (name: string) => ({ type: "tool_reference", name });
const byValue = (definition: Wire) => ({ type: "tool_definition", definition });
const add = (which: Wire) => ({ type: "tool_addition", tool: which });
const remove = (which: Wire) => ({ type: "tool_removal", tool: which });

const hello = { role: "user", content: "Hi" };
const told = (...content: Wire[]) => ({ role: "system", content });
const at = (index: number) => `messages[1].content[${index}]`;

/** What a chat vendor is offered, and what is named as lost. */
function cross(tools: Wire[], ...messages: Wire[]) {
  const { body, dropped } = send({ from: "messages", to: "chat" }, { tools, messages: [hello, ...messages] });
  const offered = (body["tools"] as { function: Wire }[] | undefined) ?? [];
  return { offered: offered.map((one) => one.function["name"]), dropped, messages: body["messages"] };
}

describe("tools that change inside a conversation", () => {
  test("cross as they stand at its end", () => {
    const tools = [tool("a"), tool("b")];
    expect(cross(tools, told(remove(byName("a"))))).toMatchObject({ offered: ["b"], dropped: [] });
    expect(cross(tools, told(remove(byName("a")), add(byName("a"))))).toMatchObject({
      offered: ["b", "a"],
      dropped: [],
    });
    expect(cross(tools, told(add(byName("b"))))).toMatchObject({ offered: ["a", "b"], dropped: [] });
    expect(cross(tools, told(add(byValue(tool("c")))))).toMatchObject({ offered: ["a", "b", "c"], dropped: [] });
    const gone = cross([], told(add(byValue(tool("c"))), text), hello, told(remove(byName("c"))));
    expect(gone).toMatchObject({ offered: [], dropped: [] });
    expect(gone.messages).toContainEqual({ role: "system", content: "S" });
  });

  test("are named where they cannot", () => {
    const server = { type: "mcp_toolset_reference", server_name: "s" };
    expect(cross([tool("a")], told(remove(server), add(byName("nobody")))).dropped).toEqual([at(0), at(1)]);
    const run = byValue({ type: "code_execution_20260120", name: "code_execution" });
    expect(cross([], told(add(run))).dropped).toEqual([`${at(0)}.tool.definition`]);
    const late = byValue(tool("c", { defer_loading: true }));
    expect(cross([], told(add(late))).dropped).toEqual([`${at(0)}.tool.definition.defer_loading`]);
  });

  test("may be chosen when the conversation defines them", () => {
    const messages = [hello, told(add(byValue(tool("c"))))];
    const request = (tool_choice: Wire) => ({ model: "m", max_tokens: 9, messages, tool_choice });
    const choices = [{ type: "tool", name: "c" }, { type: "any" }, { type: "auto", disable_parallel_tool_use: true }];
    for (const choice of choices) {
      expect(() => checkRequest(request(choice))).not.toThrow();
      const orders = { upstreamModel: "claude-opus-4-8" };
      const { body } = send({ from: "messages", to: "messages", orders }, { messages, tool_choice: choice });
      expect([body["tool_choice"], body["messages"]]).toEqual([choice, messages]);
    }
    expect(() => checkRequest(request({ type: "tool", name: "d" }))).toThrow("tool_choice");
  });
});

describe("what a system turn holds beside text", () => {
  const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } };
  const messages = [hello, told(text, add(byName("a")), image, { type: "novelty" })];

  test.each(["chat", "responses", "gemini"] as const)("is named where it cannot cross: %s", (to) => {
    const { dropped } = send({ from: "messages", to }, { tools: [tool("a")], messages });
    expect(dropped).toEqual([at(2), at(3)]);
  });

  test("is left out and named where such turns are lifted into the prompt", () => {
    const orders = { upstreamModel: "claude-opus-4-7" };
    const { body, dropped } = send({ from: "messages", to: "messages", orders }, { tools: [tool("a")], messages });
    expect([body["messages"], body["system"], dropped]).toEqual([[hello], [text], [at(1), at(2), at(3)]]);
  });
});
