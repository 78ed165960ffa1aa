import { isEmpty, isObject } from "../../lib/json.ts";

type Wire = Record<string, unknown>;

/** What asks for nothing: clients with checked types write every field that they know. */
export function isNothing(value: unknown): boolean {
  if (value == null || value === false || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && isEmpty(value);
}

/** Most field paths that are told of one request. */
export const MAX_TOLD = 50;

const NONE: readonly string[] = [];

/** The fields of an object of a client's that say something and are none of `known`, as many as are told: they do not cross (contract 6, x-sluice-dropped). */
export function unknownFields(wire: Wire, known: ReadonlySet<string>): readonly string[] {
  let unknown: string[] | undefined;
  for (const field in wire) {
    if (known.has(field) || isNothing(wire[field])) continue;
    unknown ??= [];
    unknown.push(field);
    if (unknown.length === MAX_TOLD) break;
  }
  return unknown ?? NONE;
}

/** The paths of {@link unknownFields} of what stands at `path`; none of what is no object. */
export function unknownPaths(value: unknown, known: ReadonlySet<string>, path: string): readonly string[] {
  if (!isObject(value)) return NONE;
  const unknown = unknownFields(value, known);
  return unknown === NONE ? NONE : unknown.map((field) => `${path}.${field}`);
}
