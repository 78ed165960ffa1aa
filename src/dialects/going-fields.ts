import type { Orders } from "../canon/intent.ts";
import { isEmpty, isObject } from "../lib/json.ts";
import { type Edits, editedField } from "../lib/json-text.ts";

/** Sampling that is removed while a model reasons (interface 4.8). */
export const SAMPLING: readonly string[] = ["temperature", "top_p", "top_k"];

/** The fields that a request's orders take out, by the names that clients know them by. */
export const goingFields = ({ dropSampling, remove }: Orders): readonly string[] =>
  dropSampling ? [...SAMPLING, ...remove] : remove;

type Wire = Record<string, unknown>;

/** A field's name, and what of it alone goes where a path names that, as `reasoning.effort` does. */
function stepsOf(path: string): readonly [field: string, inner: string | undefined] {
  const [field = "", inner] = path.split(".");
  return [field, inner];
}

const valueAt = (value: unknown, inner: string | undefined): unknown =>
  inner === undefined ? value : isObject(value) ? value[inner] : undefined;

/** A value without what it holds under a name; undefined where it held nothing else. */
function withoutInner(value: unknown, inner: string | undefined): unknown {
  if (inner === undefined || !isObject(value)) return undefined;
  const { [inner]: _gone, ...rest } = value;
  return isEmpty(rest) ? undefined : rest;
}

/** Takes one of {@link goingFields} out of a body, whether the client wrote it or an edit. */
export function leaveOut(body: Wire, edits: Edits, path: string): void {
  const [field, inner] = stepsOf(path);
  const value = editedField(field, body, edits);
  if (valueAt(value, inner) === undefined) return;
  const left = withoutInner(value, inner);
  if (left !== undefined || Object.hasOwn(body, field)) edits[field] = left;
  else delete edits[field];
}

/** Whether an edited body lacks what the client's own has at a path, and means something by. */
export function isLeftOut(body: Wire, edits: Edits, path: string): boolean {
  const [field, inner] = stepsOf(path);
  const asked = valueAt(body[field], inner);
  const isGone = Object.hasOwn(edits, field) && valueAt(edits[field], inner) === undefined;
  return isGone && asked != null && !(asked === 0 && SILENT_AT_ZERO.has(path));
}

/** Fields that many clients always send, and that say nothing at 0. */
export const SILENT_AT_ZERO: ReadonlySet<string> = new Set(["frequency_penalty", "presence_penalty"]);
