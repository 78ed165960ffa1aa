import type { Citation } from "../../canon/events.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";

/** A page that a reply rests on by its vendor's word: where all of its text names it, as far as that was said. */
export type Cited = { url: string; title: string; quote: string; start?: number; end?: number };

/** Citations of one reply, and characters of a page that one may repeat. */
const MAX_CITED = 50;
const MAX_QUOTE = 300;

const isAddress = (url: string): boolean => /^https?:\/\//i.test(url);
const isPlace = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0;

function readAnnotation(annotation: unknown): Cited[] {
  const said = isObject(annotation) ? annotation["url_citation"] : undefined;
  if (!isObject(said)) return [];
  const url = stringOf(said["url"]);
  if (!isAddress(url)) return [];
  const { start_index: start, end_index: end } = said;
  const cited: Cited = {
    url,
    title: stringOf(said["title"]) || url,
    quote: stringOf(said["content"]).slice(0, MAX_QUOTE),
  };
  return [isPlace(start) && isPlace(end) && end >= start ? { ...cited, start, end } : cited];
}

/** The annotations of a message or a delta (dialects.md 1.3). */
export const annotationsIn = (delta: Record<string, unknown>): Cited[] =>
  listOf(delta["annotations"]).slice(0, MAX_CITED).flatMap(readAnnotation);

function readSource(source: unknown): Cited[] {
  const url = stringOf(isObject(source) ? source["url"] : source);
  if (!isAddress(url)) return [];
  const fields = isObject(source) ? source : {};
  return [{ url, title: stringOf(fields["title"]) || url, quote: stringOf(fields["snippet"]).slice(0, MAX_QUOTE) }];
}

/** Whether a reply, or a chunk, lists the pages that it rests on beside its choices (Perplexity, xAI). */
export const listsSources = ({ search_results: results, citations }: Record<string, unknown>): boolean =>
  listOf(results).length > 0 || listOf(citations).length > 0;

/** Those pages, in the order in which the text numbers them. */
export function sourcesIn({ search_results: results, citations }: Record<string, unknown>): Cited[] {
  const found = listOf(results).slice(0, MAX_CITED).flatMap(readSource);
  return found.length > 0 ? found : listOf(citations).slice(0, MAX_CITED).flatMap(readSource);
}

/** Citations on their way to the end of the block of text that they belong to. */
export class CitationKeeper {
  readonly #waiting: Cited[] = [];
  readonly #known = new Set<string>();

  add(all: readonly Cited[]): void {
    for (const cited of all) {
      const key = `${cited.start ?? ""} ${cited.end ?? ""} ${cited.url}`;
      if (this.#known.has(key) || this.#known.size >= MAX_CITED) continue;
      this.#known.add(key);
      this.#waiting.push(cited);
    }
  }

  /** Those that wait, for a block of `length` characters behind `before`; what says no place of its own stands at its end. */
  take(length: number, before: number): Citation[] {
    return this.#waiting.splice(0).map(({ url, title, quote, start, end }) => {
      const inside = (place: number | undefined) => Math.min(Math.max((place ?? before + length) - before, 0), length);
      return { url, title, quote, start: inside(start), end: inside(end), before };
    });
  }
}
