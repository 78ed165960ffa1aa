import type { Citation } from "../../canon/events.ts";
import type { ServedOutcome } from "../../dialects/server-tools.ts";
import { cutText } from "../../lib/cut-text.ts";

/** Pages of one reply that can be cited, and citations of one block. */
const MAX_SOURCES = 200;
const MAX_CITATIONS = 50;
/** Pages that are named at the end of a text that names none itself. */
const MAX_UNNAMED = 20;
/** Characters of a page that a citation may repeat. */
const MAX_QUOTE = 300;

type Source = { url: string; title: string; quote: string };

/** What follows an address that is longer than the one looked for: a sign of addresses, or one of sentences with such a sign behind it. */
const GOES_ON = /^(?:[\w%&=#~+$@-]|[/?](?![\s)\]}>"'*,.;:!]|$)|[.,:;!'](?=[\w%/]))/;
const goesOn = (text: string, end: number): boolean => GOES_ON.test(text.slice(end, end + 2));

/** Where the Markdown link around `[start, end)` begins and ends; the address itself where there is none. */
function widen(text: string, start: number, end: number): { start: number; end: number } {
  if (text[end] !== ")" || !text.startsWith("](", start - 2)) return { start, end };
  const open = text.lastIndexOf("[", start - 2);
  return open < 0 || text.slice(open, start).includes("\n") ? { start, end } : { start: open, end: end + 1 };
}

/** The pages that the tools of a reply have found, and where its text names them. */
export class Sources {
  readonly #sources = new Map<string, Source>();

  add(outcome: ServedOutcome): void {
    if (outcome.kind === "results") {
      for (const { url, title, snippet } of outcome.results) this.#add({ url, title, quote: snippet });
    } else if (outcome.kind === "page") {
      const { url, title, text } = outcome.page;
      this.#add({ url, title: title || url, quote: cutText(text, MAX_QUOTE) });
    }
  }

  #add(source: Source): void {
    if (this.#sources.size < MAX_SOURCES && !this.#sources.has(source.url)) this.#sources.set(source.url, source);
  }

  /** What a block of text names of the pages, in the order of the text. `before`: characters of text in earlier blocks. */
  cited(text: string, before: number): Citation[] {
    if (!text.includes("http")) return [];
    const found: Citation[] = [];
    for (const source of this.#sources.values()) {
      // A slash more or less at its end is the same page.
      const name = source.url.replace(/\/$/, "");
      for (let at = text.indexOf(name); at >= 0 && found.length < MAX_CITATIONS; at = text.indexOf(name, at + 1)) {
        const bare = at + name.length;
        const end = text[bare] === "/" ? bare + 1 : bare;
        if (goesOn(text, bare) || goesOn(text, end)) continue;
        found.push({ ...source, ...widen(text, at, end), before });
      }
    }
    return found.sort((one, other) => one.start - other.start);
  }

  /** All pages, at the end of a text that names none. */
  unnamed(text: string, before: number): Citation[] {
    const place = { start: text.length, end: text.length, before };
    return [...this.#sources.values()].slice(0, MAX_UNNAMED).map((source) => ({ ...source, ...place }));
  }
}
