import { isObject } from "../lib/json.ts";
import { mapChanged, mapFields } from "../lib/map-changed.ts";

type Schema = Record<string, unknown>;

/** Deepest nesting of a schema that is looked into. */
const MAX_DEPTH = 64;

/** Keywords of schemas that hold another schema, a list of them, and some by their names. */
const SINGLE: ReadonlySet<string> = new Set(["items", "additionalProperties", "not", "if", "then", "else", "contains"]);
const LISTS: ReadonlySet<string> = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
const MAPS: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);

const isArray = ({ type }: Schema): boolean => type === "array" || (Array.isArray(type) && type.includes("array"));

function withItemsUnder(word: string, value: unknown, depth: number): unknown {
  if (SINGLE.has(word)) return withItems(value, depth);
  if (LISTS.has(word) && Array.isArray(value)) return mapChanged(value, (one) => withItems(one, depth));
  return MAPS.has(word) && isObject(value) ? mapFields(value, (one) => withItems(one, depth)) : value;
}

/**
 * A JSON Schema in which every array says what it holds, anything where it did not: OpenAI refuses the whole request for one that says nothing ("array
 * schema missing items", anomalyco/opencode #20273), and tools of MCP servers do. The same value where none is missing.
 */
export function withItems<T>(schema: T, depth = 0): T {
  if (!isObject(schema) || depth > MAX_DEPTH) return schema;
  const whole = mapFields(schema, (value, word) => withItemsUnder(word, value, depth + 1));
  return (isArray(whole) && whole["items"] === undefined ? { ...whole, items: {} } : whole) as T;
}
