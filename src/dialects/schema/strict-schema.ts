import { isObject, listOf } from "../../lib/json.ts";
import { withItems } from "../array-items.ts";
import { typesOf } from "./types.ts";

type Schema = Record<string, unknown>;

/** Deepest nesting of a schema that is looked into, levels; a deeper one cannot be strict. */
const MAX_DEPTH = 64;

const LISTS: ReadonlySet<string> = new Set(["anyOf", "prefixItems"]);
const MAPS: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);
/** Keywords that strict mode refuses (OpenAI's guide, "Structured Outputs", Supported schemas). */
const REFUSED = [
  ...["oneOf", "allOf", "patternProperties", "not", "if", "dependentRequired", "dependentSchemas"],
  // "'uniqueItems' is not permitted" (mastra-ai/mastra #23321), and so for each of these that the guide does not list.
  ...["minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"],
  ...["propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"],
];
/** Keywords beside a reference that may be kept, once that stands in an `anyOf` of its own. */
const SAID_OF_REFERENCE: ReadonlySet<string> = new Set(["title", "description"]);

const isObjectType = ({ type, properties }: Schema): boolean =>
  type === "object" || (Array.isArray(type) && type.includes("object")) || isObject(properties);

/** Whether a schema requires each of its properties. */
function wantsAll({ properties, required }: Schema): boolean {
  const wanted: ReadonlySet<unknown> = new Set(listOf(required));
  return !isObject(properties) || Object.keys(properties).every((name) => wanted.has(name));
}

/**
 * A schema with a reference, which nothing may stand beside ("$ref cannot have keywords {'description'}", camel-ai/camel #3001): title and description are
 * written beside an `anyOf` that holds the reference alone. Undefined where any other keyword stands beside it.
 */
function closeReference({ $ref: reference, ...said }: Schema): Schema | undefined {
  const words = Object.keys(said);
  if (words.length === 0) return { $ref: reference };
  return words.every((word) => SAID_OF_REFERENCE.has(word)) ? { ...said, anyOf: [{ $ref: reference }] } : undefined;
}

/** The schema with a type, which each must have ("schema must have a 'type' key"), taken from its other keywords. Undefined where these show none. */
function typed(schema: Schema): Schema | undefined {
  if ("type" in schema || "anyOf" in schema) return schema;
  const [type, ...others] = typesOf(schema);
  return type === undefined ? undefined : { type: others.length === 0 ? type : [type, ...others], ...schema };
}

/** A schema in its strict form; undefined where it cannot be strict. */
function close(value: unknown, depth: number): unknown {
  if (!isObject(value)) return value === true ? undefined : value;
  if (depth > MAX_DEPTH || REFUSED.some((word) => word in value)) return undefined;
  const isOpen = isObject(value["additionalProperties"]) || value["additionalProperties"] === true;
  if (isObjectType(value) && (isOpen || !wantsAll(value))) return undefined;
  const out: Schema = {};
  for (const [word, inner] of Object.entries(value)) {
    // A default says nothing where every property must be written anyway.
    if (word === "default") continue;
    const closed = closeUnder(word, inner, depth + 1);
    if (closed === undefined) return undefined;
    out[word] = closed;
  }
  if (isObjectType(value)) out["additionalProperties"] = false;
  return "$ref" in out ? closeReference(out) : typed(out);
}

function closeUnder(word: string, value: unknown, depth: number): unknown {
  if (word === "items") return close(value, depth);
  if (LISTS.has(word) && Array.isArray(value)) {
    const closed = value.map((one) => close(one, depth));
    return closed.includes(undefined) ? undefined : closed;
  }
  if (!MAPS.has(word) || !isObject(value)) return value;
  const closed = Object.entries(value).map(([name, one]) => [name, close(one, depth)] as const);
  return closed.some(([, one]) => one === undefined) ? undefined : Object.fromEntries(closed);
}

/**
 * A schema in the form that OpenAI's strict mode demands: every object closed, and no default (dialects.md 4.8 #32). Undefined where that
 * would change its meaning (an optional property, or any property allowed): strict modes of other vendors demand less, and a schema that OpenAI
 * refuses would fail the whole request.
 */
export function toStrictSchema(schema: Schema): Schema | undefined {
  // By the same guide the root of a schema may not be an anyOf.
  const closed = "anyOf" in schema ? undefined : close(schema, 0);
  return isObject(closed) ? closed : undefined;
}

/**
 * The schema to send in one of OpenAI's dialects, and the `strict` to send with it. Where it cannot be strict, it goes out as it is, with `items` in every
 * array; if the client itself asked for strict (true), `path` is named in `dropped`.
 */
export function fitStrict(
  given: Schema,
  strict: boolean | "where-it-fits" | undefined,
  path: string,
  dropped: string[],
): { schema: Schema; strict: boolean | undefined } {
  const schema = withItems(given);
  if (!strict) return { schema, strict };
  const closed = toStrictSchema(schema);
  if (closed) return { schema: closed, strict: true };
  if (strict === true) dropped.push(path);
  return { schema, strict: undefined };
}
