import { atPointer, isObject } from "../../lib/json.ts";

type Schema = Record<string, unknown>;

/** A longer reference leads nowhere, characters. */
const MAX_REFERENCE = 1_000;

/** What a path inside a schema leads to. */
export function findReferred(root: Schema, reference: string): Schema | undefined {
  if (reference.length > MAX_REFERENCE) return undefined;
  const value = atPointer(root, reference);
  return isObject(value) ? value : undefined;
}
