import { describe, expect, test } from "bun:test";
import type { Orders, ReasoningOrder } from "../../src/canon/intent.ts";
import { responses } from "../../src/dialects/responses/index.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { translateWhole } from "../support/translate.ts";

type Wire = Record<string, unknown>;

const ENCRYPTED = "reasoning.encrypted_content";
const ordersOf = (more: Partial<Orders> = {}): Orders => ({
  upstreamModel: "gpt-x",
  stream: false,
  reasoning: { kind: "nothing" },
  isReasoningActive: false,
  dropSampling: false,
  remove: [],
  ...more,
});
const amend = (body: Wire, more: Partial<Orders> = {}) =>
  responses.amend({ model: "gpt-x", store: false, ...body }, ordersOf(more), {});

describe("amend", () => {
  test("nothing that is right already is touched", () => {
    expect(amend({ input: "x", temperature: 1, include: ["web_search_call.results"] })).toEqual({});
    expect(
      amend({ input: "x", stream: true, stream_options: { include_obfuscation: false } }, { stream: true }),
    ).toEqual({});
    const body = { input: "x", reasoning: { effort: "low", summary: "auto" }, include: [ENCRYPTED] };
    expect(amend(body, { reasoning: { kind: "level", form: "effort", level: "low" } })).toEqual({});
  });

  test("nothing is stored upstream, whatever the client says", () => {
    expect(responses.amend({ model: "gpt-x", store: true }, ordersOf(), {})).toEqual({ store: false });
    expect(responses.amend({ model: "gpt-x" }, ordersOf(), {})).toEqual({ store: false });
  });

  test("a schema's format has a legal name", () => {
    const text = (name: unknown) => ({ verbosity: "low", format: { type: "json_schema", name, schema: {} } });
    for (const none of [undefined, null, ""]) expect(amend({ text: text(none) })).toEqual({ text: text("output") });
    expect(amend({ text: text("my format") })).toEqual({ text: text("my_format") });
    for (const sound of [text("fine-1"), { format: { type: "text" } }, null])
      expect(amend({ text: sound })).toEqual({});
  });

  test("the least effort, where the client has not asked for it, is not ordered beside tools that OpenAI runs and refuses with it", () => {
    const least = { reasoning: { kind: "level", form: "effort", level: "minimal" } } as const;
    const off = { reasoning: { kind: "off", form: "effort", value: "minimal" } } as const;
    const summary = { summary: "detailed" };
    const own = ["web_search", "web_search_preview_2025_03_11", "image_generation", "code_interpreter", "file_search"];
    for (const type of own) {
      const tools = [{ type: "function", name: "f", parameters: {} }, { type }];
      for (const orders of [least, off]) {
        expect(amend({ tools }, orders)["reasoning"]).toBeUndefined();
        expect(amend({ tools, reasoning: { effort: "none" } }, orders)["reasoning"]).toBeUndefined();
      }
      expect(amend({ tools, reasoning: summary }, least)).toEqual({ include: [ENCRYPTED] });
      // What the client says itself its vendor answers.
      expect(amend({ tools, reasoning: { effort: "minimal" } }, least)).toEqual({ include: [ENCRYPTED] });
    }
    const tools = [
      { type: "function", name: "web_search", parameters: {} },
      { type: "custom", name: "c" },
    ];
    expect(amend({ tools }, least)["reasoning"]).toEqual({ effort: "minimal" });
  });

  test("model, stream, ceiling, sampling and refused fields", () => {
    expect(
      amend(
        {
          model: "openai/gpt-x",
          stream: true,
          stream_options: {},
          temperature: 1,
          top_p: 1,
          user: "u",
          max_output_tokens: 9,
        },
        { isReasoningActive: true, dropSampling: true, remove: ["user", "absent"], maxOutputTokens: 5 },
      ),
    ).toEqual({
      model: "gpt-x",
      stream: false,
      stream_options: undefined,
      max_output_tokens: 16,
      temperature: undefined,
      top_p: undefined,
      user: undefined,
      include: [ENCRYPTED],
    });
  });

  const summary = { summary: "detailed", context: "auto" };
  test.each<[ReasoningOrder, unknown, Wire]>([
    [{ kind: "keep" }, { effort: "odd" }, {}],
    [{ kind: "keep" }, undefined, {}],
    [{ kind: "keep" }, { effort: null, summary: "auto" }, { reasoning: undefined }],
    [{ kind: "nothing" }, summary, { reasoning: undefined }],
    [{ kind: "nothing" }, undefined, {}],
    [
      { kind: "level", form: "effort", level: "high" },
      undefined,
      { reasoning: { effort: "high" }, include: [ENCRYPTED] },
    ],
    [
      { kind: "level", form: "effort", level: "high" },
      { effort: "max", ...summary },
      { reasoning: { effort: "high", ...summary }, include: [ENCRYPTED] },
    ],
    [
      { kind: "level", form: "effort", level: "low" },
      { effort: null, summary: "auto" },
      { reasoning: { effort: "low", summary: "auto" }, include: [ENCRYPTED] },
    ],
    [{ kind: "on", form: "effort" }, { effort: "low" }, { reasoning: undefined, include: [ENCRYPTED] }],
    [{ kind: "off", form: "effort" }, summary, { reasoning: { effort: "none" } }],
    [{ kind: "off", form: "effort", value: "minimal" }, undefined, { reasoning: { effort: "minimal" } }],
    [
      { kind: "level", form: "thinking-level", level: "low" },
      { effort: "low" },
      { reasoning: undefined, include: [ENCRYPTED] },
    ],
  ])("order %j over %j", (reasoning, own, edits) => {
    expect(amend(own === undefined ? {} : { reasoning: own }, { reasoning })).toEqual(edits);
  });

  test("where no depth is ordered of a model that reasons all the same, the client's summary stays", () => {
    const active = { isReasoningActive: true };
    expect(amend({ reasoning: { effort: "odd", ...summary } }, active)["reasoning"]).toEqual(summary);
    expect(amend({ reasoning: { effort: "odd" } }, active)).toEqual({ reasoning: undefined, include: [ENCRYPTED] });
    expect(amend({ reasoning: { effort: null, summary: "auto" } }, active)["reasoning"]).toBeUndefined();
  });

  test("a model that does not reason is not asked for reasoning, and is shown none", () => {
    const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
    const call = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" };
    const output = { type: "function_call_output", call_id: "c1", output: "x" };
    const body = { input: [{ role: "user", content: "x" }, reasoning, { ...call, id: "fc_1" }, output] };
    const nothing = { reasoning: { kind: "nothing" } } as const;
    const sent = { input: [body.input[0], call, output] };
    expect(amend({ ...body, include: [ENCRYPTED] }, nothing)).toEqual({ ...sent, include: undefined });
    const others = ["message.output_text.logprobs", ENCRYPTED];
    expect(amend({ ...body, include: others }, nothing)).toEqual({ ...sent, include: others.slice(0, 1) });
    for (const orders of [{ ...nothing, isReasoningActive: true }, { reasoning: { kind: "keep" } as const }]) {
      expect(amend({ ...body, include: [ENCRYPTED] }, orders)).toEqual({});
    }
  });

  test("what a tool put out that no model called goes to its own vendor as it came, also where another call is mended", () => {
    const uncalled = { type: "function_call_output", name: "weather", output: "18" };
    const call = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" };
    const input = [{ role: "user", content: "x" }, uncalled, { ...uncalled, call_id: null }];
    expect(amend({ input }, {})["input"]).toBeUndefined();
    const lost = { type: "function_call_output", call_id: "c1", output: "(no result)" };
    expect(amend({ input: [...input, call] }, {})["input"]).toEqual([...input, call, lost]);
  });

  test("calls and answers keep their ids beside the reasoning that belongs to them, and lose them without it", () => {
    const active = { reasoning: { kind: "keep" }, isReasoningActive: true } as const;
    const user = { role: "user", content: "x" };
    const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
    const call = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" };
    const output = { type: "function_call_output", id: "fc_9", call_id: "c1", output: "x" };
    const said = {
      type: "message",
      role: "assistant",
      phase: "commentary",
      content: [{ type: "output_text", text: "y" }],
    };
    const named = [{ ...said, id: "msg_1" }, { ...call, id: "fc_1" }, output];
    const include = [ENCRYPTED];
    expect(amend({ input: [user, reasoning, ...named, user], include }, active)).toEqual({});
    expect(amend({ input: [user, ...named, user], include }, active)).toEqual({
      input: [user, said, call, output, user],
    });
    expect(amend({ input: [user, named[0], user], include }, active)).toEqual({ input: [user, said, user] });
    expect(amend({ input: [{ ...user, id: "msg_0" }, said, call, output], include }, active)).toEqual({});
  });

  test("reasoning that led to nothing is taken out: OpenAI asks for what follows it", () => {
    const active = { reasoning: { kind: "keep" }, isReasoningActive: true } as const;
    const include = [ENCRYPTED];
    const [user, said] = [
      { role: "user", content: "x" },
      { role: "assistant", content: "y" },
    ];
    const thought = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
    const searched = { type: "web_search_call", id: "ws_1", status: "completed" };
    const set = { type: "configuration_update", reasoning: { effort: "high" } };
    for (const input of [
      [user, thought, thought],
      [user, thought, set, user],
      [user, thought, set],
      [user, thought, user],
      [thought, { role: "developer", content: "z" }, user],
    ]) {
      const left = input.filter((item) => item !== thought);
      expect(amend({ input, include }, active)).toEqual({ input: left });
    }
    for (const input of [
      [user, thought, thought, said, set, user],
      [user, thought, set, said],
      [user, thought, searched, user],
      [thought],
    ]) {
      expect(amend({ input, include }, active)).toEqual({});
    }
  });

  test("reasoning that its vendor cannot know is taken out, its own stays byte for byte", () => {
    const own = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA","n":12345678901234567890}';
    const raw = '{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}';
    const stored = '{"type":"reasoning","id":"rs_3","summary":[{"type":"summary_text","text":"hm"}]}';
    const foreign = '{"type":"reasoning","id":"rs_4","summary":[],"encrypted_content":"sluice-signature:ErUB"}';
    const send = (items: string) =>
      translateWhole(new JsonText(`{"model":"openai/gpt-x","input":[${items}],"x":1.0}`), responses, responses, {
        orders: ordersOf({ reasoning: { kind: "keep" } }),
        quirks: {},
      }).text;
    expect(send(`${own},${raw}`)).toBe(`{"model":"gpt-x","input":[${own},${raw}],"x":1.0,"store":false}`);
    const { input } = JSON.parse(send([own, stored, raw, foreign].join(","))) as { input: Wire[] };
    expect(input.map((item) => item["id"])).toEqual(["rs_1", "rs_2"]);
  });

  test("its own edits leave nothing more to edit", () => {
    const body: Wire = { model: "openai/x", input: "x", reasoning: { effort: "max" }, temperature: 1 };
    const orders = ordersOf({ reasoning: { kind: "level", form: "effort", level: "high" }, dropSampling: true });
    for (const [field, value] of Object.entries(responses.amend(body, orders, {}))) {
      if (value === undefined) delete body[field];
      else body[field] = value;
    }
    expect(responses.amend(body, orders, {})).toEqual({});
  });
});
