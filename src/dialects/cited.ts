import type { Citation, Event } from "../canon/events.ts";
import { stringOf } from "../lib/json.ts";

/** A page that a reply rests on by its vendor's word: where the text names it, as far as that was said. */
export type Cited = { url: string; title: string; quote: string; start?: number; end?: number };

/** Citations of one reply, and characters of a page that one may repeat. */
export const MAX_CITED = 50;
const MAX_QUOTE = 300;

const isAddress = (url: string): boolean => /^https?:\/\//i.test(url);

/** A page as a vendor names it, alone in a list; an empty one where it is at no address of the web. */
export function citedPage(address: unknown, title: unknown, quote: unknown): Cited[] {
  const url = stringOf(address);
  return isAddress(url) ? [{ url, title: stringOf(title) || url, quote: stringOf(quote).slice(0, MAX_QUOTE) }] : [];
}

const isPlace = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0;

/** A page with the place where the text names it, if it is one. */
export const citedAt = (cited: Cited, start: unknown, end: unknown): Cited =>
  isPlace(start) && isPlace(end) && end >= start ? { ...cited, start, end } : cited;

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

const NO_EVENTS: readonly Event[] = [];

/** Citations of a reply whose vendor gives each block of text its own. */
export class BlockCiter {
  /** Made for the first one: hardly any reply has some. */
  #keeper: CitationKeeper | undefined;
  #before = 0;
  #found: readonly Cited[] = [];

  /** Characters of the blocks of text so far. */
  get before(): number {
    return this.#before;
  }

  /** Pages that the vendor found before its text, and that the next block rests on if it names none of its own. */
  find(pages: readonly Cited[]): void {
    this.#found = [...this.#found, ...pages].slice(0, MAX_CITED);
  }

  /** The events that go before the end of a block of text of `length` characters. Places count from its beginning; without one, all of it rests on the page. */
  end(length: number, own: readonly Cited[]): readonly Event[] {
    const before = this.#before;
    this.#before += length;
    const cited = own.length > 0 ? own : this.#found;
    this.#found = [];
    if (cited.length === 0) return NO_EVENTS;
    this.#keeper ??= new CitationKeeper();
    this.#keeper.add(
      cited.map((one) => ({ ...one, start: before + (one.start ?? 0), end: before + (one.end ?? length) })),
    );
    return this.#keeper.take(length, before).map((citation) => ({ type: "block-citation", citation }));
  }
}
