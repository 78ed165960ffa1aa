import { type ObjectOptions, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler, type ValueError, ValueErrorType } from "@sinclair/typebox/compiler";
import { Errors } from "@sinclair/typebox/errors";
import { Check } from "@sinclair/typebox/value";

/** An object that keeps the fields it does not know: every public body is made of these (interface 9.4). */
export const Open = <T extends TProperties>(properties: T, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: true, ...options });

/** Makes a value when it is first asked for, and keeps it: a start has no need of schemas, and building them takes it milliseconds. */
export function late<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** One field at fault: its path as a client writes it (`messages[0].content`, "" for the body itself), and what was expected there. */
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

/** Most faults of one branch that are looked at: the first ones tell, and a client can make half a million. */
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
  for (const branch of error.errors) {
    const all = takeFirst(branch, MAX_LOOKED_AT);
    const first = all[0];
    if (!first) continue;
    const typeFits = !all.some((entry) => entry.path === `${error.path}/type`);
    const score = (typeFits && first.path !== error.path ? 1000 : 0) + first.path.length;
    if (score > bestScore) {
      best = first;
      bestScore = score;
    }
  }
  return best && bestScore >= 1000 ? mostTelling(best) : error;
}

function expectation(schema: TSchema): string {
  if (typeof schema.description === "string") return schema.description;
  if (Array.isArray(schema["anyOf"])) return [...new Set((schema["anyOf"] as TSchema[]).map(expectation))].join(" or ");
  if ("const" in schema) return JSON.stringify(schema["const"]);
  const article =
    schema["type"] === "integer" || schema["type"] === "object" || schema["type"] === "array" ? "an" : "a";
  return typeof schema["type"] === "string" ? `${article} ${schema["type"]}` : "another value";
}

function explain(error: ValueError): Fault {
  const param = toParam(error.path);
  const name = param === "" ? "the body" : param;
  if (error.type === ValueErrorType.ObjectRequiredProperty) return { param, message: `${name} is required` };
  if (error.type === ValueErrorType.Union || error.type === ValueErrorType.Literal) {
    return { param, message: `${name} must be ${expectation(error.schema)}` };
  }
  return { param, message: `${name}: ${error.message.charAt(0).toLowerCase()}${error.message.slice(1)}` };
}

/**
 * The returned function gives the first fault of a value, or undefined when it fits. Compiling a schema takes milliseconds that neither
 * a start nor its first answer should wait for: the first value is checked by walking the schema, the second one compiles it.
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
  return (value) => {
    const schema = schemaOf();
    if (fits(schema, value)) return undefined;
    const first = Errors(schema, value).First();
    return first ? explain(mostTelling(first)) : { param: "", message: "the body is not valid" };
  };
}
