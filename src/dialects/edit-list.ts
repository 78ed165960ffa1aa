import type { Edits } from "../lib/json-text.ts";

type Wire = Record<string, unknown>;

/** Equal as values, in whatever order the keys of an object stand. Hardly ever is more than a word compared. */
const isSame = (before: unknown, value: unknown): boolean =>
  before === value || (typeof value === "object" && Bun.deepEquals(before, value));

/** The edits of one body: a field counts as edited only when its value really changes, so that all else stays byte-equal. */
export class EditList {
  readonly edits: Edits = {};
  constructor(readonly body: Wire) {}

  /** A field as it goes out so far; undefined for one that is taken out. */
  get(field: string): unknown {
    return Object.hasOwn(this.edits, field) ? this.edits[field] : this.body[field];
  }

  set(field: string, value: unknown): void {
    if (isSame(this.body[field], value)) delete this.edits[field];
    else this.edits[field] = value;
  }

  remove(field: string): void {
    if (Object.hasOwn(this.body, field)) this.edits[field] = undefined;
    else delete this.edits[field];
  }
}
