import type { OutputFormat } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";
import { fitStrict } from "./strict-schema.ts";

type SchemaFormat = Extract<OutputFormat, { type: "json-schema" }>;
type Wire = Record<string, unknown>;

const LONGEST = 64;

/** A name that OpenAI's two dialects take for an output format, made from `name` (dialects.md 1.1): they require one, other dialects have none. */
export const formatName = (name: unknown): string =>
  (typeof name === "string" && name !== "" ? name : "output").replaceAll(/[^\w-]/g, "_").slice(0, LONGEST);

/** The output format in the object in which OpenAI's two dialects write it; undefined where that holds no schema. */
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

/** The fields of that object for a format. Where the schema cannot be strict although the client asked for that, it is named in `dropped`. */
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

/** The schema of a format, with the format's description in it unless it has its own: other dialects have no place for one beside the schema. */
export const describedSchema = ({ schema, description }: Pick<SchemaFormat, "schema" | "description">): Wire =>
  description === undefined || schema["description"] !== undefined ? schema : { ...schema, description };
