import { invalidField } from "../../canon/errors.ts";
import { isObject } from "../../lib/json.ts";

/**
 * Throws GatewayError (invalid_request, with param) for a schema of a tool's arguments that is of another type than an object: no vendor
 * takes one (dialects.md 1.1, 2.3). `path`: its place in the body. A schema without a type passes, and so does Gemini's spelling, `OBJECT` (3.1).
 */
export function refuseOtherArguments(schema: unknown, path: string): void {
  if (!isObject(schema) || typeof schema["type"] !== "string" || /^object$/i.test(schema["type"])) return;
  const param = `${path}.type`;
  throw invalidField(param, `${param} must be "object"`);
}

/**
 * Throws GatewayError (invalid_request, with param) for an output format `json_schema` that holds no schema (dialects.md 4.1): the dialect's own vendor refuses
 * it, and no other could follow it. `path`: the format's place in the body.
 */
export function refuseSchemaless(format: unknown, path: string): void {
  if (!isObject(format) || format["type"] !== "json_schema" || isObject(format["schema"])) return;
  const param = `${path}.schema`;
  throw invalidField(param, `${param} is required: a JSON Schema object`);
}
