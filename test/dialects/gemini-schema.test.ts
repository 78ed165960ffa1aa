import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CopyAllowance, isEmptySchema, toJsonSchema, toOpenApiSchema } from "../../src/dialects/gemini/schema.ts";
import { send } from "./crossing.ts";

const string = { type: "string" };

describe("toOpenApiSchema", () => {
  test.each<[string, Record<string, unknown>, unknown]>([
    [
      "plain",
      { type: "object", properties: { a: string }, required: ["a", "gone"] },
      { type: "object", properties: { a: string }, required: ["a"] },
    ],
    ["a list of types with null", { type: ["integer", "null"] }, { type: "integer", nullable: true }],
    [
      "several types",
      { type: ["string", "integer"], description: "d" },
      { anyOf: [string, { type: "integer" }], description: "d" },
    ],
    ["const", { const: "x" }, { type: "string", enum: ["x"] }],
    ["an enum of words with null", { enum: ["a", null] }, { type: "string", enum: ["a"], nullable: true }],
    ["an enum of numbers", { type: "integer", enum: [1, 2] }, { type: "integer", description: "{one of: [1,2]}" }],
    ["anyOf with null", { anyOf: [string, { type: "null" }] }, { type: "string", nullable: true }],
    ["oneOf", { oneOf: [string, { type: "integer" }] }, { anyOf: [string, { type: "integer" }] }],
    ["a known format", { type: "string", format: "date-time" }, { type: "string", format: "date-time" }],
    [
      "another format",
      { type: "string", format: "email", description: "Mail." },
      { type: "string", description: 'Mail. {format: "email"}' },
    ],
    [
      "constraints",
      { type: "string", pattern: "^a", minLength: 2 },
      { type: "string", description: '{pattern: "^a", minLength: 2}' },
    ],
    [
      "bounds",
      { type: "array", items: string, minItems: 1, maxItems: 2 },
      { type: "array", items: string, minItems: 1, maxItems: 2 },
    ],
    [
      "prefixItems",
      { type: "array", prefixItems: [string, { type: "integer" }] },
      { type: "array", items: { anyOf: [string, { type: "integer" }] } },
    ],
    [
      "allOf",
      { allOf: [{ properties: { a: string }, required: ["a"] }, { properties: { b: string } }] },
      { type: "object", properties: { a: string, b: string }, required: ["a"] },
    ],
    ["annotations", { $schema: "x", type: "string", default: "a", examples: ["b"], $comment: "c" }, string],
    [
      "closed objects",
      { type: "object", properties: { a: string }, additionalProperties: false },
      { type: "object", properties: { a: string } },
    ],
  ])("%s", (_name, schema, wanted) => {
    expect(toOpenApiSchema(schema)).toEqual(wanted as Record<string, unknown>);
  });

  test("references are written out, and cut where they lead back", () => {
    const schema = {
      type: "object",
      properties: { root: { $ref: "#/$defs/node", description: "The root." }, odd: { $ref: "#/$defs/gone" } },
      $defs: {
        node: { type: "object", properties: { name: string, next: { $ref: "#/$defs/node" } } },
      },
    };
    expect(toOpenApiSchema(schema)).toEqual({
      type: "object",
      properties: {
        root: {
          type: "object",
          description: "The root.",
          properties: { name: string, next: { type: "object" } },
        },
        odd: { type: "object" },
      },
    });
    expect(toOpenApiSchema({ $ref: "#" })).toEqual({ type: "object" });
  });

  test("references lead into lists, and to names that a URL cannot hold", () => {
    const schema = {
      type: "object",
      properties: {
        a: { anyOf: [string, { type: "integer" }] },
        b: { $ref: "#/properties/a/anyOf/1" },
        c: { $ref: "#/definitions/Pick%3CX%2C%20%25Y%3E" },
        d: { $ref: "#/definitions/100%" },
        odd: { $ref: "#/properties/a/anyOf/01" },
        length: { $ref: "#/properties/a/anyOf/length" },
      },
      definitions: { "Pick<X, %Y>": { type: "boolean" }, "100%": { type: "number" } },
    };
    expect(toOpenApiSchema(schema)["properties"]).toEqual({
      a: { anyOf: [string, { type: "integer" }] },
      b: { type: "integer" },
      c: { type: "boolean" },
      d: { type: "number" },
      odd: { type: "object" },
      length: { type: "object" },
    });
  });

  test("what all of must hold is followed into its references", () => {
    const $defs = { a: { properties: { a: string }, required: ["a"] }, b: { allOf: [{ $ref: "#/$defs/a" }] } };
    expect(toOpenApiSchema({ allOf: [{ $ref: "#/$defs/b" }, { properties: { c: string } }], $defs })).toEqual({
      type: "object",
      properties: { a: string, c: string },
      required: ["a"],
    });
    expect(toOpenApiSchema({ allOf: [{ $ref: "#" }] })).toEqual({ type: "object" });
  });

  test("references that multiply are refused", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => {
        const next = { $ref: `#/$defs/d${at + 1}` };
        return [`d${at}`, { type: "object", properties: { a: next, b: next } }];
      }),
    );
    expect(() => toOpenApiSchema({ $ref: "#/$defs/d0", $defs })).toThrow("too large");
  });

  const long = "x".repeat(20_000);
  test.each<[string, Record<string, unknown>]>([
    ["description", { type: "string", description: long }],
    ["title", { type: "string", title: long }],
    ["value", { type: "string", enum: [long] }],
    ["keyword that goes into the description", { type: "string", pattern: long }],
    ["name of a property", { type: "object", properties: { [long]: { type: "string" } } }],
  ])("a long %s that many references lead to is refused: written out it would fill the memory", (_name, d) => {
    const referring = (count: number) => ({
      properties: Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { $ref: "#/$defs/d" }])),
      $defs: { d },
    });
    expect(JSON.stringify(toOpenApiSchema(referring(2))).length).toBeGreaterThan(40_000);
    expect(() => toOpenApiSchema(referring(60))).toThrow("too large");
    // What is written once for each time that it is said is as long as the client's own.
    const said = { properties: Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`p${at}`, d])) };
    expect(JSON.stringify(toOpenApiSchema(said)).length).toBeGreaterThan(1_200_000);
    const shared = new CopyAllowance();
    expect(() => Array.from({ length: 30 }, () => toOpenApiSchema(referring(2), shared))).toThrow("too large");
  });

  test("so are many properties that many references lay together: each time it goes through all of them", () => {
    const properties = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`p${at}`, string]));
    const laid = (count: number) => ({
      allOf: Array.from({ length: count }, () => ({ $ref: "#/$defs/d" })),
      $defs: { d: { type: "object", properties } },
    });
    expect(toOpenApiSchema(laid(2))).toEqual({ type: "object", properties });
    expect(() => toOpenApiSchema(laid(200))).toThrow("too large");
  });

  test.each(["required", "type", "anyOf", "oneOf", "prefixItems"])(
    "and so is a long list in %s of what means nothing, which each of many references goes through",
    (word) => {
      const d = { type: "object", properties: { x: string }, [word]: Array.from({ length: 20_000 }, (_, at) => at) };
      const referring = (count: number) => ({
        properties: Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { $ref: "#/$defs/d" }])),
        $defs: { d },
      });
      expect(toOpenApiSchema(referring(2))).toContainKey("properties");
      expect(() => toOpenApiSchema(referring(60))).toThrow("too large");
    },
  );

  test("all tools of a request count for that together", () => {
    const parameters = {
      properties: { a: { $ref: "#/$defs/d" } },
      $defs: { d: { type: "string", description: long } },
    };
    const tools = (count: number) =>
      Array.from({ length: count }, (_, at) => ({ type: "function", function: { name: `t${at}`, parameters } }));
    const asked = (count: number) => ({ messages: [{ role: "user", content: "hi" }], tools: tools(count) });
    const way = { from: "chat", to: "gemini", orders: { upstreamModel: "gemini-1.5-pro" } } as const;
    expect(JSON.stringify(send(way, asked(2)).body)).toContain(long);
    expect(() => send(way, asked(60))).toThrow("too large");
  });

  test.each<[string, (next: Record<string, unknown>) => unknown]>([
    ["references", (next) => next],
    ["references beside others", (next) => ({ allOf: [next, {}] })],
  ])("a chain of %s without an end is refused at once: it would hold up everybody", (_name, link) => {
    const places = Array.from({ length: 6_000 }, (_, at) => [`d${at}`, link({ $ref: `#/$defs/d${at + 1}` })]);
    const schema = { properties: { a: { $ref: "#/$defs/d0" } }, $defs: Object.fromEntries(places) };
    expect(() => toOpenApiSchema(schema)).toThrow("too large");
    const some = { properties: { a: { $ref: "#/$defs/d5900" } }, $defs: { ...schema.$defs, d6000: string } };
    expect(toOpenApiSchema(some)).toEqual({ type: "object", properties: { a: string } });
  });

  test("whatever comes, only known keywords are left, at every level", () => {
    const known = new Set(
      "type nullable enum format description title properties required items anyOf minItems maxItems minimum maximum propertyOrdering".split(
        " ",
      ),
    );
    const unknown = (schema: Record<string, unknown>): string[] => [
      ...Object.keys(schema).filter((keyword) => !known.has(keyword)),
      ...Object.values((schema["properties"] ?? {}) as Record<string, Record<string, unknown>>).flatMap(unknown),
      ...((schema["anyOf"] ?? []) as Record<string, unknown>[]).flatMap(unknown),
      ...(schema["items"] ? unknown(schema["items"] as Record<string, unknown>) : []),
    ];
    const schema = fc.letrec<{ any: Record<string, unknown> }>((tie) => ({
      any: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.constant({}),
        fc.record(
          {
            type: fc.constantFrom("string", "object", "array", "null", ["string", "null"], ["object", "array"], 7),
            properties: fc.dictionary(fc.string(), tie("any"), { maxKeys: 2 }),
            items: fc.oneof(tie("any"), fc.boolean()),
            anyOf: fc.array(tie("any"), { maxLength: 2 }),
            allOf: fc.array(tie("any"), { maxLength: 2 }),
            enum: fc.array(fc.constantFrom("a", 1, null)),
            $ref: fc.constantFrom("#", "#/properties/a", "nowhere"),
            not: tie("any"),
            patternProperties: fc.constant({}),
            required: fc.array(fc.string()),
          },
          { requiredKeys: [] },
        ),
      ) as fc.Arbitrary<Record<string, unknown>>,
    })).any;
    fc.assert(
      fc.property(schema, (each) => {
        let written: Record<string, unknown>;
        try {
          written = toOpenApiSchema(each);
        } catch (error) {
          expect(String(error)).toContain("too large");
          return;
        }
        expect(unknown(written)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});

/** The parameters of a chat client's tool as the vendor is told them. */
function asked(parameters: Record<string, unknown>): unknown {
  const tools = [{ type: "function", function: { name: "paint", parameters } }];
  const { body } = send(
    { from: "chat", to: "gemini", orders: { upstreamModel: "gemini-3.8-flash" } },
    { messages: [{ role: "user", content: "Hi" }], tools },
  );
  const [told] = body["tools"] as { functionDeclarations: { parametersJsonSchema: unknown }[] }[];
  return told?.functionDeclarations[0]?.parametersJsonSchema;
}

describe("toJsonSchema", () => {
  test("const is said otherwise in properties that are named as keywords are, and not in values", () => {
    const properties = { default: { const: "a" }, enum: { const: 1 }, examples: { items: { const: true } } };
    const values = { enum: [{ const: 1 }], default: { const: 1 }, const: { const: 1 } };
    expect(toJsonSchema({ properties: { ...properties, values } })).toEqual({
      properties: {
        ...{ default: { enum: ["a"] }, enum: { enum: [1] }, examples: { items: { enum: [true] } } },
        values,
      },
    });
  });

  test("only const is said otherwise, and a property of that name is none", () => {
    const schema = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        kind: { const: "a" },
        const: { type: "integer", pattern: "kept", enum: [1] },
      },
      $defs: { x: { anyOf: [{ const: 1 }, { type: "null" }] } },
    };
    expect(toJsonSchema(schema)).toEqual({
      type: "object",
      properties: {
        kind: { enum: ["a"] },
        const: { type: "integer", pattern: "kept", enum: [1] },
      },
      $defs: { x: { anyOf: [{ enum: [1] }, { type: "null" }] } },
    });
    expect(schema.properties.kind).toEqual({ const: "a" });
  });

  test("a reference stands alone, and leads to where the vendor looks for definitions", () => {
    const color = { type: "string", enum: ["red", "blue"] };
    const parameters = {
      type: "object",
      properties: {
        color: { $ref: "#/$defs/Color", default: "red", description: "Its color." },
        bare: { $ref: "#/$defs/Color" },
        $ref: { type: "string" },
      },
      $defs: { Color: color },
    };
    expect(asked(parameters)).toEqual({
      ...parameters,
      properties: {
        color: { default: "red", description: "Its color.", anyOf: [{ $ref: "#/$defs/Color" }] },
        bare: { $ref: "#/$defs/Color" },
        $ref: { type: "string" },
      },
    });
    const definitions = {
      Answer: { type: "object", properties: { color: { $ref: "#/definitions/Color" } } },
      Color: color,
    };
    expect(asked({ $ref: "#/definitions/Answer", definitions })).toEqual({
      type: "object",
      properties: { color: { $ref: "#/$defs/Color" } },
      $defs: { Answer: { type: "object", properties: { color: { $ref: "#/$defs/Color" } } }, Color: color },
    });
  });

  test("what says nothing of its object is empty", () => {
    for (const schema of [{}, { type: "object" }, { type: "object", properties: {}, additionalProperties: false }]) {
      expect(isEmptySchema(schema)).toBe(true);
    }
    for (const schema of [{ properties: { a: {} } }, { $ref: "#/$defs/a" }, { additionalProperties: string }]) {
      expect(isEmptySchema(schema)).toBe(false);
    }
  });
});
