/** The JSON Schema of a text argument. */
export const string = (description: string) => ({ type: "string", description });

/** The JSON Schema of a whole number. */
export const integer = (description: string) => ({ type: "integer", description });

/** The JSON Schema of a tool's arguments. */
export const object = (properties: Record<string, unknown>, required: string[]) => ({
  type: "object",
  properties,
  required,
});
