import { isObject } from "../../src/lib/json.ts";

/** A schema as the OpenAPI document writes it: the part of JSON Schema that the document uses, and no more. */
export type Schema = Record<string, unknown>;

/** Keywords that do not restrict a value. */
const REMARKS = new Set(["description", "title", "examples", "default"]);

/** Checks a value by one keyword, whose own value is `told`. Returns what is wrong, or undefined. `inner` checks a part of the value. */
type Rule = (value: unknown, told: unknown, schema: Schema, inner: Inner) => string | undefined;
type Inner = (value: unknown, schema: unknown, step: string) => string | undefined;

const count = (text: string) => [...text].length;
const isNumber = (value: unknown): value is number => typeof value === "number";

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  number: isNumber,
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  object: isObject,
  array: Array.isArray,
};

const text =
  (holds: (value: string, told: never) => boolean, what: string): Rule =>
  (value, told) =>
    typeof value !== "string" || holds(value, told as never) ? undefined : `${what} ${String(told)}`;
const figure =
  (holds: (value: number, told: number) => boolean, what: string): Rule =>
  (value, told) =>
    !isNumber(value) || holds(value, told as number) ? undefined : `${what} ${String(told)}`;
const list =
  (holds: (length: number, told: number) => boolean, what: string): Rule =>
  (value, told) =>
    !Array.isArray(value) || holds(value.length, told as number) ? undefined : `${what} ${String(told)}`;

function firstOf<T>(items: Iterable<T>, look: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const fault = look(item);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Fields that `properties` does not name. */
const unnamed = (value: Record<string, unknown>, schema: Schema) =>
  Object.keys(value).filter((name) => !Object.hasOwn((schema["properties"] as Schema | undefined) ?? {}, name));

const RULES: Readonly<Record<string, Rule>> = {
  type: (value, told) => (TYPES[String(told)]?.(value) ? undefined : `is no ${String(told)}`),
  const: (value, told) => (value === told ? undefined : `is not ${JSON.stringify(told)}`),
  enum: (value, told) => ((told as unknown[]).includes(value) ? undefined : `is none of ${JSON.stringify(told)}`),
  anyOf: (value, told, _schema, inner) =>
    (told as Schema[]).some((branch) => inner(value, branch, "") === undefined) ? undefined : "fits no branch",
  required: (value, told) =>
    !isObject(value)
      ? undefined
      : firstOf(told as string[], (name) => (Object.hasOwn(value, name) ? undefined : `lacks ${name}`)),
  properties: (value, told, _schema, inner) =>
    !isObject(value)
      ? undefined
      : firstOf(Object.entries(told as Schema), ([name, schema]) =>
          Object.hasOwn(value, name) ? inner(value[name], schema, `.${name}`) : undefined,
        ),
  patternProperties: (value, told, _schema, inner) =>
    !isObject(value)
      ? undefined
      : firstOf(Object.entries(told as Schema), ([pattern, schema]) =>
          firstOf(Object.keys(value), (name) =>
            new RegExp(pattern, "u").test(name) ? inner(value[name], schema, `.${name}`) : undefined,
          ),
        ),
  additionalProperties: (value, told, schema) =>
    told === false && isObject(value) ? firstOf(unnamed(value, schema), (name) => `has a field ${name}`) : undefined,
  items: (value, told, _schema, inner) =>
    !Array.isArray(value) ? undefined : firstOf(value.entries(), ([at, item]) => inner(item, told, `[${at}]`)),
  minItems: list((length, told) => length >= told, "has fewer entries than"),
  maxItems: list((length, told) => length <= told, "has more entries than"),
  minLength: text((value, told: number) => count(value) >= told, "is shorter than"),
  maxLength: text((value, told: number) => count(value) <= told, "is longer than"),
  pattern: text((value, told: string) => new RegExp(told, "u").test(value), "does not fit"),
  minimum: figure((value, told) => value >= told, "is below"),
  maximum: figure((value, told) => value <= told, "is above"),
  exclusiveMinimum: figure((value, told) => value > told, "is not above"),
};

/** The schema that `#/components/schemas/…` of a document names. Throws Error for one that is not there. */
export function resolve(schema: Schema, document: Schema): Schema {
  const reference = schema["$ref"];
  if (typeof reference !== "string") return schema;
  let found: unknown = document;
  for (const step of reference.split("/").slice(1)) found = isObject(found) ? found[step] : undefined;
  if (!isObject(found)) throw new Error(`the document has no ${reference}`);
  return resolve(found, document);
}

/**
 * The first way in which a value does not fit a schema, with its path (`.data[0].id is no string`); undefined where it fits. Throws Error for a word of
 * JSON Schema that is not known here: nothing is passed over.
 */
export function misfit(value: unknown, schema: Schema, document: Schema, path = ""): string | undefined {
  const known = resolve(schema, document);
  const inner: Inner = (part, of, step) => misfit(part, of as Schema, document, path + step);
  for (const [word, told] of Object.entries(known)) {
    if (REMARKS.has(word)) continue;
    const rule = RULES[word];
    if (!rule) throw new Error(`the document uses ${word}, which is not known here`);
    const fault = rule(value, told, known, inner);
    if (fault === undefined) continue;
    return /^(?:\.|\[)/.test(fault) ? fault : `${path} ${fault}`;
  }
  return undefined;
}
