import { isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { formatName } from "../format-name.ts";

/** A format as the vendor is told it, and what it is told in words beside it. */
export type FittedFormat = { format: unknown; hint?: string };

/**
 * A client's `response_format` as its vendor takes it: a schema under a legal name (dialects.md 1.1), or, where the vendor knows no schema
 * here, any JSON, and the schema in words. The same value where it is so already.
 */
export function fitFormat(format: unknown, { noJsonSchema }: Quirks): FittedFormat {
  if (!isObject(format) || format["type"] !== "json_schema" || !isObject(format["json_schema"])) return { format };
  const { json_schema: wrapped } = format;
  if (noJsonSchema) {
    const hint = `Answer with one JSON object and nothing else. It must meet this JSON Schema: ${JSON.stringify(wrapped["schema"] ?? {})}`;
    return { format: { type: "json_object" }, hint };
  }
  const name = formatName(wrapped["name"]);
  return { format: name === wrapped["name"] ? format : { ...format, json_schema: { ...wrapped, name } } };
}
