import { isObject } from "../lib/json.ts";

type Schema = Record<string, unknown>;

/**
 * A tool's JSON Schema as OpenAI's two dialects take it: an object at the root, its properties named even where there are none (dialects.md 4.1, 4.8 #32).
 * MCP lets tools without arguments say no more than `{type: "object"}`, and one such tool has OpenAI refuse the whole request ("object schema missing
 * properties", openai/openai-agents-python #449).
 */
export function toFunctionSchema({ $schema: _dialect, ...schema }: Schema): Schema {
  const typed = "type" in schema ? schema : { type: "object", ...schema };
  return isObject(typed["properties"]) ? typed : { ...typed, properties: {} };
}
