import { isObject, listOf } from "../../lib/json.ts";
import { withItems } from "../array-items.ts";
import { typesOf } from "./types.ts";

type Schema = Record<string, unknown>;

/** Deepest nesting of a schema that is looked into; a deeper one cannot be strict. */
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
/** What may be said of a reference beside it, once that stands in a choice of its own. */
const SAID_OF_REFERENCE: ReadonlySet<string> = new Set(["title", "description"]);

const isObjectType = ({ type, properties }: Schema): boolean =>
  type === "object" || (Array.isArray(type) && type.includes("object")) || isObject(properties);

/** An object that wants each of its properties. */
function wantsAll({ properties, required }: Schema): boolean {
  const wanted: ReadonlySet<unknown> = new Set(listOf(required));
  return !isObject(properties) || Object.keys(properties).every((name) => wanted.has(name));
}

/**
 * Nothing may stand beside a reference ("$ref cannot have keywords {'description'}", camel-ai/camel #3001): what is said of it stands beside a choice of
 * that one. Undefined for a constraint.
 */
function closeReference({ $ref: reference, ...said }: Schema): Schema | undefined {
  const words = Object.keys(said);
  if (words.length === 0) return { $ref: reference };
  return words.every((word) => SAID_OF_REFERENCE.has(word)) ? { ...said, anyOf: [{ $ref: reference }] } : undefined;
}

/** With the type that its other keywords show: each must say one ("schema must have a 'type' key"). Undefined where anything goes. */
function typed(schema: Schema): Schema | undefined {
  if ("type" in schema || "anyOf" in schema) return schema;
  const [type, ...others] = typesOf(schema);
  return type === undefined ? undefined : { type: others.length === 0 ? type : [type, ...others], ...schema };
}

/** Undefined stands for: cannot be strict. */
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
 * A schema as OpenAI takes it when it is strict: every object closed, and no default (dialects.md 4.8 #32). Undefined where that would
 * change its meaning (an optional property, a free one): other vendors' strict mode wants less, and a schema that is refused there would
 * fail the whole request.
 */
export function toStrictSchema(schema: Schema): Schema | undefined {
  // By the same guide the whole of a schema may be no choice.
  const closed = "anyOf" in schema ? undefined : close(schema, 0);
  return isObject(closed) ? closed : undefined;
}

/**
 * The schema to send to who speaks one of OpenAI's dialects, and whether it is strict, given that strict was wished for: where it cannot be, its `path` is
 * named in `dropped` if it was said to be, and the schema goes out as it is, with items in every array.
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
