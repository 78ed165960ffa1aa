import { isObject } from "../lib/json.ts";
import type { Edits } from "../lib/json-text.ts";

/** Edits that take these fields out of a body. */
export const removing = (...fields: string[]): Edits => Object.fromEntries(fields.map((field) => [field, undefined]));

/** Reads the count that stands in a field of an answer. */
export const numberIn = (field: string) => (answer: unknown) => (isObject(answer) ? answer[field] : undefined);
