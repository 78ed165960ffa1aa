import { GatewayError } from "../../canon/errors.ts";
import { atPointer, entryOf, isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { openRoot } from "../schema/input-schema.ts";

/** Deepest nesting of a schema that is rewritten, levels; a deeper one is refused. */
const MAX_DEPTH = 64;
/** Most schemas that one may come to with its references written out; a larger one is refused. */
const MAX_NODES = 20_000;
/** Most references that lead into one another; a longer chain is refused, since each is compared with all before it. */
const MAX_CHAIN = 256;

/**
 * Most characters that the references of one request's schemas may add to it, in this dialect: a text that is referred to a thousand times is written a
 * thousand times, so that some hundred kilobytes could become gigabytes.
 */
const MAX_COPIED = 1024 * 1024;

type Schema = Record<string, unknown>;

/** Formats that the subset knows, by the type they belong to (dialects.md 3.4). */
const FORMATS: Readonly<Record<string, ReadonlySet<string>>> = {
  string: new Set(["date-time", "enum"]),
  integer: new Set(["int32", "int64"]),
  number: new Set(["float", "double"]),
};

/** Keywords that the subset takes as they are. */
const KEPT: ReadonlySet<string> = new Set([
  "title",
  "minItems",
  "maxItems",
  "minimum",
  "maximum",
  "nullable",
  "propertyOrdering",
]);
/** Keywords that do not constrain a value, or are read elsewhere: they are not written into the description. */
const SILENT: ReadonlySet<string> = new Set(
  "$schema $id $anchor $comment $defs definitions $ref type enum const format description properties required items prefixItems anyOf oneOf allOf additionalProperties examples default deprecated readOnly writeOnly".split(
    " ",
  ),
);

const tooLarge = () =>
  new GatewayError("invalid_request", "The JSON Schema is too large or nested too deep for this model.");

/** A schema without `$ref` and `allOf` at its top. `inside`: the references that were followed to it. */
type Flat = { schema: Schema; inside: readonly string[] };

/** Counts what the references of one request add to it, against {@link MAX_COPIED}. */
export class CopyAllowance {
  #left = MAX_COPIED;

  /** Counts the JSON text of `copied`. Throws GatewayError (invalid_request) when {@link MAX_COPIED} is exceeded. */
  spend(copied: unknown): void {
    this.#left -= JSON.stringify(copied).length;
    if (this.#left < 0) throw tooLarge();
  }
}

/** A written schema without the schemas inside it, which are counted by themselves. */
function ownOf({ properties, items, anyOf, required, ...own }: Schema): unknown {
  return [own, isObject(properties) && Object.keys(properties)];
}

/** The lists of a given schema that are gone through, whether or not they are written. */
const listedIn = ({ required, type, prefixItems, anyOf, oneOf }: Schema): unknown => [
  required,
  Array.isArray(type) && type,
  [prefixItems, anyOf, oneOf].map((list) => listOf(list).filter((one) => !isObject(one))),
];

/** Rewrites one schema. `root` is where references start from. */
class Rewriter {
  #nodes = 0;

  constructor(
    readonly root: Schema,
    readonly copies: CopyAllowance,
  ) {}

  /** `given` in the subset. `inside`: the references that led here, so that one which leads back into itself is cut. */
  rewrite(given: unknown, depth: number, inside: readonly string[]): Schema {
    if (!isObject(given)) return {};
    if (depth > MAX_DEPTH) throw tooLarge();
    const { schema, inside: through } = this.#flatten(given, inside);
    const out: Schema = {};
    const said: string[] = [];
    for (const [keyword, value] of Object.entries(schema)) {
      if (KEPT.has(keyword)) out[keyword] = value;
      else if (!SILENT.has(keyword)) said.push(`${keyword}: ${JSON.stringify(value)}`);
    }
    const next = (inner: unknown) => this.rewrite(inner, depth + 1, through);
    this.#writeType(schema, out, said, next);
    this.#writeChildren(schema, out, next);
    const description = [schema["description"], said.length > 0 ? `{${said.join(", ")}}` : ""]
      .filter(Boolean)
      .join(" ");
    if (description !== "") out["description"] = description;
    if (through.length > 0) this.copies.spend([ownOf(out), listedIn(schema)]);
    return out;
  }

  /** A schema that refers to itself cannot be written out to its end: it is once, and where it would begin again any object is allowed. */
  #flatten(given: Schema, inside: readonly string[]): Flat {
    if (++this.#nodes > MAX_NODES) throw tooLarge();
    const { $ref: reference, ...beside } = given;
    if (typeof reference === "string") {
      const target = inside.includes(reference) ? undefined : this.#resolve(reference);
      if (!target) return this.#flatten({ type: "object", ...beside }, inside);
      if (inside.length >= MAX_CHAIN) throw tooLarge();
      return this.#flatten({ ...target, ...beside }, [...inside, reference]);
    }
    const { allOf, ...rest } = given;
    const branches = objectsOf(allOf).map((branch) => this.#flatten(branch, inside));
    if (branches.length === 0) return { schema: rest, inside };
    for (const { schema, inside: through } of branches) {
      if (through.length > 0) this.copies.spend(namesIn(schema));
    }
    const schema = mergeSchemas([...branches.map((branch) => branch.schema), rest]);
    return { schema, inside: [...new Set(branches.flatMap((branch) => branch.inside))] };
  }

  #resolve(reference: string): Schema | undefined {
    if (!reference.startsWith("#")) return undefined;
    const value = atPointer(this.root, reference);
    return isObject(value) ? value : undefined;
  }

  /** Writes one type, and `nullable` beside it; several types become `anyOf`. The subset has enums of strings only: others go into `said`. */
  #writeType(schema: Schema, out: Schema, said: string[], next: (schema: unknown) => Schema): void {
    const types = (Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]]).filter(
      (type): type is string => typeof type === "string",
    );
    const values = "const" in schema ? [schema["const"]] : Array.isArray(schema["enum"]) ? schema["enum"] : undefined;
    if (types.includes("null") || values?.includes(null)) out["nullable"] = true;
    const real = types.filter((type) => type !== "null");
    const words = values?.filter((value) => value !== null);
    const type = real[0] ?? (words?.length ? typeOfValue(words[0]) : undefined);
    if (real.length > 1) out["anyOf"] = real.map((one) => next({ ...schema, ...UNTOLD, type: one }));
    else if (type !== undefined) out["type"] = type;
    if (words?.every((word) => typeof word === "string") && words.length > 0) out["enum"] = words;
    else if (words && words.length > 0) said.push(`one of: ${JSON.stringify(words)}`);
    const { format } = schema;
    if (typeof format !== "string") return;
    if (type !== undefined && entryOf(FORMATS, type)?.has(format)) out["format"] = format;
    else said.push(`format: ${JSON.stringify(format)}`);
  }

  #writeChildren(schema: Schema, out: Schema, next: (schema: unknown) => Schema): void {
    const { properties, required, items, prefixItems } = schema;
    if (out["anyOf"]) return;
    if (isObject(properties) && Object.keys(properties).length > 0) {
      out["type"] ??= "object";
      out["properties"] = Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, next(value)]));
      const known = listOf(required).filter((name) => Object.hasOwn(properties, stringOf(name)));
      if (known.length > 0) out["required"] = known;
    }
    if (isObject(items)) out["items"] = next(items);
    else if (objectsOf(prefixItems).length > 0) out["items"] = { anyOf: objectsOf(prefixItems).map(next) };
    else if (out["type"] === "array") out["items"] = {};
    const branches = [...objectsOf(schema["anyOf"]), ...objectsOf(schema["oneOf"])];
    const real = branches.filter((branch) => branch["type"] !== "null");
    if (real.length < branches.length) out["nullable"] = true;
    if (real.length === 1) Object.assign(out, { ...next(real[0]), ...out });
    else if (real.length > 1) out["anyOf"] = real.map(next);
  }
}

/** What the branches for each type of a list must not repeat of the schema around them. */
const UNTOLD = { description: undefined, title: undefined, nullable: undefined };

function typeOfValue(value: unknown): string {
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value === "boolean" ? "boolean" : "string";
}

/** The names in a schema that {@link mergeSchemas} goes through. */
const namesIn = ({ properties, required }: Schema): unknown => [
  isObject(properties) && Object.keys(properties),
  required,
];

/** One schema for several that must all hold: it has the properties and required names of all, and of any other keyword the last value. */
function mergeSchemas(all: readonly Schema[]): Schema {
  const properties = Object.assign(
    {},
    ...all.map((one) => (isObject(one["properties"]) ? one["properties"] : {})),
  ) as Schema;
  const required = all.flatMap((one) => listOf(one["required"]));
  return {
    ...(Object.assign({}, ...all) as Schema),
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required: [...new Set(required)] }),
  };
}

/**
 * A JSON Schema in the older OpenAPI subset, for models that know no other (dialects.md 3.4): references are written out, and cut where
 * they lead back into themselves; there is one type, with `nullable`; only strings are enumerated; every other constraint is moved into
 * the description, where the model still reads it. `copies` is shared by all schemas of a request. Throws GatewayError (invalid_request)
 * when it is too large or nested too deep.
 */
export function toOpenApiSchema(schema: Schema, copies = new CopyAllowance()): Schema {
  return JSON.parse(JSON.stringify(new Rewriter(schema, copies).rewrite(schema, 0, []))) as Schema;
}

/** Whether a schema says nothing about its object: a tool's parameters must be left out then (dialects.md 3.4). */
export function isEmptySchema(schema: Schema): boolean {
  const { properties } = schema;
  if (isObject(properties) && Object.keys(properties).length > 0) return false;
  return !["$ref", "anyOf", "oneOf", "allOf", "additionalProperties"].some((word) => schema[word]);
}

/**
 * A JSON Schema for models that take one: `const`, which they do not know, becomes an `enum` of one value, `definitions` becomes `$defs`, and a
 * reference stands alone; the rest stays as it came. Throws GatewayError (invalid_request) when it is nested too deep.
 */
export function toJsonSchema(schema: Schema): Schema {
  const { $schema: _dialect, definitions, ...rest } = "$ref" in schema ? openRoot(schema) : schema;
  const defined = isObject(definitions) && { $defs: { ...definitions, ...(isObject(rest["$defs"]) && rest["$defs"]) } };
  return rewritePlain({ ...rest, ...defined }, 0) as Schema;
}

/** Keywords whose values map names to schemas. The client chooses these names, and one may look like a keyword. */
const BY_NAME: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"]);
/** Keywords that hold values: these are not schemas, whatever they look like. */
const VALUES: ReadonlySet<string> = new Set(["const", "enum", "default", "examples"]);

/** Where definitions stood before draft 2019-09, and where the vendor looks for them. */
const OLDER_PLACE = "#/definitions/";
const PLACE = "#/$defs/";

/**
 * A schema with a reference as the vendor takes it: "can only contain properties starting with '$' when $ref is present" (google-gemini/gemini-cli #4758; its
 * API: FunctionDeclaration). What pydantic and others write beside one, such as a default, is written beside an `anyOf` that holds the reference alone.
 */
function aloneReference({ $ref: given, ...beside }: Schema): Schema {
  const $ref = String(given).startsWith(OLDER_PLACE) ? PLACE + String(given).slice(OLDER_PLACE.length) : given;
  const others = Object.keys(beside).filter((keyword) => !keyword.startsWith("$"));
  if (others.length === 0) return { $ref, ...beside };
  // Both the reference and the choice must hold, which cannot be written here.
  if ("anyOf" in beside) return { $ref };
  return { ...beside, anyOf: [{ $ref }] };
}

/** `areNames`: the keys of `value` are the client's names and not keywords. */
function rewritePlain(value: unknown, depth: number, areNames = false): unknown {
  if (depth > MAX_DEPTH * 2) {
    throw new GatewayError("invalid_request", "The JSON Schema is nested too deep for this model.");
  }
  if (Array.isArray(value)) return value.map((one) => rewritePlain(one, depth + 1));
  if (!isObject(value)) return value;
  const out: Schema = {};
  for (const [key, inner] of Object.entries(value)) {
    if (areNames) out[key] = rewritePlain(inner, depth + 1);
    else if (key === "const" && !isObject(inner)) out["enum"] = [inner];
    else out[key] = VALUES.has(key) ? inner : rewritePlain(inner, depth + 1, BY_NAME.has(key));
  }
  return !areNames && typeof out["$ref"] === "string" ? aloneReference(out) : out;
}
