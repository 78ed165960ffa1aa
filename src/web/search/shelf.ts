import type { Clock } from "../../lib/clock.ts";
import { Shelf } from "../shelf.ts";
import type { SearchQuery } from "./query.ts";

/** How long an answer is kept, milliseconds; one about the last hour shorter (web-and-mcp.md B3). */
export const SHELF_MS = 10 * 60_000;
export const HOUR_SHELF_MS = 60_000;
/** Answers that are kept. */
export const MAX_SHELF = 500;

const keyOf = (query: SearchQuery) => JSON.stringify(query);

/** Answers of the last minutes, so that an agent that asks again soon is not a second call to an engine. */
export class SearchShelf<T> {
  readonly #answers: Shelf<T>;

  constructor(clock: Clock) {
    this.#answers = new Shelf(clock, { count: MAX_SHELF });
  }

  get(query: SearchQuery): T | undefined {
    return this.#answers.get(keyOf(query));
  }

  put(query: SearchQuery, answer: T): void {
    this.#answers.put(keyOf(query), answer, query.recency === "hour" ? HOUR_SHELF_MS : SHELF_MS);
  }
}
