import type { BlockStart } from "../../canon/events.ts";
import type { OpaquePart, Part } from "../../canon/prompt.ts";
import { isObject } from "../../lib/json.ts";

/**
 * The chat dialect's field in which a reseller of several vendors' models hands on all reasoning of a reply, texts and proofs, and wants it back
 * as it was (OpenRouter's documentation, "Preserving reasoning blocks").
 */
const FIELD = "reasoning_details";
/** Most items of one reply, and their characters: beyond, none are handed on. */
const MAX_ITEMS = 512;
const MAX_CHARACTERS = 1024 * 1024;

type Detail = Record<string, unknown>;

/** The details of a message or a delta; undefined where there are none. */
export function detailsOf(message: Record<string, unknown>): readonly unknown[] | undefined {
  const items = message[FIELD];
  return Array.isArray(items) && items.length > 0 ? items : undefined;
}

/** The fields of an assistant turn that bring details back. */
export const detailFields = (items: readonly unknown[]) => ({ [FIELD]: items });

/** The block by which a reply's details pass through its events: nothing that a client is shown. */
export const detailsBlock = (items: readonly unknown[]): BlockStart => ({
  kind: "opaque",
  dialect: "chat",
  value: detailFields(items),
});

/** What {@link detailsBlock} holds; undefined for every other block. */
export const detailsInBlock = (block: BlockStart): readonly unknown[] | undefined =>
  block.kind === "opaque" ? detailsOf(block.value) : undefined;

/** The part of an assistant turn that brings details back. */
export const detailsPart = (items: readonly unknown[]): OpaquePart => ({
  type: "opaque",
  dialect: "chat",
  name: FIELD,
  value: items,
});

/** What {@link detailsPart} holds; undefined for every other part. */
export const detailsInPart = (part: Part): readonly unknown[] | undefined =>
  part.type === "opaque" && part.name === FIELD && Array.isArray(part.value) ? part.value : undefined;

/** The field of an item that comes in pieces, by its type. What is encrypted comes at once. */
const GROWING = new Map<unknown, string>([
  ["reasoning.text", "text"],
  ["reasoning.summary", "summary"],
]);

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === "";

/**
 * Whether a piece goes on with an item. An index alone does not say so: a text and what is encrypted beside it may have the same one, and a text
 * that is signed is whole.
 */
function goesOn(item: Detail, piece: Detail): boolean {
  if (item["type"] !== piece["type"] || item["index"] !== piece["index"]) return false;
  if (!GROWING.has(piece["type"]) || !isAbsent(item["signature"])) return false;
  return isAbsent(item["id"]) || isAbsent(piece["id"]) || item["id"] === piece["id"];
}

/** Adds a piece to an item. Returns how many characters that are. */
function join(item: Detail, piece: Detail): number {
  let added = 0;
  const growing = GROWING.get(piece["type"]);
  for (const [field, value] of Object.entries(piece)) {
    const known = item[field];
    if (field === growing && typeof known === "string" && typeof value === "string") item[field] = known + value;
    else if (!Object.hasOwn(item, field) || (isAbsent(known) && !isAbsent(value))) item[field] = value;
    else continue;
    if (typeof value === "string") added += value.length;
  }
  return added;
}

/** Puts the details of a stream together from the pieces in its deltas. */
export class DetailsJoiner {
  /** All of them so far; none once there are too many. */
  items: readonly unknown[] = [];
  readonly #joined: Detail[] = [];
  #characters = 0;

  add(pieces: readonly unknown[]): void {
    for (const piece of pieces) if (isObject(piece)) this.#add(piece);
    const isOver = this.#joined.length > MAX_ITEMS || this.#characters > MAX_CHARACTERS;
    this.items = isOver ? [] : this.#joined;
  }

  #add(piece: Detail): void {
    if (this.#joined.length > MAX_ITEMS || this.#characters > MAX_CHARACTERS) return;
    const hasPlace = typeof piece["index"] === "number";
    const last = hasPlace ? this.#joined.findLast((one) => goesOn(one, piece)) : this.#joined.at(-1);
    const item = last && goesOn(last, piece) ? last : {};
    if (item !== last) this.#joined.push(item);
    this.#characters += join(item, piece);
  }
}
