import { isObject } from "../../lib/json.ts";
import { toInputSchema } from "./input-schema.ts";

type Schema = Record<string, unknown>;

/**
 * A tool's JSON Schema as OpenAI's two dialects take it: an object at the root, its properties named even where there are none (dialects.md 4.1, 4.8 #32).
 * MCP lets tools without arguments say no more than `{type: "object"}`, and one such tool makes OpenAI refuse the whole request ("object schema missing
 * properties", openai/openai-agents-python #449); so does one with a choice at its root ("schema must have type 'object' and not have
 * 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level", goruck/home-generative-agent #545).
 */
export function toFunctionSchema(given: Schema): Schema {
  const { $schema: _dialect, enum: _values, const: _value, not: _others, ...schema } = toInputSchema(given);
  return isObject(schema["properties"]) ? schema : { ...schema, properties: {} };
}

/** What may stand at the root of a schema in place of an object, or beside it. */
const OTHER_ROOTS = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"];

/** {@link toFunctionSchema} of a schema that is not so yet; the very same of every other one. */
export function withObjectRoot(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const isPlain = schema["type"] === "object" && isObject(schema["properties"]);
  return isPlain && !OTHER_ROOTS.some((word) => Object.hasOwn(schema, word)) ? schema : toFunctionSchema(schema);
}

/** A chat client's `tools`, with {@link toFunctionSchema} applied to functions whose parameters are absent or have no `properties`. */
export function withNamedProperties(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  return tools.map((tool: unknown) => {
    const called = isObject(tool) ? tool["function"] : undefined;
    if (!isObject(tool) || !isObject(called)) return tool;
    const { parameters: given = {} } = called;
    if (!isObject(given) || isObject(given["properties"])) return tool;
    return { ...tool, function: { ...called, parameters: toFunctionSchema(given) } };
  });
}
