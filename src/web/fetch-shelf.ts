import type { Clock } from "../lib/clock.ts";
import type { FoundPage } from "./fetch-results.ts";

/** How long a page is kept, milliseconds; how many characters and pages (web-and-mcp.md C4). */
export const SHELF_MS = 5 * 60_000;
const MAX_SHELF_CHARACTERS = 4_000_000;
const MAX_SHELF_PAGES = 200;

/** Pages read lately, so that an agent that asks again soon does not wait again. The oldest go first. */
export class PageShelf {
  readonly #pages = new Map<string, { page: FoundPage; until: number }>();
  #characters = 0;

  constructor(private readonly clock: Clock) {}

  /** The page as it was read for the same room; undefined when that is too long ago. */
  get(url: string, maxTokens: number): FoundPage | undefined {
    const key = keyOf(url, maxTokens);
    const known = this.#pages.get(key);
    if (!known) return undefined;
    if (known.until > this.clock.monotonic()) return known.page;
    this.#drop(key);
    return undefined;
  }

  put(url: string, maxTokens: number, page: FoundPage): void {
    const key = keyOf(url, maxTokens);
    this.#drop(key);
    this.#pages.set(key, { page, until: this.clock.monotonic() + SHELF_MS });
    this.#characters += page.markdown.length;
    for (const oldest of this.#pages.keys()) {
      if (this.#characters <= MAX_SHELF_CHARACTERS && this.#pages.size <= MAX_SHELF_PAGES) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#characters -= this.#pages.get(key)?.page.markdown.length ?? 0;
    this.#pages.delete(key);
  }
}

const keyOf = (url: string, maxTokens: number) => `${maxTokens} ${url.replace(/#.*/, "")}`;
