import { type ObjectOptions, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler, type ValueError, ValueErrorType } from "@sinclair/typebox/compiler";
import { Errors } from "@sinclair/typebox/errors";
import { Check } from "@sinclair/typebox/value";

/** The schema of an object in which unknown fields are allowed and kept (interface 9.4): all public bodies but the {@link Closed} ones are made of these. */
export const Open = <T extends TProperties>(properties: T, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: true, ...options });

/** The schema of an object in which unknown fields are refused: for bodies that set bounds, where a misspelled field would silently leave something unbounded. */
export const Closed = <T extends TProperties>(properties: T, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

/** An optional field; null counts as absent, as many clients write every field they know. */
export const Maybe = <T extends TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()], schema.description ? { description: schema.description } : {}));

/** A value or null, in bodies that the gateway sends. */
export const Nullable = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description });

/** Makes a value when it is first asked for, and keeps it: a start needs no schemas, and building them would take milliseconds of it. */
export function late<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** A field that does not fit: its path as a client writes it (`messages[0].content`; "" for the body itself), and what was expected there. */
export type Fault = { param: string; message: string };

/** `/messages/0/content` as `messages[0].content`. */
function toParam(path: string): string {
  let param = "";
  for (const step of path.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (/^\d+$/.test(name)) param += `[${name}]`;
    else param += param === "" ? name : `.${name}`;
  }
  return param;
}

/** Most faults of one branch of a union that are looked at: the first ones tell enough, and a client's body can have half a million. */
const MAX_LOOKED_AT = 64;

function takeFirst<T>(items: Iterable<T>, most: number): T[] {
  const taken: T[] = [];
  for (const item of items) {
    taken.push(item);
    if (taken.length === most) break;
  }
  return taken;
}

/** The error that tells most: inside a union, that of the branch whose `type` fits, else of the one that got furthest. */
function mostTelling(error: ValueError): ValueError {
  if (error.type !== ValueErrorType.Union) return error;
  let best: ValueError | undefined;
  let bestScore = -1;
  const branches = (error.schema["anyOf"] ?? []) as TSchema[];
  // A form that may also be null is no choice between forms: that form was meant, whatever the value's type is.
  const isSole = branches.filter((branch) => branch["type"] !== "null").length === 1;
  for (const branch of error.errors) {
    const all = takeFirst(branch, MAX_LOOKED_AT);
    const first = all[0];
    if (!first) continue;
    const typeFits = isSole || !all.some((entry) => entry.path === `${error.path}/type`);
    const score = (typeFits && first.path !== error.path ? 1000 : 0) + first.path.length;
    if (score > bestScore) {
      best = first;
      bestScore = score;
    }
  }
  return best && bestScore >= 1000 ? mostTelling(best) : error;
}

/** A description that tells a form ("a string or an array of items"), not what the field means ("Upper bound on …", "the older name of …"). */
const TELLS_FORM = /^(?!the |your )[a-z"]/;

/** The description of a schema where that tells its form, better than the schema itself could; undefined for other descriptions. */
function writtenForm({ description }: TSchema): string | undefined {
  return description !== undefined && TELLS_FORM.test(description) ? description : undefined;
}

/** Two bounds in words, such as " of 1 to 20" or " of at least 1"; "" without any. `both` begins the words of two. */
function bounds(least: unknown, most: unknown, both = " of"): string {
  if (least !== undefined && most !== undefined) return `${both} ${least} to ${most}`;
  if (least !== undefined) return ` of at least ${least}`;
  return most === undefined ? "" : ` of at most ${most}`;
}

function numberForm(schema: TSchema, kind: string): string {
  const above = schema["exclusiveMinimum"];
  const most = schema["maximum"];
  if (above === undefined) return kind + bounds(schema["minimum"], most, " from");
  return `${kind} above ${above}${most === undefined ? "" : ` and of at most ${most}`}`;
}

function stringForm(schema: TSchema): string {
  const { minLength: least, maxLength: most } = schema as { minLength?: number; maxLength?: number };
  const form = "pattern" in schema ? writtenForm(schema) : undefined;
  if (form !== undefined) return form;
  if (least === 1 && most === undefined) return "a string that is not empty";
  const length = bounds(least, most);
  return length === "" ? "a string" : `a string${length} ${(most ?? least) === 1 ? "character" : "characters"}`;
}

function listForm(schema: TSchema): string {
  const items = (schema["items"] ?? {}) as TSchema;
  // Only the description tells briefly which words may stand in a list.
  const isOfWords = "pattern" in items || (items["anyOf"] as TSchema[] | undefined)?.every((one) => "const" in one);
  const form = isOfWords ? writtenForm(schema) : undefined;
  if (form !== undefined) return form;
  const { minItems: least, maxItems: most } = schema as { minItems?: number; maxItems?: number };
  const length = bounds(least, most);
  if (length !== "") return `a list${length} ${(most ?? least) === 1 ? "item" : "items"}`;
  return items["type"] === "string" ? "a list of strings" : "a list";
}

function unionForm(schema: TSchema, branches: readonly TSchema[]): string {
  const others = branches.filter((branch) => branch["type"] !== "null");
  // A single form that may also be null is told as that form: its description is the field's.
  const written = others.length > 1 ? writtenForm(schema) : undefined;
  const forms = [...new Set(others.map(expectation))];
  const last = forms.pop() ?? "null";
  const form = written ?? (forms.length === 0 ? last : `${forms.join(", ")} or ${last}`);
  const addsNull = others.length > 0 && others.length < branches.length && !/\bnull\b/.test(form);
  return addsNull ? `${form}, or null` : form;
}

/** What fits a schema, in words to follow "must be": its type and bounds. */
function expectation(schema: TSchema): string {
  if (Array.isArray(schema["anyOf"])) return unionForm(schema, schema["anyOf"] as TSchema[]);
  if ("const" in schema) return JSON.stringify(schema["const"]);
  switch (schema["type"]) {
    case "integer":
      return numberForm(schema, "a whole number");
    case "number":
      return numberForm(schema, "a number");
    case "boolean":
      return "true or false";
    case "string":
      return stringForm(schema);
    case "array":
      return listForm(schema);
    case "object":
      return "an object";
    case "null":
      return "null";
    default:
      return "another value";
  }
}

/** Faults of which a schema's own form does not tell what is wrong. */
const NOT_OF_FORM: ReadonlySet<ValueErrorType> = new Set([
  ValueErrorType.ObjectAdditionalProperties,
  ValueErrorType.ArrayUniqueItems,
]);

function explain(error: ValueError): Fault {
  const { schema, type } = error;
  const param = toParam(error.path);
  const name = param === "" ? "the body" : param;
  if (type === ValueErrorType.ObjectRequiredProperty) return { param, message: `${name} is required` };
  const isPlain = type === ValueErrorType.StringPattern ? writtenForm(schema) !== undefined : !NOT_OF_FORM.has(type);
  if (isPlain) return { param, message: `${name} must be ${expectation(schema)}` };
  return { param, message: `${name}: ${error.message.charAt(0).toLowerCase()}${error.message.slice(1)}` };
}

/**
 * A text that is too long by its UTF-16 units, which this library counts, and not by its characters, which JSON Schema does (validation, 6.3.1). One that
 * may be null as well is at fault in one of two forms.
 */
function isMiscounted({ type, schema, value }: ValueError): boolean {
  const isFaultOf = (branch: TSchema) => {
    const first = Errors(branch, value).First();
    return first !== undefined && isMiscounted(first);
  };
  if (type === ValueErrorType.Union) return ((schema["anyOf"] ?? []) as TSchema[]).some(isFaultOf);
  if (type !== ValueErrorType.StringMaxLength || typeof value !== "string") return false;
  return value.length <= 2 * schema["maxLength"] && [...value].length <= schema["maxLength"];
}

const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g;
/** The value with one unit for each character of its texts: what a schema says of it by units then holds by characters. */
const withoutPairs = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replace(PAIR, "\ue000"));

/**
 * A function that returns the first fault of a value, or undefined when it fits. Compiling a schema takes milliseconds for which neither a start nor its
 * first answer should wait: the first value is checked by walking the schema, and it is compiled for the second one.
 */
export function checker(schemaOf: () => TSchema): (value: unknown) => Fault | undefined {
  let compiled: TypeCheck<TSchema> | undefined;
  let walked = false;
  const fits = (schema: TSchema, value: unknown): boolean => {
    if (!walked) {
      walked = true;
      return Check(schema, value);
    }
    compiled ??= TypeCompiler.Compile(schema);
    return compiled.Check(value);
  };
  const faultOf = (schema: TSchema, value: unknown): ValueError | undefined => {
    const first = Errors(schema, value).First();
    return first && mostTelling(first);
  };
  return (value) => {
    const schema = schemaOf();
    if (fits(schema, value)) return undefined;
    const fault = faultOf(schema, value);
    const told = fault && isMiscounted(fault) ? faultOf(schema, withoutPairs(value)) : fault;
    if (told) return explain(told);
    return fault ? undefined : { param: "", message: "the body is not valid" };
  };
}
