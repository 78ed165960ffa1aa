import { isObject } from "../lib/json.ts";

type Schema = Record<string, unknown>;

/**
 * A tool's JSON Schema with the root that Anthropic and Moonshot demand: type object, and no anyOf, oneOf or allOf beside it. The branches'
 * properties are laid together, required only where all of them must hold (dialects.md 4.9).
 */
export function toInputSchema(schema: Schema): Schema {
  const { anyOf, oneOf, allOf, ...root } = schema;
  const listed = (value: unknown): Schema[] => (Array.isArray(value) ? value.filter(isObject) : []);
  const all = listed(allOf);
  const branches = [...all, ...listed(anyOf), ...listed(oneOf)];
  if (branches.length === 0) {
    if (schema["type"] === "object") return schema;
    return { ...root, type: "object", ...(!isObject(root["properties"]) && { properties: {} }) };
  }
  const properties: Schema = {};
  for (const branch of [...branches, root]) {
    if (isObject(branch["properties"])) Object.assign(properties, branch["properties"]);
  }
  const required = [root, ...all].flatMap((branch) => (Array.isArray(branch["required"]) ? branch["required"] : []));
  return { ...root, type: "object", properties, ...(required.length > 0 && { required: [...new Set(required)] }) };
}
