import type { TSchema } from "@sinclair/typebox";
import { Errors, type ValueError, ValueErrorType } from "@sinclair/typebox/errors";
import { Check } from "@sinclair/typebox/value";
import { nearest } from "./nearest.ts";

/** A place in a document: keys and list indices from the top. */
export type Steps = readonly (string | number)[];

/** One thing that is wrong: its place, and a sentence of what was expected and found there. */
export type Fault = { steps: Steps; problem: string };

/** More faults than this are not listed: after the first screen nobody reads on. */
export const MAX_FAULTS = 20;

/** The configuration cannot be used. `lines` are for a person, one fault each; none holds a secret. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  /** `fromFlags`: the fault is in the command line itself, so it is wrong usage. */
  constructor(
    readonly lines: readonly string[],
    readonly fromFlags = false,
  ) {
    super(lines.join("\n"));
  }
}

/** `["vendors", 2, "base_url"]` as `vendors[2].base_url`. */
export function formatSteps(steps: Steps): string {
  let path = "";
  for (const step of steps) {
    if (typeof step === "number") path += `[${step}]`;
    else if (/^[A-Za-z0-9_-]+$/.test(step)) path += path === "" ? step : `.${step}`;
    else path += `[${JSON.stringify(step)}]`;
  }
  return path;
}

/** Fields whose values may be, or hold, a secret: they are never shown. */
const SECRET_FIELDS: ReadonlySet<unknown> = new Set(["api_key", "api_keys", "headers", "query", "secret_access_key"]);

/** True for a place whose value must not be printed. */
export function isSecret(steps: Steps): boolean {
  return steps.some((step) => SECRET_FIELDS.has(step));
}

const SHOWN_CHARACTERS = 80;

/** A URL without what could be a secret in it: user name and password, query and fragment. */
function maskUrl(value: string): string {
  return value.replace(/\/\/[^/@\s]*@/, "//…@").replace(/[?#].*$/s, "?…");
}

/**
 * What was found, in words: the value itself where it is short and no secret, else its kind. `raw` is the document as it was written, before `${NAME}` was
 * filled in: what is shown comes from there, so that no secret gets out.
 */
export function describeFound(raw: unknown, steps: Steps): string {
  const value = valueAt(raw, steps);
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object") return "a mapping";
  if (value === "") return "an empty text";
  if (isSecret(steps)) return typeof value === "string" ? "a text that is not shown" : `a ${typeof value}`;
  if (typeof value !== "string") return String(value);
  const masked = value.includes("://") ? maskUrl(value) : value;
  return JSON.stringify(masked.length > SHOWN_CHARACTERS ? `${masked.slice(0, SHOWN_CHARACTERS)}…` : masked);
}

/** `expected …, found …`; `raw` as in {@link describeFound}. */
export function expected(what: string, raw: unknown, steps: Steps): Fault {
  return { steps, problem: `expected ${what}, found ${describeFound(raw, steps)}` };
}

/** The value at a place, or undefined. */
export function valueAt(document: unknown, steps: Steps): unknown {
  let value = document;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** TypeBox's `/vendors/0/id` as steps; a number is an index only where the document has a list. */
function toSteps(pointer: string, document: unknown): Steps {
  const steps: (string | number)[] = [];
  for (const token of pointer.split("/").slice(1)) {
    const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
    steps.push(Array.isArray(valueAt(document, steps)) ? Number(name) : name);
  }
  return steps;
}

function unknownKey(error: ValueError, steps: Steps, parent: TSchema | undefined): Fault {
  const known = Object.keys((parent?.["properties"] as object | undefined) ?? {});
  const name = String(steps.at(-1));
  const meant = nearest(name, known);
  const hint = meant ? `did you mean "${meant}"?` : `expected one of ${known.join(", ")}`;
  return { steps, problem: known.length > 0 ? `unknown key; ${hint}` : `unknown key; ${error.message}` };
}

const describeSchema = (schema: TSchema) =>
  typeof schema.description === "string" ? schema.description : "another value";

/** What was expected, with the bound that was not kept where the description does not name it. */
function requirement(error: ValueError): string {
  const description = describeSchema(error.schema);
  if (error.type === ValueErrorType.ArrayMaxItems) return `${description} of at most ${error.schema["maxItems"]}`;
  if (error.type === ValueErrorType.StringMaxLength) {
    return `${description} of at most ${error.schema["maxLength"]} characters`;
  }
  const most = error.schema["maximum"];
  // A description that says its bounds itself ends in them.
  const isAbove = error.type === ValueErrorType.IntegerMaximum || error.type === ValueErrorType.NumberMaximum;
  return isAbove && !description.endsWith(`to ${most}`) ? `${description} and at most ${most}` : description;
}

/** The errors to show for one: those inside a union's branch of the value's own type, where there is one. */
function tellingErrors(error: ValueError): ValueError[] {
  if (error.type !== ValueErrorType.Union) return [error];
  const kind = Array.isArray(error.value) ? "array" : typeof error.value;
  const branches = (error.schema["anyOf"] as TSchema[] | undefined) ?? [];
  const index = branches.findIndex((branch) => branch["type"] === kind && kind !== "string");
  const inner = index < 0 ? [] : [...(error.errors[index] ?? [])];
  return inner.length > 0 ? inner.flatMap(tellingErrors) : [error];
}

/** The object schema that `steps` lie directly in, found by walking down from the root. */
function schemaAt(root: TSchema, steps: Steps): TSchema | undefined {
  let schema: TSchema | undefined = root;
  for (const step of steps) {
    const candidates: TSchema[] = schema?.["anyOf"] ? (schema["anyOf"] as TSchema[]) : schema ? [schema] : [];
    const wanted = candidates.find(
      (candidate) => candidate["type"] === (typeof step === "number" ? "array" : "object"),
    );
    if (typeof step === "number") schema = wanted?.["items"] as TSchema | undefined;
    else {
      const properties = wanted?.["properties"] as Record<string, TSchema> | undefined;
      const patterns = wanted?.["patternProperties"] as Record<string, TSchema> | undefined;
      schema = properties?.[step] ?? Object.values(patterns ?? {})[0];
    }
  }
  const objects = (schema?.["anyOf"] as TSchema[] | undefined)?.find((branch) => branch["type"] === "object");
  return objects ?? schema;
}

/** A function that lists the faults of a document by its schema, one for each place, one more than {@link MAX_FAULTS} or a few; `raw` as in {@link describeFound}. */
export function faultFinder(schemaOf: () => TSchema): (value: unknown, raw: unknown) => Fault[] {
  return (value, raw) => {
    // The schema is not compiled: that takes longer than to interpret it for the one document of a start.
    const schema = schemaOf();
    const faults = new Map<string, Fault>();
    if (Check(schema, value)) return [];
    for (const top of Errors(schema, value)) {
      for (const error of tellingErrors(top)) {
        const steps = toSteps(error.path, value);
        const path = formatSteps(steps);
        if (faults.has(path)) continue;
        const fault =
          error.type === ValueErrorType.ObjectAdditionalProperties
            ? unknownKey(error, steps, schemaAt(schema, steps.slice(0, -1)))
            : expected(requirement(error), raw, steps);
        faults.set(path, fault);
      }
      if (faults.size > MAX_FAULTS) break;
    }
    return [...faults.values()];
  };
}
