import { atPointer, isObject } from "../../lib/json.ts";

type Schema = Record<string, unknown>;

/** Longest reference that is followed, characters. */
const MAX_REFERENCE = 1_000;

/** The schema that a reference inside `root` leads to; undefined where it leads to none. */
export function findReferred(root: Schema, reference: string): Schema | undefined {
  if (reference.length > MAX_REFERENCE) return undefined;
  const value = atPointer(root, reference);
  return isObject(value) ? value : undefined;
}
