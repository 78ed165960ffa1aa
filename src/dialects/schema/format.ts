import type { OutputFormat } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { fitStrict } from "./strict-schema.ts";

type SchemaFormat = Extract<OutputFormat, { type: "json-schema" }>;
type Wire = Record<string, unknown>;

const LONGEST = 64;

/** The name of an output format as OpenAI's two dialects take it (dialects.md 1.1): required there, and unknown to others. */
export const formatName = (name: unknown): string =>
  (typeof name === "string" && name !== "" ? name : "output").replaceAll(/[^\w-]/g, "_").slice(0, LONGEST);

/** A format from the object in which OpenAI's two dialects say its schema; undefined where there is none. */
export function readSchemaFormat({ name, description, schema, strict }: Wire): SchemaFormat | undefined {
  if (!isObject(schema)) return undefined;
  return {
    type: "json-schema",
    schema,
    ...(typeof name === "string" && { name }),
    ...(typeof description === "string" && { description }),
    ...(typeof strict === "boolean" && { strict }),
  };
}

/** The fields of that object. Where the schema cannot be held to as strictly as was said, that is named in `dropped`. */
export function writeSchemaFormat(
  { name, description, schema: given, strict: wish }: SchemaFormat,
  dropped: string[],
): Wire {
  const { schema, strict } = fitStrict(given, wish, "response_format.strict", dropped);
  return {
    name: formatName(name),
    ...(description !== undefined && { description }),
    schema,
    ...(strict !== undefined && { strict }),
  };
}

/** The schema of a format with what the format is for, where the schema itself says nothing: other dialects have no place beside it. */
export const describedSchema = ({ schema, description }: Pick<SchemaFormat, "schema" | "description">): Wire =>
  description === undefined || schema["description"] !== undefined ? schema : { ...schema, description };
