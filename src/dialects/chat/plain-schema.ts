import { GatewayError } from "../../canon/errors.ts";
import { entryOf, isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { toInputSchema } from "../schema/input-schema.ts";
import { findReferred } from "../schema/references.ts";
import { typeOfValue, typesOf } from "../schema/types.ts";

type Schema = Record<string, unknown>;

/** Deepest nesting of a schema that is rewritten, references that lead into one another among it; a deeper one is refused. */
const MAX_DEPTH = 64;
/**
 * Schemas and keywords that are written for one request at the most: what stands beside a choice is written into each of its branches, and what is
 * referred to twice twice, so that some hundred bytes could become gigabytes.
 */
const MAX_WRITTEN = 100_000;
const CHARACTERS_OF_KEYWORD = 32;

const tooDeep = () => new GatewayError("invalid_request", `The JSON Schema is nested deeper than ${MAX_DEPTH} levels.`);

/** Anything at all: only the whole of a schema may say so by saying nothing. */
const ANYTHING: readonly Schema[] = ["string", "number", "boolean", "object", "array", "null"].map((type) => ({
  type,
}));
/** Keywords that constrain one type alone. */
const OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "minItems", "maxItems"],
  string: ["enum", "minLength", "maxLength"],
  number: ["enum", "minimum", "maximum"],
  integer: ["enum", "minimum", "maximum"],
};
const TYPED: ReadonlySet<string> = new Set(Object.values(OF_TYPE).flat());

/** Whether a value of an `enum` is of a type; whole numbers are numbers as well. */
const isOf = (type: unknown, value: unknown): boolean =>
  typeOfValue(value) === type || (type === "number" && typeof value === "number");

/** How much there is to write of a schema, in keywords of the usual length: of long texts a few can be as much. */
const widthOf = (schema: Schema): number => Math.ceil(JSON.stringify(schema).length / CHARACTERS_OF_KEYWORD);

/** What may still be written of {@link MAX_WRITTEN}. */
class Allowance {
  #left = MAX_WRITTEN;

  /** Throws GatewayError (invalid_request) when it is used up. */
  spend(written: number): void {
    this.#left -= written;
    if (this.#left >= 0) return;
    const text =
      "The JSON Schemas of this request are too large once each of their choices and references is written out.";
    throw new GatewayError("invalid_request", text);
  }
}

/** Schemas that must all hold, as one: their properties and required names together, else the later word. */
function merge(all: readonly Schema[]): Schema {
  const properties: Schema = {};
  for (const one of all) if (isObject(one["properties"])) Object.assign(properties, one["properties"]);
  const required = new Set(all.flatMap((one) => listOf(one["required"])));
  const merged: Schema = {};
  for (const one of all) Object.assign(merged, one);
  if (Object.keys(properties).length > 0) merged["properties"] = properties;
  if (required.size > 0) merged["required"] = [...required];
  return merged;
}

/** A schema of one word or number as the only one of a list: the subset has no `const` (MoonshotAI/walle, "walle and JSON Schema Draft 2020-12"). */
function asEnum(schema: Schema): Schema {
  const { const: only, ...rest } = schema;
  return typeof only === "string" || typeof only === "number" ? { ...rest, enum: [only] } : schema;
}

/** One schema being rewritten: its root, for references, and the definitions that these lead to. */
class Rewriter {
  readonly #definitions = new Map<string, Schema>();

  constructor(
    readonly root: Schema,
    readonly allowance: Allowance,
  ) {}

  write(): Schema {
    const { $schema: _dialect, $defs: _defs, definitions: _definitions, ...rest } = this.root;
    const written = this.#rewrite(rest, 0);
    return this.#definitions.size === 0 ? written : { ...written, $defs: Object.fromEntries(this.#definitions) };
  }

  #rewrite(given: unknown, depth: number): Schema {
    if (depth > MAX_DEPTH) throw tooDeep();
    this.allowance.spend(1);
    if (!isObject(given)) return { anyOf: ANYTHING };
    const { description, ...constraints } = given;
    const said = typeof description === "string" ? { description } : {};
    const schema = asEnum(this.#flatten(constraints, []));
    if (typeof schema["$ref"] === "string") return this.#refer(schema["$ref"], said, depth);
    const { anyOf, oneOf, ...beside } = schema;
    const branches = [...objectsOf(anyOf), ...objectsOf(oneOf)];
    if (branches.length > 0) {
      // A type stands in each branch, and not beside them.
      this.allowance.spend(branches.length * widthOf(beside));
      const spread = branches.map((branch) => (branch["$ref"] === undefined ? merge([beside, branch]) : branch));
      return { ...said, anyOf: spread.map((branch) => this.#rewrite(branch, depth + 1)) };
    }
    const types = typesOf(beside);
    if (types.length === 0) return { ...said, anyOf: ANYTHING };
    const isBare = !Object.keys(beside).some((keyword) => TYPED.has(keyword));
    if (types.length === 1) return { ...said, ...this.#writeTyped(types[0], beside, depth) };
    if (isBare) return { ...said, ...beside };
    this.allowance.spend(types.length * widthOf(beside));
    return { ...said, anyOf: types.map((type) => this.#writeTyped(type, beside, depth)) };
  }

  /** Nothing may stand beside a reference: what is said of it stands beside a choice of that one. */
  #refer(reference: string, said: Schema, depth: number): Schema {
    const name = this.#define(reference, depth);
    if (name === undefined) return { ...said, anyOf: ANYTHING };
    return "description" in said ? { ...said, anyOf: [{ $ref: name }] } : { $ref: name };
  }

  /** A reference as it is taken: to one of the definitions at the root, where what it leads to is written. Undefined where it leads nowhere. */
  #define(reference: string, depth: number): string | undefined {
    if (reference === "#") return reference;
    const target = reference.startsWith("#/") ? findReferred(this.root, reference) : undefined;
    if (!target) return undefined;
    const plain = /^#\/(?:\$defs|definitions)\/([\w.-]+)$/.exec(reference)?.[1];
    const name = plain ?? `at${reference.slice(1).replace(/[^\w.-]/g, "_")}`;
    if (!this.#definitions.has(name)) {
      // It may lead back to itself.
      this.#definitions.set(name, {});
      this.#definitions.set(name, this.#rewrite(target, depth + 1));
    }
    return `#/$defs/${name}`;
  }

  /** `allOf` at the top laid together. `inside`: the references that led here. */
  #flatten(schema: Schema, inside: readonly string[]): Schema {
    const { allOf, ...rest } = schema;
    const all = objectsOf(allOf);
    const [only] = all;
    if (!only) return rest;
    // The usual way to say something of a reference.
    const isAlone = all.length === 1 && !Object.keys(rest).some((keyword) => TYPED.has(keyword) || keyword === "type");
    if (isAlone && typeof only["$ref"] === "string") return only;
    const flat = all.map((branch) => this.#flatten(this.#follow(branch, inside), inside));
    for (const branch of flat) this.allowance.spend(widthOf(branch));
    return merge([...flat, rest]);
  }

  #follow(branch: Schema, inside: readonly string[]): Schema {
    const { $ref: reference, ...rest } = branch;
    if (typeof reference !== "string" || inside.includes(reference)) return rest;
    this.allowance.spend(1);
    if (inside.length === MAX_DEPTH) throw tooDeep();
    const target = findReferred(this.root, reference);
    return target ? { ...this.#flatten(target, [...inside, reference]), ...rest } : rest;
  }

  #writeTyped(type: unknown, schema: Schema, depth: number): Schema {
    const own = entryOf(OF_TYPE, stringOf(type)) ?? [];
    const out: Schema = { type };
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === "type" || (TYPED.has(keyword) && !own.includes(keyword))) continue;
      const written = this.#writeKeyword(keyword, value, { type, schema, depth });
      if (written !== undefined) out[keyword] = written;
    }
    return out;
  }

  #writeKeyword(keyword: string, value: unknown, at: { type: unknown; schema: Schema; depth: number }): unknown {
    const next = (inner: unknown) => this.#rewrite(inner, at.depth + 1);
    switch (keyword) {
      case "properties":
        if (!isObject(value)) return undefined;
        return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, next(inner)]));
      case "required": {
        const { properties } = at.schema;
        const known = listOf(value).filter((name) => isObject(properties) && Object.hasOwn(properties, stringOf(name)));
        return known.length > 0 ? known : undefined;
      }
      case "additionalProperties":
        return isObject(value) && Object.keys(value).length > 0 ? next(value) : value;
      case "items":
        if (objectsOf(value).length > 0) return { anyOf: objectsOf(value).map(next) };
        return isObject(value) && Object.keys(value).length > 0 ? next(value) : undefined;
      case "enum": {
        const values = listOf(value).filter((one) => isOf(at.type, one));
        return values.length > 0 ? values : undefined;
      }
      default:
        return value;
    }
  }
}

/**
 * A tool's schema in the subset that Moonshot's API takes (MoonshotAI/walle on GitHub, "Moonshot Flavored JSON Schema"): an object at the
 * root, a type everywhere, none beside `anyOf` or `$ref`, references to `#/$defs/` alone, and only properties that are there are required.
 * What it means stays the same. Throws GatewayError (invalid_request) when it is nested too deep, or too large once it is written out.
 */
export const toPlainSchema = (schema: Schema, allowance = new Allowance()): Schema =>
  new Rewriter(toInputSchema(schema), allowance).write();

/** Tools with their schemas so; the same value where there are none. Throws as {@link toPlainSchema} does, which all of them count for together. */
export function withPlainSchemas(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  const allowance = new Allowance();
  return tools.map((tool: unknown) => {
    const called = isObject(tool) ? tool["function"] : undefined;
    if (!isObject(tool) || !isObject(called) || !isObject(called["parameters"])) return tool;
    return { ...tool, function: { ...called, parameters: toPlainSchema(called["parameters"], allowance) } };
  });
}

/** A format with its schema so; the same value where it has none. Throws as {@link toPlainSchema} does. */
export function withPlainFormat(format: unknown): unknown {
  const wrapped = isObject(format) ? format["json_schema"] : undefined;
  if (!isObject(format) || !isObject(wrapped) || !isObject(wrapped["schema"])) return format;
  return { ...format, json_schema: { ...wrapped, schema: toPlainSchema(wrapped["schema"]) } };
}
