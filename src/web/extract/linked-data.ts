import { isObject } from "../../lib/json.ts";
import { type Element, textOf, walkElements } from "../page-tree.ts";

/** Characters of structured data that are read. */
const MAX_LINKED_DATA = 200_000;
/** Levels of it that are looked into, and entries of a list. */
const MAX_LEVELS = 6;
const MAX_ENTRIES = 50;

type Thing = Record<string, unknown>;

/** Fields that hold further things which the page is about (schema.org). */
const HOLDERS = ["@graph", "mainEntity"];
/** Fields that hold what a page is for: of an article, of a question or a post, of a job, a product or an event. */
const TEXTS = ["articleBody", "text", "description"];

function* thingsIn(value: unknown, levels = 0): Generator<Thing> {
  if (levels > MAX_LEVELS) return;
  if (Array.isArray(value)) {
    for (const each of value.slice(0, MAX_ENTRIES)) yield* thingsIn(each, levels + 1);
  } else if (isObject(value)) {
    yield value;
    for (const holder of HOLDERS) yield* thingsIn(value[holder], levels + 1);
  }
}

/** The things that a page's structured data (JSON-LD) tells of, those around others first. */
export function* linkedThings(root: Element): Generator<Thing> {
  for (const element of walkElements(root)) {
    if (element.name !== "script" || element.attributes["type"] !== "application/ld+json") continue;
    const text = textOf(element);
    if (text.length > MAX_LINKED_DATA) continue;
    try {
      yield* thingsIn(JSON.parse(text));
    } catch {
      // Many pages have broken JSON there, and what it tells is only an extra.
    }
  }
}

/** The longest text that a page's structured data holds of what the page is about, which may be HTML; "" where it holds none. */
export function linkedText(root: Element): string {
  let longest = "";
  for (const thing of linkedThings(root)) {
    for (const field of TEXTS) {
      const text = thing[field];
      if (typeof text === "string" && text.length > longest.length) longest = text;
    }
  }
  return longest;
}
