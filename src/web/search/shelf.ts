import type { Clock } from "../../lib/clock.ts";
import type { SearchQuery } from "./query.ts";

/** How long an answer is kept, milliseconds; one about the last hour shorter (web-and-mcp.md B3). */
export const SHELF_MS = 10 * 60_000;
export const HOUR_SHELF_MS = 60_000;
/** Answers that are kept. */
export const MAX_SHELF = 500;

const keyOf = (query: SearchQuery) => JSON.stringify(query);

/** Answers of the last minutes, so that an agent that asks again soon is not a second call to an engine. The oldest go first. */
export class SearchShelf<T> {
  readonly #kept = new Map<string, { answer: T; until: number }>();

  constructor(private readonly clock: Clock) {}

  get(query: SearchQuery): T | undefined {
    const key = keyOf(query);
    const known = this.#kept.get(key);
    if (!known) return undefined;
    if (known.until > this.clock.monotonic()) return known.answer;
    this.#kept.delete(key);
    return undefined;
  }

  put(query: SearchQuery, answer: T): void {
    const key = keyOf(query);
    this.#kept.delete(key);
    const lastsMs = query.recency === "hour" ? HOUR_SHELF_MS : SHELF_MS;
    this.#kept.set(key, { answer, until: this.clock.monotonic() + lastsMs });
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_SHELF) break;
      this.#kept.delete(oldest);
    }
  }
}
