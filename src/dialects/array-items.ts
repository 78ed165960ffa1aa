import { isObject } from "../lib/json.ts";
import { mapInner } from "./schema/inner-schemas.ts";

type Schema = Record<string, unknown>;

/** Deepest nesting of a schema that is looked into. */
const MAX_DEPTH = 64;

const isArray = ({ type }: Schema): boolean => type === "array" || (Array.isArray(type) && type.includes("array"));

/**
 * A JSON Schema in which every array says what it holds, anything where it did not: OpenAI refuses the whole request for one that says nothing ("array
 * schema missing items", anomalyco/opencode #20273), and tools of MCP servers do. The same value where none is missing.
 */
export function withItems<T>(schema: T, depth = 0): T {
  if (!isObject(schema) || depth > MAX_DEPTH) return schema;
  const whole = mapInner(schema, (inner) => withItems(inner, depth + 1));
  return (isArray(whole) && whole["items"] === undefined ? { ...whole, items: {} } : whole) as T;
}
