import { describe, expect, test } from "bun:test";
import type { Orders, ReasoningOrder } from "../../src/canon/intent.ts";
import { gemini } from "../../src/dialects/gemini/index.ts";

type Body = Record<string, unknown>;

const BODY: Body = { contents: [{ role: "user", parts: [{ text: "Hi" }] }] };

/** A body as it leaves, its orders carried out. */
function amended(body: Body, more: Partial<Orders> = {}): Body {
  const orders: Orders = {
    upstreamModel: "gemini-3.5-flash",
    stream: false,
    reasoning: { kind: "nothing" },
    isReasoningActive: false,
    dropSampling: false,
    remove: [],
    ...more,
  };
  const out: Body = { ...body, ...gemini.amend(body, orders, {}) };
  for (const [field, value] of Object.entries(out)) if (value === undefined) delete out[field];
  return out;
}

const thinkingOf = (reasoning: ReasoningOrder, isReasoningActive: boolean, upstreamModel = "gemini-3.5-flash") =>
  (amended(BODY, { reasoning, isReasoningActive, upstreamModel })["generationConfig"] as Body | undefined)?.[
    "thinkingConfig"
  ];

describe("orders", () => {
  test("that say nothing leave the body as it is", () => {
    expect(amended(BODY)).toEqual(BODY);
    expect(amended(BODY, { reasoning: { kind: "keep" } })).toEqual(BODY);
    expect(amended({ ...BODY, generationConfig: { temperature: 1 } })).toEqual({
      ...BODY,
      generationConfig: { temperature: 1 },
    });
  });

  test("ceiling, sampling and refused fields are those of generationConfig", () => {
    const generationConfig = { maxOutputTokens: 9, temperature: 1, topP: 0.5, topK: 3, seed: 4, presencePenalty: 1 };
    const out = amended(
      { ...BODY, generationConfig, toolConfig: {} },
      { maxOutputTokens: 5, dropSampling: true, remove: ["presence_penalty", "toolConfig"] },
    );
    expect(out).toEqual({ ...BODY, generationConfig: { maxOutputTokens: 5, seed: 4 } });
    expect(generationConfig.maxOutputTokens).toBe(9);
  });

  test("penalties are told to the models that know them: Gemini 2.5 and later refuse a request for either", () => {
    const body = { ...BODY, generationConfig: { seed: 4, presencePenalty: 1, frequencyPenalty: -1 } };
    const orders = (upstreamModel: string): Orders => ({
      ...{ upstreamModel, stream: false, reasoning: { kind: "nothing" }, remove: [] },
      ...{ isReasoningActive: false, dropSampling: false },
    });
    const named = (model: string) => gemini.repairs?.(body, gemini.amend(body, orders(model), {}), orders(model), {});
    for (const model of ["gemini-2.5-flash", "gemini-3.5-flash", "gemini-4-argon", "gemini-flash-latest"]) {
      expect(amended(body, { upstreamModel: model })["generationConfig"]).toEqual({ seed: 4 });
      expect(named(model)).toEqual(["frequency_penalty", "presence_penalty"]);
    }
    for (const model of ["gemini-2.0-flash", "gemma-4-31b-it"]) {
      expect(amended(body, { upstreamModel: model })).toEqual(body);
      expect(named(model)).toEqual([]);
    }
  });

  test("a last turn of the model's own is for the models that continue it: those of a family's older names", () => {
    const turn = { role: "model", parts: [{ text: "So:" }] };
    const contents = [...(BODY["contents"] as Body[]), turn];
    const last = (upstreamModel: string) => (amended({ contents }, { upstreamModel })["contents"] as Body[]).at(-1);
    for (const model of ["gemini-2.0-flash", "gemini-3-flash-preview", "gemini-pro-latest", "gemma-4-31b-it"]) {
      expect(last(model)).toEqual(turn);
    }
    for (const model of ["gemini-3.7-flash", "gemini-flash-lite-latest", "Gemini-4-Carbon", "gemini-10-pro"]) {
      expect(last(model)).toEqual({ role: "user", parts: [{ text: "(continue)" }] });
    }
  });

  test.each<[string, ReasoningOrder, boolean, unknown]>([
    [
      "a level",
      { kind: "level", form: "thinking-level", level: "high" },
      true,
      { includeThoughts: true, thinkingLevel: "high" },
    ],
    [
      "minimal, which is off",
      { kind: "level", form: "thinking-level", level: "minimal" },
      false,
      { thinkingLevel: "minimal" },
    ],
    ["on", { kind: "on", form: "thinking-level" }, true, { includeThoughts: true }],
    ["off without a word for it", { kind: "off", form: "thinking-level" }, false, undefined],
    ["off with a word", { kind: "off", form: "thinking-level", value: "off" }, false, { thinkingLevel: "off" }],
    [
      "a budget",
      { kind: "budget", form: "thinking-budget", tokens: 4000 },
      true,
      { includeThoughts: true, thinkingBudget: 4000 },
    ],
    [
      "on, as long as it likes",
      { kind: "on", form: "thinking-budget" },
      true,
      { includeThoughts: true, thinkingBudget: -1 },
    ],
    ["off by budget", { kind: "off", form: "thinking-budget" }, false, { thinkingBudget: 0 }],
    ["a form of another dialect", { kind: "level", form: "effort", level: "high" }, true, undefined],
    ["nothing, though it reasons", { kind: "nothing" }, true, undefined],
  ])("%s", (_name, order, active, wanted) => {
    expect(thinkingOf(order, active)).toEqual(wanted);
  });

  test.each([
    ["gemini-2.5-flash", 32_000, 24_576],
    ["gemini-2.5-flash", 0.5, 1],
    ["gemini-2.5-flash-lite", 100, 512],
    ["gemini-2.5-pro", 40_000, 32_768],
    ["gemini-2.5-pro", 1, 128],
    ["something-else", 40_000, 24_576],
  ])("a budget stays inside the range of %s: %i", (model, tokens, wanted) => {
    const order: ReasoningOrder = { kind: "budget", form: "thinking-budget", tokens };
    expect(thinkingOf(order, true, model)).toEqual({ includeThoughts: true, thinkingBudget: wanted });
  });
});

describe("what depends on the model", () => {
  const call = (name: string, thoughtSignature?: string) => ({
    functionCall: { name, args: {} },
    ...(thoughtSignature && { thoughtSignature }),
  });
  const model = (...parts: unknown[]) => ({ role: "model", parts });
  const partsFor = (upstreamModel: string, ...parts: unknown[]) =>
    (amended({ contents: [model(...parts)] }, { upstreamModel })["contents"] as { parts: unknown[] }[])[0]?.parts;
  const WORD = "skip_thought_signature_validator";

  test("the first call of a step without signature gets the word that stands for one, from Gemini 3 on", () => {
    for (const name of [
      "gemini-3-pro-preview",
      "gemini-3.5-flash",
      "gemini-4-argon",
      "gemini-flash-latest",
      "Gemini-10",
    ]) {
      expect(partsFor(name, { text: "a" }, call("f"), call("g"))).toEqual([{ text: "a" }, call("f", WORD), call("g")]);
    }
    for (const name of ["gemini-2.5-pro", "gemini-2.0-flash", "gemini-1.5-pro", "gemma-4-31b-it"]) {
      expect(partsFor(name, call("f"), call("g"))).toEqual([call("f"), call("g")]);
    }
    expect(partsFor("gemini-3-pro", call("f", "real"), call("g"))).toEqual([call("f", "real"), call("g")]);
  });

  test("every step gets its own, and nobody else", () => {
    const contents = [model(call("f")), { role: "user", parts: [{ text: "x" }] }, model(call("g"))];
    expect(amended({ contents }, { upstreamModel: "gemini-3-pro" })["contents"]).toEqual([
      model(call("f", WORD)),
      { role: "user", parts: [{ text: "x" }] },
      model(call("g", WORD)),
    ]);
  });

  test("a model without a place for the system prompt has it before the user's words", () => {
    const body = { ...BODY, systemInstruction: { parts: [{ text: "Be brief." }] } };
    expect(amended(body, { upstreamModel: "gemma-3-27b-it" })).toEqual({
      contents: [{ role: "user", parts: [{ text: "Be brief." }, { text: "Hi" }] }],
    });
    expect(amended(body)).toEqual(body);
  });

  test("older models take the OpenAPI subset instead of JSON Schema", () => {
    const schema = { type: "object", properties: { a: { type: ["string", "null"] } }, additionalProperties: false };
    const body = {
      ...BODY,
      tools: [{ functionDeclarations: [{ name: "f", parametersJsonSchema: schema }, { name: "g" }] }],
    };
    const subset = { type: "object", properties: { a: { type: "string", nullable: true } } };
    expect(amended(body, { upstreamModel: "gemini-2.0-flash" })["tools"]).toEqual([
      { functionDeclarations: [{ name: "f", parameters: subset }, { name: "g" }] },
    ]);
    const answer = { ...BODY, generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema } };
    expect(amended(answer, { upstreamModel: "gemini-1.5-pro" })["generationConfig"]).toEqual({
      responseMimeType: "application/json",
      responseSchema: subset,
    });
    for (const each of [body, answer]) expect(amended(each, { upstreamModel: "gemini-2.5-pro" })).toEqual(each);
  });

  test("tools and a format of the answer go together from Gemini 3 on; before, the format is said in words", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const body = {
      ...BODY,
      tools: [{ functionDeclarations: [{ name: "f" }] }],
      generationConfig: { seed: 1, responseMimeType: "application/json", responseJsonSchema: schema },
    };
    expect(amended(body)).toEqual(body);
    const older = amended(body, { upstreamModel: "gemini-2.5-flash" });
    expect(older["generationConfig"]).toEqual({ seed: 1 });
    expect(JSON.stringify(older["systemInstruction"])).toContain(JSON.stringify(JSON.stringify(schema)).slice(1, -1));
  });
});
