import { isObject } from "../../lib/json.ts";
import { mapChanged, mapFields } from "../../lib/map-changed.ts";

type Schema = Record<string, unknown>;

/** Keywords of schemas that hold another schema, a list of them, and some by their names. */
const SINGLE: ReadonlySet<string> = new Set([
  ...["items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains"],
]);
const LISTS: ReadonlySet<string> = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
const MAPS: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);

function mapUnder(word: string, value: unknown, change: (schema: unknown) => unknown): unknown {
  if (SINGLE.has(word)) return change(value);
  if (LISTS.has(word) && Array.isArray(value)) return mapChanged<unknown>(value, change);
  return MAPS.has(word) && isObject(value) ? mapFields(value, change) : value;
}

/** A JSON Schema with the schemas that stand right in it as `change` returns them; the very same where that changes none. */
export const mapInner = (schema: Schema, change: (schema: unknown) => unknown): Schema =>
  mapFields(schema, (value, word) => mapUnder(word, value, change));
