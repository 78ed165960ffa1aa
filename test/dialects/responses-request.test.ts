import { describe, expect, test } from "bun:test";
import type { Prompt } from "../../src/canon/prompt.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { carriedIn, packReasoning, unpackReasoning } from "../../src/dialects/reasoning/proof.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { faultOf } from "../support/fault.ts";

type Wire = Record<string, unknown>;

const decode = (body: Wire) => responses.decodeRequest({ model: "a/b", ...body });
const promptOf = (input: unknown, more: Wire = {}) => decode({ input, ...more }).prompt;
const encode = (prompt: Partial<Prompt>) =>
  responses.encodeRequest({ system: [], turns: [], tools: [], stop: [], ...prompt }, {});
const inputOf = (turns: Prompt["turns"]) => encode({ turns }).body["input"];

describe("intent", () => {
  const intent = (body: Wire) => responses.intent({ model: "a/b", ...body });

  test("what the gateway reads", () => {
    expect(intent({ stream: true, max_output_tokens: 7, reasoning: { effort: "high" } })).toEqual({
      model: "a/b",
      stream: true,
      maxOutputTokens: 7,
      reasoning: { kind: "effort", effort: "high" },
      wantsUsage: true,
    });
  });

  test("reasoning in every spelling", () => {
    const kinds = [
      undefined,
      null,
      {},
      { effort: null },
      { summary: "auto" },
      { effort: "none" },
      { effort: "huge" },
      "low",
      { effort: "minimal" },
    ].map((reasoning) => intent({ reasoning }).reasoning.kind);
    expect(kinds).toEqual([
      "omitted",
      "omitted",
      "omitted",
      "omitted",
      "omitted",
      "off",
      "unrecognised",
      "unrecognised",
      "effort",
    ]);
  });

  test("a body without a model is refused", () => {
    for (const body of [null, [], "x", {}, { model: 3 }, { model: "" }]) {
      expect(faultOf(() => responses.intent(body)).param).toBe("model");
    }
  });
});

describe("check", () => {
  const check = (body: Wire) => responses.check({ model: "a/b", ...body });

  test("requests of every kind pass, unknown fields and items too", () => {
    check({ input: "hi", never_heard_of: { a: 1 } });
    check({ prompt: { id: "pmpt_1" } });
    check({ prompt: { id: "pmpt_1" }, input: [] });
    check({ prompt: { id: "pmpt_1" }, tool_choice: "required" });
    const named = { type: "function", name: "f" };
    check({ input: "x", tools: [{ type: "namespace", name: "n", tools: [named] }], tool_choice: named });
    check({ input: "x", tools: [{ type: "tool_search" }], tool_choice: named });
    const brought = { type: "additional_tools", role: "developer", tools: [named] };
    for (const choice of [named, "required"]) check({ input: [brought], tool_choice: choice });
    check({
      input: [
        { role: "user", content: "hi" },
        { type: "message", role: "developer", content: [{ type: "input_text", text: "x", extra: 1 }] },
        {
          type: "message",
          id: "msg_1",
          status: "completed",
          role: "assistant",
          content: [{ type: "output_text", text: "x", annotations: [] }],
        },
        { type: "reasoning", id: "rs_1", summary: [] },
        { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: "https://a/b.png" }] },
        { type: "web_search_call", id: "ws_1", status: "completed" },
      ],
      tools: [{ type: "function", name: "f", parameters: null, strict: null }, { type: "web_search" }],
      tool_choice: { type: "allowed_tools", mode: "auto", tools: [] },
      previous_response_id: null,
      conversation: null,
      background: false,
      store: true,
      text: { format: { type: "text" } },
      reasoning: "nonsense",
    });
  });

  test.each([
    [{}, "input"],
    [{ input: null }, "input"],
    [{ input: [] }, "input"],
    [{ input: 3 }, "input"],
    [{ input: [3] }, "input[0]"],
    [{ input: [{ role: "user" }] }, "input[0].content"],
    [{ input: [{ type: "function_call", name: "f", arguments: "{}" }] }, "input[0].call_id"],
    [{ input: [{ type: "function_call_output", call_id: "c" }] }, "input[0].output"],
    [{ input: [{ type: "function_call_output", output: "x" }] }, "input[0].call_id"],
    [{ input: [{ type: "function_call_output", call_id: "", name: "f", output: "x" }] }, "input[0].call_id"],
    [{ input: "x", max_output_tokens: 0 }, "max_output_tokens"],
    [{ input: "x", stream: "yes" }, "stream"],
    [{ input: "x", tools: {} }, "tools"],
    [{ input: "x", tools: [{}] }, "tools[0].type"],
    [{ input: "x", tools: [{ type: "web_search" }, { type: "function", parameters: {} }] }, "tools[1].name"],
    [{ input: "x", tools: [{ type: "function", function: { name: "f" } }] }, "tools[0].name"],
    [{ input: "x", tools: [{ type: "custom", name: "" }] }, "tools[0].name"],
    [
      { input: "x", tools: [{ type: "function", name: "f", parameters: { type: "string" } }] },
      "tools[0].parameters.type",
    ],
    [{ input: "x", instructions: 3 }, "instructions"],
    [{ input: "x", conversation: { id: "conv_1" } }, "conversation"],
    [{ input: "x", background: true }, "background"],
    [
      {
        input: [
          { role: "user", content: "x" },
          { type: "item_reference", id: "rs_1" },
        ],
      },
      "input[1]",
    ],
    [{ input: [{ role: "user", content: [{ type: "input_text" }] }] }, "input[0].content[0].text"],
    [{ input: [{ role: "user", content: [{ type: "input_text", text: 5 }] }] }, "input[0].content[0].text"],
    [{ input: [{ role: "assistant", content: [{ type: "output_text" }] }] }, "input[0].content[0].text"],
    [{ input: [{ type: "custom_tool_call", call_id: "c", name: "f" }] }, "input[0].input"],
    [{ input: [{ type: "custom_tool_call", call_id: "c", name: "", input: "x" }] }, "input[0].name"],
    [{ input: [{ type: "custom_tool_call_output", call_id: "c", output: 5 }] }, "input[0].output"],
    [
      { input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_text" }] }] },
      "input[0].output[0].text",
    ],
    [{ input: "x", text: { format: { type: "json_schema", name: "n" } } }, "text.format.schema"],
    [{ input: "x", tool_choice: "required" }, "tool_choice"],
  ])("%j is refused at %s", (body, param) => {
    const fault = faultOf(() => check(body as Wire));
    expect(fault.code).toBe("invalid_request");
    expect(fault.param).toBe(param);
  });

  test("who builds on an earlier response is told in the vendor's own word, at which clients send the whole conversation", () => {
    const fault = faultOf(() => check({ input: "x", previous_response_id: "resp_1" }));
    expect([fault.code, fault.param]).toEqual(["previous_response_not_found", "previous_response_id"]);
    expect(fault.message).toContain("Send the whole conversation");
  });

  test("who names an item in place of sending it is told what to tell an SDK", () => {
    const input = [
      { role: "user", content: "x" },
      { type: "item_reference", id: "msg_1" },
    ];
    expect(faultOf(() => check({ input } as Wire)).message).toContain("`store: false`");
  });
});

describe("decodeRequest", () => {
  test("a string is a user's turn, instructions are system text", () => {
    expect(
      decode({ input: "hi", instructions: "be brief", store: true, max_output_tokens: 9, top_p: 0.5, user: "u" }),
    ).toEqual({
      prompt: {
        system: [{ type: "text", text: "be brief" }],
        turns: [{ role: "user", parts: [{ type: "text", text: "hi" }] }],
        tools: [],
        stop: [],
        maxOutputTokens: 9,
        topP: 0.5,
        userId: "u",
      },
      dropped: ["store"],
      changes: { request: { instructions: "be brief", max_output_tokens: 9, top_p: 0.5, user: "u" } },
    });
  });

  test("items become turns: one side's items in a row are one turn, results stand before the user's own words", () => {
    const signature = packReasoning({ id: "rs_1", encrypted: "gAAAA" });
    const { system, turns } = promptOf([
      { role: "developer", content: "first" },
      {
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" },
        ],
      },
      {
        type: "reasoning",
        id: "rs_1",
        summary: [
          { type: "summary_text", text: "a" },
          { type: "summary_text", text: "b" },
        ],
        encrypted_content: "gAAAA",
      },
      {
        type: "message",
        role: "assistant",
        content: [
          { type: "output_text", text: "let me" },
          { type: "refusal", refusal: " see" },
        ],
      },
      { type: "function_call", call_id: "c1", name: "f", arguments: '{"n":12345678901234567890}' },
      { type: "function_call", call_id: "c2", name: "g", arguments: "" },
      { type: "function_call_output", call_id: "c1", output: "one" },
      { role: "user", content: "and?" },
      {
        type: "function_call_output",
        call_id: "c2",
        output: [
          { type: "input_text", text: "two" },
          { type: "input_file", file_url: "https://a/b.pdf" },
        ],
      },
      { role: "system", content: "later" },
    ]);
    expect(system).toEqual([{ type: "text", text: "first" }]);
    expect(turns).toEqual([
      {
        role: "user",
        parts: [
          { type: "text", text: "look" },
          {
            type: "image",
            source: { kind: "base64", mediaType: "image/png", data: "iVBORw0KGgo=" },
            place: "input[1].content[1]",
            detail: "low",
          },
        ],
      },
      {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "a\n\nb", signature },
          { type: "text", text: "let me" },
          { type: "text", text: " see" },
          { type: "tool-call", id: "c1", name: "f", arguments: '{"n":12345678901234567890}' },
          { type: "tool-call", id: "c2", name: "g", arguments: "" },
        ],
      },
      {
        role: "user",
        parts: [
          { type: "tool-result", callId: "c1", parts: [{ type: "text", text: "one" }] },
          {
            type: "tool-result",
            callId: "c2",
            parts: [
              { type: "text", text: "two" },
              {
                type: "document",
                source: { kind: "url", url: "https://a/b.pdf" },
                place: "input[8].output[1]",
              },
            ],
          },
          { type: "text", text: "and?" },
        ],
      },
      { role: "system", parts: [{ type: "text", text: "later" }] },
    ]);
  });

  test("another vendor's proof comes back as it was", () => {
    const { turns } = promptOf([
      {
        type: "reasoning",
        id: "rs_1",
        summary: [{ type: "summary_text", text: "hm" }],
        encrypted_content: "sluice-signature:ErUB",
      },
      { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "sluice-redacted:XYZ" },
      { type: "reasoning", id: "rs_3", summary: [] },
    ]);
    expect(turns).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "hm", signature: "ErUB" },
          { type: "redacted-reasoning", data: "XYZ" },
        ],
      },
    ]);
  });

  test("what cannot cross is named, what asks for nothing is not", () => {
    const { prompt, dropped, changes } = decode({
      input: [
        { role: "user", content: [{ type: "input_text", text: "x" }] },
        { type: "web_search_call", id: "ws" },
      ],
      tools: [{ type: "web_search" }, { type: "function", name: "f", strict: true }, { type: "custom", name: "patch" }],
      tool_choice: { type: "custom", name: "patch" },
      text: { verbosity: "low", format: { type: "json_schema", name: "n", schema: { type: "object" }, strict: true } },
      include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
      truncation: "auto",
      service_tier: "auto",
      prompt_cache_key: "k",
      metadata: {},
      max_tool_calls: 3,
      background: false,
      top_logprobs: 0,
      reasoning: { effort: "low", summary: "auto" },
      stream_options: { include_obfuscation: false },
    });
    expect(dropped.toSorted()).toEqual(["include", "input[1]", "max_tool_calls", "tools[0]", "truncation"]);
    expect(prompt.shared).toEqual({ prompt_cache_key: "k", verbosity: "low" });
    const schema = { type: "object", properties: {} };
    expect(prompt.tools[0]).toEqual({ name: "f", schema, strict: true, place: "tools[1]" });
    expect(prompt.tools[1]).toMatchObject({ name: "patch", schema: { required: ["input"] }, custom: {} });
    expect(prompt.toolChoice).toEqual({ type: "tool", name: "patch" });
    expect(changes?.customTools).toEqual(new Set(["patch"]));
    expect(prompt.output).toEqual({ type: "json-schema", name: "n", schema: { type: "object" }, strict: true });
  });

  test("tool choices", () => {
    const tools = ["f", "g"].map((name) => ({
      type: "function",
      name,
      parameters: { type: "object" },
      description: "d",
    }));
    const choiceOf = (choice: unknown) => {
      const { toolChoice, tools: left } = promptOf("x", { tools, tool_choice: choice });
      return [toolChoice, left.map((tool) => tool.name).join("")];
    };
    expect(choiceOf("auto")).toEqual([{ type: "auto" }, "fg"]);
    expect(choiceOf("none")).toEqual([{ type: "none" }, "fg"]);
    expect(choiceOf("required")).toEqual([{ type: "required" }, "fg"]);
    expect(choiceOf({ type: "function", name: "g" })).toEqual([{ type: "tool", name: "g" }, "fg"]);
    expect(choiceOf({ type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "g" }] })).toEqual([
      { type: "required" },
      "g",
    ]);
    expect(choiceOf(undefined)).toEqual([undefined, "fg"]);
  });

  test("file ids and stored prompts cannot cross to another vendor's dialect", () => {
    const body = { input: [{ role: "user", content: [{ type: "input_image", file_id: "file_1" }] }] };
    const { prompt } = decode(body);
    expect(faultOf(() => messages.encodeRequest(prompt, {})).param).toBe("input[0].content[0].file_id");
    // OpenAI's two dialects know the same files.
    expect(responses.encodeRequest(prompt, {}).body["input"]).toEqual([
      { type: "message", role: "user", content: [{ type: "input_image", file_id: "file_1", detail: "auto" }] },
    ]);
    expect(faultOf(() => decode({ prompt: { id: "pmpt" } })).param).toBe("prompt");
  });
});

test("a choice of a tool that there is not is named, and none is made of it", () => {
  const tools = [{ type: "function", name: "f", parameters: {} }];
  const { prompt, dropped } = decode({ input: "x", tools, tool_choice: { type: "function", name: "g" } });
  expect([prompt.toolChoice, dropped]).toEqual([undefined, ["tool_choice"]]);
});

describe("encodeRequest", () => {
  test("is stateless, with instructions, strictness spelled out, and what has no place named", () => {
    const { body, dropped, changes } = encode({
      system: [
        { type: "text", text: "a" },
        { type: "text", text: "b", cache: {} },
      ],
      turns: [{ role: "user", parts: [{ type: "text", text: "hi" }] }],
      tools: [
        { name: "f", description: "d", schema: { $schema: "s", properties: {} } },
        { name: "g", schema: { type: "object" }, strict: true },
        { name: "h", schema: { type: "object", properties: { a: { type: "string" } } }, strict: true },
      ],
      toolChoice: { type: "tool", name: "f" },
      parallelToolCalls: false,
      maxOutputTokens: 1,
      temperature: 0.5,
      topP: 0.9,
      topK: 4,
      seed: 1,
      stop: ["x"],
      output: { type: "json-schema", schema: { type: "object" }, name: "my schema" },
      userId: "u".repeat(65),
    });
    expect(body).toEqual({
      instructions: "a\nb",
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] }],
      tools: [
        {
          type: "function",
          name: "f",
          description: "d",
          parameters: { type: "object", properties: {} },
          strict: false,
        },
        {
          type: "function",
          name: "g",
          parameters: { type: "object", properties: {}, additionalProperties: false },
          strict: true,
        },
        // This vendor's strict mode wants more of a schema.
        {
          type: "function",
          name: "h",
          parameters: { type: "object", properties: { a: { type: "string" } } },
          strict: false,
        },
      ],
      tool_choice: { type: "function", name: "f" },
      parallel_tool_calls: false,
      store: false,
      reasoning: { effort: null, summary: "auto" },
      max_output_tokens: 16,
      temperature: 0.5,
      top_p: 0.9,
      text: { format: { type: "json_schema", name: "my_schema", schema: { type: "object" } } },
      safety_identifier: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(dropped.toSorted()).toEqual(["max_tokens", "seed", "tools.h.strict", "top_k"]);
    expect(changes).toEqual({ stops: ["x"] });
  });

  test("system text stands in the input where it is alone, and in JSON mode, whose vendor looks there for the word", () => {
    const system: Prompt["system"] = [{ type: "text", text: "Answer in JSON." }];
    const item = { type: "message", role: "developer", content: [{ type: "input_text", text: "Answer in JSON." }] };
    expect(encode({ system }).body).toMatchObject({ input: [item] });
    const turns: Prompt["turns"] = [{ role: "user", parts: [{ type: "text", text: "hi" }] }];
    const { body } = encode({ system, turns, output: { type: "json" } });
    expect(body).not.toHaveProperty("instructions");
    expect(body["input"]).toMatchObject([item, { role: "user" }]);
    expect(body["text"]).toEqual({ format: { type: "json_object" } });
    const older = responses.encodeRequest({ system, turns: [], tools: [], stop: [] }, { noDeveloperRole: true });
    expect(older.body["input"]).toEqual([{ ...item, role: "system" }]);
  });

  test("a tool loop with reasoning goes back whole, results with pictures as parts", () => {
    const signature = packReasoning({ id: "rs_1", encrypted: "gAAAA" });
    const input = inputOf([
      { role: "user", parts: [{ type: "text", text: "hi" }] },
      {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "hm", signature },
          { type: "reasoning", text: "not mine", signature: "ErUB" },
          { type: "redacted-reasoning", data: "x" },
          { type: "text", text: "ok" },
          { type: "tool-call", id: "c1", name: "f", arguments: "" },
          { type: "tool-call", id: "c2", name: "f", arguments: '{"a":1}' },
        ],
      },
      {
        role: "user",
        parts: [
          { type: "tool-result", callId: "c2", isError: true, parts: [{ type: "text", text: "bad" }] },
          {
            type: "tool-result",
            callId: "c1",
            parts: [
              { type: "text", text: "see" },
              { type: "image", source: { kind: "url", url: "https://a/b.png" } },
            ],
          },
          { type: "text", text: "go on" },
        ],
      },
    ]);
    expect(input).toEqual([
      { type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] },
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "hm" }], encrypted_content: "gAAAA" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
      { type: "function_call", call_id: "c2", name: "f", arguments: '{"a":1}' },
      {
        type: "function_call_output",
        call_id: "c1",
        output: [
          { type: "input_text", text: "see" },
          { type: "input_image", image_url: "https://a/b.png", detail: "auto" },
        ],
      },
      { type: "function_call_output", call_id: "c2", output: "Error: bad" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "go on" }] },
    ]);
  });

  test("calls without output, outputs without call and reasoning at the end of a turn are mended", () => {
    const signature = packReasoning({ id: "rs_1", encrypted: "gAAAA" });
    const long = "x".repeat(80);
    const input = inputOf([
      { role: "user", parts: [{ type: "tool-result", callId: "lost", parts: [{ type: "text", text: "r" }] }] },
      {
        role: "assistant",
        parts: [
          { type: "tool-call", id: long, name: "f", arguments: "{}" },
          { type: "reasoning", text: "", signature },
        ],
      },
    ]) as Wire[];
    expect(input).toEqual([
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "Result of tool call lost:" },
          { type: "input_text", text: "r" },
        ],
      },
      { type: "function_call", call_id: expect.stringMatching(/^call_[0-9a-f]{40}$/), name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: input[1]?.["call_id"], output: "(no result)" },
    ]);
  });

  test("media", () => {
    const content = inputOf([
      {
        role: "user",
        parts: [
          { type: "image", source: { kind: "base64", mediaType: "image/png", data: "AA==" } },
          { type: "document", source: { kind: "base64", mediaType: "application/pdf", data: "AA==" } },
          { type: "document", source: { kind: "url", url: "https://a/b.pdf" }, title: "t" },
          { type: "document", source: { kind: "text", text: "body" }, title: "t" },
        ],
      },
    ]) as { content: unknown }[];
    expect(content[0]?.content).toEqual([
      { type: "input_image", image_url: "data:image/png;base64,AA==", detail: "auto" },
      { type: "input_file", filename: "document.pdf", file_data: "data:application/pdf;base64,AA==" },
      { type: "input_file", file_url: "https://a/b.pdf" },
      { type: "input_text", text: "t\nbody" },
    ]);
    expect(
      faultOf(() => inputOf([{ role: "user", parts: [{ type: "audio", data: "AA==", format: "wav" }] }])).code,
    ).toBe("invalid_request");
  });

  test("what a tool put out that no model called is told in words, before or between what was called", () => {
    const uncalled = { type: "function_call_output", call_id: null, namespace: "home", name: "weather", output: "18" };
    const { turns } = decode({
      input: [
        { role: "user", content: "hi" },
        uncalled,
        { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
        { ...uncalled, output: [{ type: "input_text", text: "19" }] },
        { type: "function_call_output", call_id: "c", output: "r" },
      ],
    }).prompt;
    const told = { type: "text", text: "Result of the tool home_weather:" } as const;
    expect(turns.map(({ role, parts }) => [role, parts])).toEqual([
      ["user", [{ type: "text", text: "hi" }]],
      ["user", [told, { type: "text", text: "18" }]],
      ["assistant", [{ type: "tool-call", id: "c", name: "f", arguments: "{}" }]],
      [
        "user",
        [
          { type: "tool-result", callId: "c", parts: [{ type: "text", text: "r" }] },
          told,
          { type: "text", text: "19" },
        ],
      ],
    ]);
  });

  test("its own requests cross over itself unchanged in meaning", () => {
    const body = {
      input: [
        { role: "user", content: "hi" },
        { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" },
        { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: "r" },
      ],
      instructions: "be brief",
    };
    const { prompt } = decode(body);
    expect(decode(responses.encodeRequest(prompt, {}).body).prompt).toEqual(prompt);
  });
});

describe("reasoning proof", () => {
  test("packs and unpacks, and nothing else unpacks", () => {
    const proof = { id: "rs_1", encrypted: "gAAAA+/=é" };
    expect(unpackReasoning(packReasoning(proof))).toEqual(proof);
    for (const other of [
      "",
      "rs:",
      "rs:!!!",
      "ErUB",
      `rs:${Buffer.from("{}").toString("base64url")}`,
      `rs:${Buffer.from("[1,2]").toString("base64url")}`,
    ]) {
      expect(unpackReasoning(other)).toBeUndefined();
    }
    expect(carriedIn("gAAAA")).toBeUndefined();
  });
});
