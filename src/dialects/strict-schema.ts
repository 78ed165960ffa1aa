import { isObject } from "../lib/json.ts";

/** Deepest nesting of a schema that is looked into; a deeper one counts as not strict. */
const MAX_DEPTH = 64;

const LISTS = ["anyOf", "allOf", "prefixItems"] as const;
const MAPS = ["$defs", "definitions"] as const;

/** An object that is closed and wants every property. */
function isClosed(schema: Record<string, unknown>): boolean {
  const { properties, required } = schema;
  if (schema["additionalProperties"] !== false) return false;
  const names = isObject(properties) ? Object.keys(properties) : [];
  return names.every((name) => Array.isArray(required) && required.includes(name));
}

/**
 * Whether OpenAI takes a schema as strict: every object closed with all of its properties required, and no default anywhere
 * (dialects.md 4.8 #32). Other vendors' strict mode wants less, and a schema that is refused there would fail the whole request.
 */
export function isStrictSchema(schema: unknown, depth = 0): boolean {
  if (depth > MAX_DEPTH) return false;
  if (!isObject(schema)) return schema !== true;
  const { type, properties, items } = schema;
  if ("default" in schema || "oneOf" in schema || "patternProperties" in schema) return false;
  const isObjectType = type === "object" || (Array.isArray(type) && type.includes("object")) || isObject(properties);
  if (isObjectType && !isClosed(schema)) return false;
  const inner: unknown[] = isObject(properties) ? Object.values(properties) : [];
  if (items !== undefined) inner.push(items);
  for (const word of LISTS) if (Array.isArray(schema[word])) inner.push(...schema[word]);
  for (const word of MAPS) if (isObject(schema[word])) inner.push(...Object.values(schema[word]));
  return inner.every((one) => isStrictSchema(one, depth + 1));
}
