import type { Clock } from "../lib/clock.ts";
import { keepNewest } from "../lib/keep-newest.ts";

/** How long a key is not used that its vendor refused, or whose account there is empty, ms (reliability 6.2). */
export const REFUSED_KEY_MS = 10 * 60_000;
/** Most rests that are remembered at the same time; with one more the oldest is forgotten. */
const MAX_RESTS = 10_000;

/** Why something rests: its vendor refused it, limited it, or limited it for a time that it named (`held`), before which asking again is in vain. */
export type Rest = "refused" | "limited" | "held";

/** Keys, and ways (a key with one model), that are not used for a while, by name. */
export class Rests {
  readonly #rests = new Map<string, { since: number; until: number; why: Rest }>();

  constructor(private readonly clock: Pick<Clock, "monotonic">) {}

  /** Whether nothing rests, so that no name needs to be looked up. */
  get idle(): boolean {
    return this.#rests.size === 0;
  }

  /** Leaves it alone for `ms`. A longer rest is never shortened, but by a limit after a refusal: what is limited is let in again. */
  rest(name: string, ms: number, why: Rest = "refused"): void {
    const since = this.clock.monotonic();
    const until = since + ms;
    const known = this.#find(name);
    if (known && until <= known.until && (why === "refused" || known.why !== "refused")) return;
    keepNewest(this.#rests, name, { since, until, why }, MAX_RESTS);
  }

  /** When its rest ends, monotonic ms; 0 where it does not rest. */
  until(name: string): number {
    return this.#find(name)?.until ?? 0;
  }

  /** Why it rests; undefined where it does not. */
  why(name: string): Rest | undefined {
    return this.#find(name)?.why;
  }

  /** Ends the rest of what was used at `askedAt`, monotonic ms, with success. A rest that began after that stays, since it is the newer finding. */
  wake(name: string, askedAt: number): void {
    const rest = this.#rests.get(name);
    if (rest && rest.since <= askedAt) this.#rests.delete(name);
  }

  /** What rests now, for the operator. */
  names(): string[] {
    return [...this.#rests.keys()].filter((name) => this.until(name) > 0);
  }

  /** Everything may be used again. */
  clear(): void {
    this.#rests.clear();
  }

  #find(name: string): { since: number; until: number; why: Rest } | undefined {
    const rest = this.#rests.get(name);
    if (!rest || this.clock.monotonic() < rest.until) return rest;
    this.#rests.delete(name);
    return undefined;
  }
}
