import { GatewayError } from "../../canon/errors.ts";
import { isObject, stringOf } from "../../lib/json.ts";

/** Deepest nesting of a schema that is rewritten; a schema deeper than this is refused. */
const MAX_SCHEMA_DEPTH = 64;

type Schema = Record<string, unknown>;

/** What its own vendor takes as the name of a tool's property; one that is not so is a 400 of the whole request. Deeper ones are not looked at. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Keywords that structured output takes as they are (dialects.md 4.9). */
const KEPT = new Set(["type", "$ref", "enum", "const", "title", "required"]);
const MAPS_OF_SCHEMAS = new Set(["properties", "$defs", "definitions"]);
const FORMATS: ReadonlySet<unknown> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid",
]);
/** Say nothing about the value, so nothing is lost without them. */
const ANNOTATIONS = new Set([
  "$schema",
  "$id",
  "$comment",
  "$anchor",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
]);

function rewriteList(value: unknown, depth: number): unknown {
  return Array.isArray(value) ? value.map((entry) => rewrite(entry, depth)) : value;
}

function rewriteMap(value: unknown, depth: number): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, rewrite(entry, depth)]));
}

const isKept = (keyword: string, value: unknown): boolean =>
  KEPT.has(keyword) ||
  (keyword === "format" && FORMATS.has(value)) ||
  (keyword === "minItems" && (value === 0 || value === 1));

const isObjectType = (type: unknown): boolean => type === "object" || (Array.isArray(type) && type.includes("object"));

function rewrite(schema: unknown, depth: number): unknown {
  if (depth > MAX_SCHEMA_DEPTH) {
    throw new GatewayError("invalid_request", `The JSON Schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels.`);
  }
  if (!isObject(schema)) return schema;
  const out: Schema = {};
  const moved: string[] = [];
  let anyOf: unknown[] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (isKept(keyword, value)) out[keyword] = value;
    else if (MAPS_OF_SCHEMAS.has(keyword)) out[keyword] = rewriteMap(value, depth + 1);
    else if (keyword === "anyOf" || keyword === "oneOf") {
      const branches = rewriteList(value, depth + 1);
      if (Array.isArray(branches)) anyOf = [...anyOf, ...branches];
    } else if (keyword === "allOf") out[keyword] = rewriteList(value, depth + 1);
    else if (keyword === "items") out[keyword] = rewrite(value, depth + 1);
    else if (keyword === "description" || keyword === "additionalProperties" || ANNOTATIONS.has(keyword)) continue;
    else moved.push(`${keyword}: ${JSON.stringify(value)}`);
  }
  if (anyOf.length > 0) out["anyOf"] = anyOf;
  if (isObject(schema["additionalProperties"]))
    moved.push(`additionalProperties: ${JSON.stringify(schema["additionalProperties"])}`);
  if (isObjectType(schema["type"]) || isObject(schema["properties"])) out["additionalProperties"] = false;
  const said = typeof schema["description"] === "string" ? schema["description"] : "";
  const description = moved.length === 0 ? said : `${said}${said === "" ? "" : " "}{${moved.join(", ")}}`;
  if (description !== "") out["description"] = description;
  return out;
}

/**
 * A JSON Schema as structured output and strict tools take it: only the known keywords, `oneOf` as `anyOf`, every object closed, and
 * every other constraint moved into the description, where the model still reads it (dialects.md 4.9).
 * Throws GatewayError (invalid_request) when it is nested too deep.
 */
export function toStrictSchema(schema: Schema): Schema {
  return rewrite(schema, 0) as Schema;
}

/** A tool's schema without the properties whose names this dialect does not take (`$filter`, `@id`); `lost` gets each of them. */
export function withoutOddProperties(schema: Schema, lost: (property: string) => void): Schema {
  const { properties, required } = schema;
  if (!isObject(properties)) return schema;
  const odd = new Set(Object.keys(properties).filter((name) => !PROPERTY_NAME.test(name)));
  if (odd.size === 0) return schema;
  for (const name of odd) lost(name);
  const kept = Object.fromEntries(Object.entries(properties).filter(([name]) => !odd.has(name)));
  const demanded = Array.isArray(required) && { required: required.filter((name) => !odd.has(stringOf(name))) };
  return { ...schema, properties: kept, ...demanded };
}
