import { describe, expect, test } from "bun:test";
import { toPlainSchema } from "../../src/dialects/chat/plain-schema.ts";
import { registry } from "../../src/vendors/registry.ts";
import { chatStream, chunk, readBack, send, stream } from "./crossing.ts";

type Schema = Record<string, unknown>;

const quirks = registry.find(({ id }) => id === "moonshotai")?.quirks ?? {};
const ANY = { anyOf: ["string", "number", "boolean", "object", "array", "null"].map((type) => ({ type })) };
/** A property in an object, as it comes out. */
const written = (property: unknown, more: Schema = {}): unknown =>
  (toPlainSchema({ type: "object", properties: { a: property }, ...more })["properties"] as Schema)["a"];

describe("the subset of JSON Schema that Moonshot takes", () => {
  test("a schema that is in it comes out as it is", () => {
    const schema = {
      type: "object",
      properties: {
        q: { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }], description: "d" },
        n: { type: "integer", default: 10, minimum: 1 },
        l: { type: "string", enum: ["a", "b"] },
        next: { $ref: "#/$defs/node" },
      },
      additionalProperties: false,
      required: ["q"],
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    };
    expect(toPlainSchema(schema)).toEqual(schema);
  });

  test.each<[string, unknown, unknown]>([
    ["nothing", {}, ANY],
    ["a word for anything", true, ANY],
    ["a description alone", { description: "d" }, { description: "d", ...ANY }],
    ["values alone", { enum: ["a", "b"] }, { type: "string", enum: ["a", "b"] }],
    ["one value alone", { const: "a" }, { type: "string", enum: ["a"] }],
    [
      "one value of a type",
      { type: "number", const: 1, description: "d" },
      { type: "number", enum: [1], description: "d" },
    ],
    ["one that no list may hold", { const: true }, { type: "boolean", const: true }],
    [
      "values of several types",
      { enum: ["a", 1, null] },
      {
        anyOf: [{ type: "string", enum: ["a"] }, { type: "integer", enum: [1] }, { type: "null" }],
      },
    ],
    [
      "properties alone",
      { properties: { b: { type: "string" } } },
      { properties: { b: { type: "string" } }, type: "object" },
    ],
    [
      "a type beside a choice",
      { type: "string", anyOf: [{ minLength: 1 }, { maxLength: 9 }], description: "d" },
      {
        description: "d",
        anyOf: [
          { type: "string", minLength: 1 },
          { type: "string", maxLength: 9 },
        ],
      },
    ],
    ["oneOf", { oneOf: [{ type: "string" }, { type: "null" }] }, { anyOf: [{ type: "string" }, { type: "null" }] }],
    [
      "allOf",
      {
        allOf: [{ type: "object", properties: { b: { type: "string" } }, required: ["b"] }],
        properties: { c: { type: "null" } },
      },
      {
        type: "object",
        properties: { b: { type: "string" }, c: { type: "null" } },
        required: ["b"],
      },
    ],
    ["several types", { type: ["string", "null"] }, { type: ["string", "null"] }],
    [
      "several types with constraints",
      { type: ["string", "null"], enum: ["a", null], format: "x" },
      {
        anyOf: [
          { type: "string", enum: ["a"], format: "x" },
          { type: "null", format: "x" },
        ],
      },
    ],
    [
      "a demand that cannot be met",
      { type: "object", properties: { b: { type: "string" } }, required: ["b", "c"] },
      {
        type: "object",
        properties: { b: { type: "string" } },
        required: ["b"],
      },
    ],
    [
      "a list of items",
      { type: "array", items: [{ type: "string" }, { type: "number" }] },
      {
        type: "array",
        items: { anyOf: [{ type: "string" }, { type: "number" }] },
      },
    ],
    ["items that are anything", { type: "array", items: {} }, { type: "array" }],
    ["a reference into nowhere", { $ref: "https://example.com/x" }, ANY],
  ])("%s", (_name, given, expected) => {
    expect(written(given)).toEqual(expected);
  });

  test("references lead to definitions at the root, and nothing stands beside them", () => {
    const definitions = { "a/b": { type: "string" }, c: { properties: { d: { $ref: "#/definitions/c" } } } };
    const schema = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: {
        one: { $ref: "#/definitions/c", description: "d", type: "object" },
        two: { $ref: "#/definitions/a~1b" },
        three: { $ref: "#/properties/four" },
        four: { type: "number" },
        five: { allOf: [{ $ref: "#/definitions/c" }], description: "e" },
      },
      definitions,
    };
    const c = { $ref: "#/$defs/c" };
    expect(toPlainSchema(schema)).toEqual({
      type: "object",
      properties: {
        one: { description: "d", anyOf: [c] },
        two: { $ref: "#/$defs/at_definitions_a_1b" },
        three: { $ref: "#/$defs/at_properties_four" },
        four: { type: "number" },
        five: { description: "e", anyOf: [c] },
      },
      $defs: {
        c: { type: "object", properties: { d: c } },
        at_definitions_a_1b: { type: "string" },
        at_properties_four: { type: "number" },
      },
    });
  });

  test("references into lists, as zod's generator writes them, lead to what stands there", () => {
    const a = { anyOf: [{ type: "string" }, { type: "number" }] };
    const b = { $ref: "#/properties/a/anyOf/1" };
    expect(toPlainSchema({ type: "object", properties: { a, b } })).toEqual({
      type: "object",
      properties: { a, b: { $ref: "#/$defs/at_properties_a_anyOf_1" } },
      $defs: { at_properties_a_anyOf_1: { type: "number" } },
    });
  });

  test("the root is an object: a choice there is laid together, a reference is followed", () => {
    const one = { properties: { a: { type: "string" } }, required: ["a"] };
    const two = { properties: { b: { type: "string" } }, required: ["b"] };
    const $defs = { one, two };
    const referred = [{ $ref: "#/$defs/one" }, { $ref: "#/$defs/two" }];
    expect(toPlainSchema({ anyOf: referred, $defs })).toEqual(toPlainSchema({ anyOf: [one, two] }));
    expect(toPlainSchema({ type: "object", anyOf: [one, two] })).toEqual({
      type: "object",
      properties: { a: { type: "string" }, b: { type: "string" } },
    });
    expect(toPlainSchema({ $ref: "#/$defs/x", $defs: { x: { type: "object", ...one } } })).toEqual({
      type: "object",
      ...one,
    });
    expect(toPlainSchema({ $ref: "#" })).toEqual({ type: "object", properties: {} });
  });

  test("a schema that is nested without an end is refused", () => {
    let deep: Schema = { type: "string" };
    for (let depth = 0; depth < 100; depth++) deep = { type: "array", items: deep };
    expect(() => toPlainSchema({ type: "object", properties: { deep } })).toThrow("nested deeper");
  });

  test("a chain of references that must hold beside others is refused at once", () => {
    const link = (at: number): Schema => ({ allOf: [{ $ref: `#/$defs/d${at + 1}` }, {}] });
    const $defs: Schema = Object.fromEntries(Array.from({ length: 19_000 }, (_, at) => [`d${at}`, link(at)]));
    const from = (at: number) => ({ type: "object", properties: { a: { $ref: `#/$defs/d${at}` } }, $defs });
    expect(() => toPlainSchema(from(0))).toThrow("nested deeper");
    $defs["d19000"] = { type: "string" };
    expect(toPlainSchema(from(18_950))["$defs"]).toEqual({ d18950: { type: "string" } });
  });
});

describe("tools on their way to it", () => {
  const schema = { $schema: "s", type: "object", properties: { a: { description: "d" } } };
  const plain = { type: "object", properties: { a: { description: "d", ...ANY } } };
  const user = { role: "user", content: "Hi" };

  test("clients of every dialect", () => {
    const chat = { messages: [user], tools: [{ type: "function", function: { name: "f", parameters: schema } }] };
    const messages = { messages: [user], tools: [{ name: "f", input_schema: schema }] };
    const responses = { input: "Hi", tools: [{ type: "function", name: "f", parameters: schema }] };
    const told = [
      send({ from: "chat", to: "chat", quirks }, chat),
      send({ from: "messages", to: "chat", quirks }, messages),
      send({ from: "responses", to: "chat", quirks }, responses),
    ];
    for (const { body, dropped } of told) {
      expect([(body["tools"] as { function: Schema }[])[0]?.function["parameters"], dropped]).toEqual([plain, []]);
    }
    const format = { type: "json_schema", json_schema: { name: "n", schema } };
    const { body } = send({ from: "chat", to: "chat", quirks }, { messages: [user], response_format: format });
    expect(body["response_format"]).toEqual({ type: "json_schema", json_schema: { name: "n", schema: plain } });
  });

  const chosen = (depth: number): Schema =>
    depth === 0 ? { type: "string" } : { anyOf: [{}, {}], properties: { a: chosen(depth - 1) } };
  const places = Array.from({ length: 40 }, (_, at) => [
    { $ref: `#/$defs/d${at + 1}` },
    { $ref: `#/$defs/d${at + 1}` },
  ]);
  const chain = Object.fromEntries(places.map((allOf, at) => [`d${at}`, { allOf }]));
  const many = Array.from({ length: 10_000 }, (_, at) => `v${at}`);
  test.each<[string, unknown, Schema]>([
    ["choices inside what stands beside choices", chosen(30), {}],
    ["references that lead to two others each", { $ref: "#/$defs/d0" }, { $defs: chain }],
    ["many values beside many branches", { enum: many, anyOf: many.map(() => ({})) }, {}],
    [
      "a long text beside many branches",
      { pattern: "x".repeat(50_000), anyOf: many.slice(0, 100).map(() => ({})) },
      {},
    ],
    [
      "a long text that many references lead to",
      {
        properties: Object.fromEntries(
          many.slice(0, 100).map((name) => [name, { allOf: [{ $ref: "#/$defs/d" }, {}] }]),
        ),
      },
      { $defs: { d: { type: "string", enum: ["x".repeat(50_000)] } } },
    ],
    ["many types of many keywords", { type: many, enum: many, ...Object.fromEntries(many.map((key) => [key, 1])) }, {}],
  ])("%s are refused: written out they would hold up everybody", (_, property, more) => {
    expect(() => written(property, more)).toThrow("The JSON Schemas of this request are too large");
  });

  test("all tools of a request count for that together", () => {
    const tool = {
      type: "function",
      function: { name: "t", parameters: { type: "object", properties: { a: chosen(8) } } },
    };
    const way = { from: "chat", to: "chat", quirks } as const;
    const tools = (count: number) =>
      Array.from({ length: count }, (_, at) => ({ ...tool, function: { ...tool.function, name: `t${at}` } }));
    expect(send(way, { messages: [user], tools: tools(2) }).body["tools"]).toHaveLength(2);
    expect(() => send(way, { messages: [user], tools: tools(400) })).toThrow("too large");
  });

  test("a name that begins with no letter has one there, and comes back as the client's", () => {
    const tools = [{ type: "function", function: { name: "21st_magic", parameters: plain } }];
    const way = { from: "chat", to: "chat", quirks } as const;
    const { body, changes } = send(way, { messages: [user], tools });
    expect((body["tools"] as typeof tools)[0]?.function.name).toBe("t_21st_magic");
    const called = { index: 0, id: "c", type: "function", function: { name: "t_21st_magic", arguments: "{}" } };
    const told = stream(
      way,
      chatStream(chunk({ role: "assistant", tool_calls: [called] }), chunk({}, "tool_calls")),
      changes,
    );
    expect(readBack("chat", told)).toContainEqual({
      type: "block-start",
      block: { kind: "tool-call", id: "c", name: "21st_magic" },
    });
  });
});
