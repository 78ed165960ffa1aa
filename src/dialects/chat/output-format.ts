import { isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { formatName } from "../format-name.ts";

/**
 * The object that says the schema of a format: the one that wraps it, or the format itself, in which Together's and llama.cpp's documents have
 * it (docs.together.ai, "Structured outputs"). Undefined where there is none.
 */
export function schemaHolder(format: Record<string, unknown>): Record<string, unknown> | undefined {
  const { json_schema: wrapped, schema } = format;
  if (format["type"] === "json_schema" && isObject(wrapped)) return wrapped;
  return isObject(schema) ? format : undefined;
}

/** Whether a schema that is to be kept to strictly is only said in words. */
export const losesStrict = (format: unknown, { noJsonSchema }: Quirks): boolean =>
  noJsonSchema === true && isObject(format) && schemaHolder(format)?.["strict"] === true;

const ONE_OBJECT = "Answer with one JSON object and nothing else.";

/** A format as the vendor is told it, and what it is told in words beside it. */
export type FittedFormat = { format: unknown; hint?: string };

/**
 * A client's `response_format` as its vendor takes it: a schema under a legal name (dialects.md 1.1), or, where the vendor knows no schema
 * here, any JSON, and the schema in words; none at all where it knows no JSON without a schema. The same value where it is so already.
 */
export function fitFormat(format: unknown, { noJsonSchema, noJsonObject }: Quirks): FittedFormat {
  if (noJsonObject && isObject(format) && format["type"] === "json_object") {
    return { format: undefined, hint: ONE_OBJECT };
  }
  const wrapped = isObject(format) && format["type"] === "json_schema" ? schemaHolder(format) : undefined;
  if (!isObject(format) || !wrapped) return { format };
  if (noJsonSchema) {
    const hint = `${ONE_OBJECT} It must meet this JSON Schema: ${JSON.stringify(wrapped["schema"] ?? {})}`;
    return { format: { type: "json_object" }, hint };
  }
  if (wrapped === format) return { format };
  const name = formatName(wrapped["name"]);
  return { format: name === wrapped["name"] ? format : { ...format, json_schema: { ...wrapped, name } } };
}
