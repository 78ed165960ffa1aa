import { isObject } from "../../lib/json.ts";

/** A value's type, in the words of JSON Schema. */
export function typeOfValue(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return Array.isArray(value) ? "array" : typeof value;
}

/** The types that a schema names, or that its other keywords show; none where these show none. */
export function typesOf(schema: Record<string, unknown>): readonly unknown[] {
  const { type, properties, items, enum: values } = schema;
  if (Array.isArray(type)) return [...new Set(type)];
  if (type !== undefined) return [type];
  if (isObject(properties)) return ["object"];
  if (items !== undefined) return ["array"];
  if ("const" in schema) return [typeOfValue(schema["const"])];
  return Array.isArray(values) ? [...new Set(values.map(typeOfValue))] : [];
}
