import type { Clock } from "../../lib/clock.ts";
import { Shelf } from "../shelf.ts";
import type { FoundPage } from "./results.ts";

/** How long a page is kept, milliseconds; and how many characters and pages are (web-and-mcp.md C4). */
export const SHELF_MS = 5 * 60_000;
const MAX_SHELF_CHARACTERS = 4_000_000;
const MAX_SHELF_PAGES = 200;

/** Pages that were read a short while ago, so that an agent that asks for one again soon does not wait again. */
export class PageShelf {
  readonly #pages: Shelf<FoundPage>;

  constructor(clock: Clock) {
    const bounds = { count: MAX_SHELF_PAGES, size: MAX_SHELF_CHARACTERS };
    this.#pages = new Shelf(clock, bounds, ({ markdown }) => markdown.length);
  }

  /** The page as it was read with the same bound of tokens; undefined when it is not kept, or no longer. `url`: without a fragment, as in {@link put}. */
  get(url: string, maxTokens: number): FoundPage | undefined {
    return this.#pages.get(keyOf(url, maxTokens));
  }

  put(url: string, maxTokens: number, page: FoundPage): void {
    this.#pages.put(keyOf(url, maxTokens), page, SHELF_MS);
  }
}

const keyOf = (url: string, maxTokens: number) => `${maxTokens} ${url}`;
