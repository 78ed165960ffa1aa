import type { Clock } from "../lib/clock.ts";
import { keepNewest } from "../lib/keep-newest.ts";

/** A key that its vendor refused, or whose account there is empty, is left alone for so long, ms (reliability 6.2). */
export const REFUSED_KEY_MS = 10 * 60_000;
/** Rests that are remembered at the same time. The oldest makes room. */
const MAX_RESTS = 10_000;

/** Why something rests: its vendor refused it, limited it, or limited it for a time that was named (`held`): till then asking again is in vain. */
export type Rest = "refused" | "limited" | "held";

/** Keys, and keys for single models, that are left alone for a while, by name. */
export class Rests {
  readonly #rests = new Map<string, { since: number; until: number; why: Rest }>();

  constructor(private readonly clock: Pick<Clock, "monotonic">) {}

  /** Nothing rests: nothing needs to be asked. */
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

  /** It was used at `askedAt`, monotonic ms, and did well. What began to rest since then is not woken: that is the newer word. */
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
