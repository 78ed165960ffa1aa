import { isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { describedSchema, formatName } from "../schema/format.ts";

type Wire = Record<string, unknown>;

/**
 * The object that says the schema of a format: the one that wraps it, or the format itself, in which Together's and llama.cpp's documents have
 * it (docs.together.ai, "Structured outputs"). Undefined where there is none.
 */
export function schemaHolder(format: Wire): Wire | undefined {
  const { json_schema: wrapped, schema } = format;
  if (format["type"] === "json_schema" && isObject(wrapped)) return wrapped;
  return isObject(schema) ? format : undefined;
}

const isFilled = (list: unknown): boolean => Array.isArray(list) && list.length > 0;

/** Whether the vendor is told no format at all because it is told tools. */
const isForTools = ({ noFormatBesideTools }: Quirks, tools: unknown): boolean =>
  noFormatBesideTools === true && isFilled(tools);

/** Whether a chat body's schema that is to be kept to strictly is only said in words. */
export function losesStrict({ response_format: format, tools, functions }: Wire, quirks: Quirks): boolean {
  if (!isObject(format) || schemaHolder(format)?.["strict"] !== true) return false;
  return quirks.noJsonSchema === true || isForTools(quirks, isFilled(tools) ? tools : functions);
}

/** Words have no place beside the schema either. */
function schemaInWords({ schema, description }: Wire): Wire {
  const said = typeof description === "string" && description !== "" ? { description } : {};
  return describedSchema({ schema: isObject(schema) ? schema : {}, ...said });
}

const ONE_OBJECT = "Answer with one JSON object and nothing else.";
const ONE_OBJECT_OR_CALL = "Call tools as you need them; your answer itself is one JSON object and nothing else.";

/** A format as the vendor is told it, and what it is told in words beside it. */
type FittedFormat = { format: unknown; hint?: string };

/**
 * A client's `response_format` as its vendor takes it beside these tools: a schema under a legal name (dialects.md 1.1), or, where the vendor
 * knows no schema here, any JSON, and the schema in words; none at all where it knows no JSON without a schema, or none beside tools. The
 * same value where it is so already.
 */
export function fitFormat(format: unknown, quirks: Quirks, tools: unknown): FittedFormat {
  if (!isObject(format)) return { format };
  const forTools = isForTools(quirks, tools);
  const asked = forTools ? ONE_OBJECT_OR_CALL : ONE_OBJECT;
  if (format["type"] === "json_object" && (quirks.noJsonObject || forTools)) return { format: undefined, hint: asked };
  const wrapped = format["type"] === "json_schema" ? schemaHolder(format) : undefined;
  if (!wrapped) return { format };
  if (quirks.noJsonSchema || forTools) {
    const hint = `${asked} It must meet this JSON Schema: ${JSON.stringify(schemaInWords(wrapped))}`;
    return { format: forTools || quirks.noJsonObject ? undefined : { type: "json_object" }, hint };
  }
  if (wrapped === format) return { format };
  const name = formatName(wrapped["name"]);
  return { format: name === wrapped["name"] ? format : { ...format, json_schema: { ...wrapped, name } } };
}
