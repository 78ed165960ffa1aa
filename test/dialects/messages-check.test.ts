import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { checkCountTokens } from "../../src/dialects/messages/check.ts";
import { messages } from "../../src/dialects/messages/index.ts";

const valid = { model: "a/b", max_tokens: 10, messages: [{ role: "user", content: "hi" }] };
const withContent = (content: unknown, role = "user") => ({ ...valid, messages: [{ role, content }] });

/** The param of the refusal, or "passes". */
function paramOf(check: () => void): string | undefined {
  try {
    check();
    return "passes";
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    expect(error.code).toBe("invalid_request");
    expect(error.message.length).toBeGreaterThan(10);
    return error.param;
  }
}

describe("a conversation that its vendor is to keep", () => {
  test.each([{ type: "create" }, { type: "continue", previous_message_id: "msg_1" }])("is refused: %p", (thread) => {
    for (const check of [() => messages.check({ ...valid, thread }), () => checkCountTokens({ ...valid, thread })]) {
      expect(paramOf(check)).toBe("thread");
    }
  });

  test("is refused in the words by which the SDK goes on without one", () => {
    try {
      messages.check({ ...valid, thread: { type: "create" } });
      expect.unreachable();
    } catch (error) {
      const { status, body } = messages.encodeError(error as GatewayError, "req_1");
      const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
      expect([status, body]).toMatchObject([400, { type: "error", error: { type: "invalid_request_error", details } }]);
    }
  });

  test("is not asked for by an empty field", () => {
    expect(paramOf(() => messages.check({ ...valid, thread: null }))).toBe("passes");
  });
});

describe("check", () => {
  test.each([
    [valid],
    [{ ...valid, max_tokens: 0, tomorrow: { x: 1 }, stream: null, temperature: null, thinking: "maximum" }],
    [{ ...valid, temperature: 0, top_k: 1 }],
    [{ ...valid, temperature: 1, top_k: null }],
    [{ ...valid, messages: [{ role: "system", content: "s" }, ...valid.messages] }],
    [{ ...valid, system: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }] }],
    [
      {
        ...valid,
        tools: [
          { name: "f", input_schema: { type: "object" } },
          { type: "web_search_20250305", name: "web_search" },
        ],
      },
    ],
    [{ ...valid, tools: [{ type: "code_execution_20250825" }], tool_choice: { type: "any", tomorrow: true } }],
    // What a toolset brings along, nobody knows here.
    [{ ...valid, tools: [{ type: "mcp_toolset" }], tool_choice: { type: "tool", name: "look" } }],
    [
      {
        ...valid,
        tools: [{ type: "computer_toolset_20260801", name: "c" }],
        tool_choice: { type: "tool", name: "look" },
      },
    ],
    [withContent([{ type: "hologram" }, { type: "text", text: "" }, { type: "image", source: null }])],
    [withContent([{ type: "tool_use", id: "t", name: "f", input: {}, caller: null }], "assistant")],
    [
      withContent([
        { type: "tool_result", tool_use_id: "t" },
        { type: "tool_result", tool_use_id: "t", content: [{ type: "tool_reference" }], is_error: false },
      ]),
    ],
  ])("passes %#", (body) => {
    expect(paramOf(() => messages.check(body))).toBe("passes");
  });

  test.each<[unknown, string | undefined]>([
    [null, undefined],
    [[], undefined],
    [{ ...valid, model: 4 }, "model"],
    [{ ...valid, max_tokens: undefined }, "max_tokens"],
    [{ ...valid, max_tokens: 1.5 }, "max_tokens"],
    [{ ...valid, max_tokens: -1 }, "max_tokens"],
    [{ ...valid, max_tokens: "10" }, "max_tokens"],
    [{ ...valid, temperature: 1.01 }, "temperature"],
    [{ ...valid, temperature: -0.01 }, "temperature"],
    [{ ...valid, top_k: 1.5 }, "top_k"],
    [{ ...valid, messages: [] }, "messages"],
    [{ ...valid, messages: "hi" }, "messages"],
    [{ ...valid, messages: [{ role: "tool", content: "x" }] }, "messages[0].role"],
    [{ ...valid, messages: [...valid.messages, { role: "user" }] }, "messages[1].content"],
    [withContent(7), "messages[0].content"],
    [withContent([{ type: "text" }]), "messages[0].content[0].text"],
    [withContent([{ type: "text", text: 3 }]), "messages[0].content[0].text"],
    [withContent([{ text: "x" }]), "messages[0].content[0]"],
    [withContent(["x"]), "messages[0].content[0]"],
    [withContent([{ type: "tool_use", id: "t", name: "f" }], "assistant"), "messages[0].content[0].input"],
    [withContent([{ type: "tool_use", id: "t", name: "f", input: "{}" }], "assistant"), "messages[0].content[0].input"],
    [withContent([{ type: "tool_use", name: "f", input: {} }], "assistant"), "messages[0].content[0].id"],
    [withContent([{ type: "tool_result", content: "x" }]), "messages[0].content[0].tool_use_id"],
    [
      withContent([{ type: "tool_result", tool_use_id: "t", content: [{ type: "text" }] }]),
      "messages[0].content[0].content[0].text",
    ],
    [withContent([{ type: "thinking", thinking: "x", signature: 5 }], "assistant"), "messages[0].content[0].signature"],
    [withContent([{ type: "thinking", thinking: {} }], "assistant"), "messages[0].content[0].thinking"],
    [withContent([{ type: "redacted_thinking", data: 1 }], "assistant"), "messages[0].content[0].data"],
    [{ ...valid, system: 5 }, "system"],
    [{ ...valid, system: [{ type: "image", text: "x" }] }, "system[0].type"],
    [{ ...valid, tools: {} }, "tools"],
    [{ ...valid, tools: [{ description: "nameless" }] }, "tools[0].name"],
    [{ ...valid, tools: [{ name: "f", input_schema: { type: "string" } }] }, "tools[0].input_schema.type"],
    [{ ...valid, tool_choice: "auto" }, "tool_choice"],
    [{ ...valid, tools: [{ name: "f" }], tool_choice: { type: "required" } }, "tool_choice.type"],
    [{ ...valid, tools: [{ name: "f" }], tool_choice: { name: "f" } }, "tool_choice.type"],
    [{ ...valid, stop_sequences: ["a", 1] }, "stop_sequences[1]"],
    [{ ...valid, temperature: "0.5" }, "temperature"],
    [{ ...valid, top_p: Number.POSITIVE_INFINITY }, "top_p"],
    [{ ...valid, stream: "yes" }, "stream"],
    [{ ...valid, tools: [{ type: "custom", input_schema: { type: "object" } }] }, "tools[0].name"],
    [withContent([{ type: "search_result", title: "t", source: "s" }]), "messages[0].content[0].content"],
    [withContent([{ type: "search_result", content: [{ type: "text", text: "x" }] }]), "messages[0].content[0].source"],
    [withContent([{ type: "tool_use", id: "t", name: "", input: {} }], "assistant"), "messages[0].content[0].name"],
    [withContent([{ type: "tool_use", id: "t", name: "f", input: {} }]), "messages[0].content[0]"],
    [withContent([{ type: "tool_result", tool_use_id: "t" }], "assistant"), "messages[0].content[0]"],
    [withContent([{ type: "tool_result", tool_use_id: "t" }], "system"), "messages[0].content[0]"],
    [{ ...valid, output_config: { format: { type: "json_schema" } } }, "output_config.format.schema"],
  ])("refuses %j at %s", (body, param) => {
    expect(paramOf(() => messages.check(body))).toBe(param);
  });

  test("counting tokens needs no max_tokens", () => {
    const { max_tokens: _unused, ...body } = valid;
    expect(paramOf(() => checkCountTokens(body))).toBe("passes");
    expect(paramOf(() => checkCountTokens({ ...body, messages: [] }))).toBe("messages");
    const stray = withContent([{ type: "tool_use", id: "t", name: "f", input: {} }]);
    expect(paramOf(() => checkCountTokens(stray))).toBe("messages[0].content[0]");
  });
});

describe("intent", () => {
  const intent = (fields: object) => messages.intent({ ...valid, ...fields });

  test("model, stream and ceiling", () => {
    expect(intent({ stream: true })).toEqual({
      model: "a/b",
      stream: true,
      maxOutputTokens: 10,
      reasoning: { kind: "omitted" },
      wantsUsage: true,
    });
    expect(intent({ stream: "true", max_tokens: "9" })).not.toHaveProperty("maxOutputTokens");
    for (const body of [null, {}, { model: 1 }, { model: "" }]) {
      expect(paramOf(() => void messages.intent(body))).toBe("model");
    }
  });

  test.each<[object, object]>([
    [{}, { kind: "omitted" }],
    [{ thinking: null }, { kind: "omitted" }],
    [{ thinking: { type: "disabled" } }, { kind: "off" }],
    [{ thinking: { type: "disabled" }, output_config: { effort: "high" } }, { kind: "off" }],
    [{ thinking: { type: "adaptive" } }, { kind: "adaptive" }],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "xhigh" } },
      { kind: "effort", effort: "xhigh" },
    ],
    [{ thinking: { type: "adaptive" }, output_config: { effort: "huge" } }, { kind: "adaptive" }],
    [{ thinking: { type: "enabled", budget_tokens: 6001 } }, { kind: "budget", tokens: 6001 }],
    [{ thinking: { type: "enabled", budget_tokens: 0 } }, { kind: "off" }],
    [
      { thinking: { type: "enabled", budget_tokens: 5000 }, output_config: { effort: "low" } },
      { kind: "effort", effort: "low" },
    ],
    [{ thinking: { type: "enabled" } }, { kind: "adaptive" }],
    [{ thinking: { type: "enabled", budget_tokens: -1 } }, { kind: "unrecognised" }],
    [{ thinking: { type: "enabled", budget_tokens: "8000" } }, { kind: "unrecognised" }],
    [{ thinking: { type: "between_tools" } }, { kind: "off" }],
    [{ thinking: { type: "never" } }, { kind: "unrecognised" }],
    [{ thinking: true }, { kind: "unrecognised" }],
    [{ output_config: { effort: "max" } }, { kind: "effort", effort: "max" }],
    [{ output_config: { effort: "none" } }, { kind: "off" }],
    [{ output_config: { effort: 3 } }, { kind: "unrecognised" }],
    [{ output_config: { format: {} } }, { kind: "omitted" }],
  ])("%j means %j", (fields, reasoning) => {
    expect(intent(fields).reasoning).toEqual(reasoning as never);
  });
});
