import { cutText } from "../../lib/cut-text.ts";
import { atPointer, entryOf, isObject } from "../../lib/json.ts";

/** Schemas nest and refer to each other; below this an example ends in null. */
const MAX_DEPTH = 16;
/** Values made for one schema; a schema that refers to itself twice would double at every depth. */
const MAX_VALUES = 5_000;
/** The most items or characters an example makes to reach a schema's minimum. */
const MAX_FILL = 100;

/** Plausible strings for the formats people declare. */
const FORMATS: Readonly<Record<string, string>> = {
  date: "2026-01-02",
  time: "03:04:05Z",
  "date-time": "2026-01-02T03:04:05Z",
  duration: "PT1H",
  email: "user@example.com",
  uri: "https://example.com/",
  url: "https://example.com/",
  hostname: "example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uuid: "00000000-0000-4000-8000-000000000000",
};

/**
 * The smallest value that a JSON Schema plausibly accepts: required fields only, the first of several choices, `text` for strings.
 * Numbers keep to their bounds, strings to their lengths, lists to their least size. Patterns are not solved.
 */
export function exampleOf(schema: unknown, text: string): unknown {
  return example(schema, { root: schema, text, left: MAX_VALUES }, 0);
}

type Context = { root: unknown; text: string; left: number };

function example(schema: unknown, context: Context, depth: number): unknown {
  if (!isObject(schema) || depth > MAX_DEPTH || context.left-- <= 0) return null;
  if (typeof schema["$ref"] === "string") return example(resolve(schema["$ref"], context.root), context, depth + 1);
  if ("const" in schema) return schema["const"];
  if (Array.isArray(schema["enum"]) && schema["enum"].length > 0) return schema["enum"][0];
  if ("default" in schema) return schema["default"];
  for (const choice of [schema["anyOf"], schema["oneOf"]]) {
    if (Array.isArray(choice) && choice.length > 0) return example(choice[0], context, depth + 1);
  }
  if (Array.isArray(schema["allOf"])) return exampleOfAll(schema, schema["allOf"], context, depth);
  const make = entryOf(MAKERS, typeOf(schema));
  return make ? make(schema, context, depth) : null;
}

/** A local reference such as `#/$defs/point`; undefined when it leads nowhere. */
function resolve(reference: string, root: unknown): unknown {
  if (!reference.startsWith("#")) return undefined;
  return atPointer(root, reference);
}

/** Every part of an `allOf` holds at once: their fields and what they require, together. */
function exampleOfAll(schema: Record<string, unknown>, parts: unknown[], context: Context, depth: number): unknown {
  const { allOf: _all, ...own } = schema;
  const all = [...parts, own]
    .map((part) => (isObject(part) && typeof part["$ref"] === "string" ? resolve(part["$ref"], context.root) : part))
    .filter(isObject);
  const objects = all.filter((part) => isObject(part["properties"]) || Array.isArray(part["required"]));
  if (objects.length === 0) return example(all[0], context, depth + 1);
  const properties = objects.flatMap((part) =>
    isObject(part["properties"]) ? Object.entries(part["properties"]) : [],
  );
  const required = objects.flatMap((part) => (Array.isArray(part["required"]) ? part["required"] : []));
  return makeObject({ properties: Object.fromEntries(properties), required }, context, depth);
}

function typeOf(schema: Record<string, unknown>): string {
  const { type } = schema;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return String(type.find((name) => name !== "null") ?? "null");
  if ("properties" in schema || "required" in schema) return "object";
  return "items" in schema ? "array" : "string";
}

const numberOr = (value: unknown, otherwise: number) => (typeof value === "number" ? value : otherwise);

type Maker = (schema: Record<string, unknown>, context: Context, depth: number) => unknown;

const MAKERS: Readonly<Record<string, Maker>> = {
  object: makeObject,
  array(schema, context, depth) {
    const least = Math.min(MAX_FILL, numberOr(schema["minItems"], 0));
    return Array.from({ length: least }, () => example(schema["items"], context, depth + 1));
  },
  string(schema, { text }) {
    const format = entryOf(FORMATS, String(schema["format"]));
    if (format !== undefined) return format;
    const least = Math.min(MAX_FILL, numberOr(schema["minLength"], 0));
    return cutText((text === "" ? "text" : text).padEnd(least, "."), numberOr(schema["maxLength"], Infinity));
  },
  integer: (schema) => Math.round(withinBounds(schema, 1)),
  number: (schema) => withinBounds(schema, 0.5),
  boolean: () => true,
  null: () => null,
};

function makeObject(schema: Record<string, unknown>, context: Context, depth: number): Record<string, unknown> {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const entries = required
    .filter((name): name is string => typeof name === "string")
    .map((name) => [name, example(entryOf(properties, name) ?? { type: "string" }, context, depth + 1)] as const);
  return Object.fromEntries(entries);
}

/** A number of the schema's range, 1 where that lies in it; `gap` is what an exclusive bound is kept away by. */
function withinBounds(schema: Record<string, unknown>, gap: number): number {
  const low = Math.max(numberOr(schema["minimum"], -Infinity), numberOr(schema["exclusiveMinimum"], -Infinity) + gap);
  const high = Math.min(numberOr(schema["maximum"], Infinity), numberOr(schema["exclusiveMaximum"], Infinity) - gap);
  const step = numberOr(schema["multipleOf"], 0);
  const value = Math.min(Math.max(1, low), high);
  return step > 0 ? Math.ceil(value / step) * step : value;
}
