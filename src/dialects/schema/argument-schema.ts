/** A text among a tool's arguments, as JSON Schema. */
export const string = (description: string) => ({ type: "string", description });

/** A whole number among them. */
export const integer = (description: string) => ({ type: "integer", description });

/** The arguments of a tool. */
export const object = (properties: Record<string, unknown>, required: string[]) => ({
  type: "object",
  properties,
  required,
});
