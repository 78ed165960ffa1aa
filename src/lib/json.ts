import { percentDecode } from "./percent-decode.ts";

/** Whether a text is JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // That it throws is the answer.
    return false;
  }
}

/** A plain JSON object, as opposed to an array, null or a scalar. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether an object has no field at all. */
export function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}

/** Sets a field unless its value is undefined: where an object is spread over another, an undefined field would hide the other's. */
export function put<T extends object, K extends keyof T>(target: T, field: K, value: T[K] | undefined): void {
  if (value !== undefined) target[field] = value;
}

const NO_LIST: readonly unknown[] = [];

/** A value that should be a list; an empty list for anything else. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : NO_LIST);

/** Whether a value is a list that holds nothing. */
export const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** The objects of a list; none of anything else. */
export const objectsOf = (value: unknown): Record<string, unknown>[] => listOf(value).filter(isObject);

/** What a table holds under a word that comes from outside; undefined for what every object inherits, such as `constructor`. */
export const entryOf = <T>(table: Readonly<Record<string, T>>, word: string): T | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined;

/** The item of a list at an index as RFC 6901 writes it: `0`, but not `00`. */
const itemOf = (list: readonly unknown[], place: string): unknown =>
  /^(?:0|[1-9]\d{0,8})$/.test(place) ? list[Number(place)] : undefined;

/** What a reference within the document `root` leads to, such as `#/$defs/point` or `#/anyOf/0` (RFC 6901, 4 and 6); undefined where it leads nowhere. */
export function atPointer(root: unknown, reference: string): unknown {
  let value = root;
  for (const step of percentDecode(reference.slice(1)).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = itemOf(value, key);
    else value = isObject(value) ? entryOf(value, key) : undefined;
  }
  return value;
}

/** A value that should be a string; "" for anything else. */
export const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A value that should be a number; undefined for anything else. */
export const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
