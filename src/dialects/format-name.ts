import type { OutputFormat } from "../canon/prompt.ts";

const LONGEST = 64;

/** The name of an output format as OpenAI's two dialects take it (dialects.md 1.1): required there, and unknown to others. */
export const formatName = (name: unknown): string =>
  (typeof name === "string" && name !== "" ? name : "output").replaceAll(/[^\w-]/g, "_").slice(0, LONGEST);

/** The schema of a format with what the format is for, where the schema itself says nothing: other dialects have no place beside it. */
export const describedSchema = ({
  schema,
  description,
}: Pick<Extract<OutputFormat, { type: "json-schema" }>, "schema" | "description">): Record<string, unknown> =>
  description === undefined || schema["description"] !== undefined ? schema : { ...schema, description };
