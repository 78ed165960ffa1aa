/** How many things each name has under way. Names with nothing under way take no memory. */
export class Concurrency {
  readonly #counts = new Map<string, number>();

  /** How many `name` has under way now. */
  count(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /** One more. */
  enter(name: string): void {
    this.#counts.set(name, this.count(name) + 1);
  }

  /** One less; called once for each {@link enter}. */
  leave(name: string): void {
    const left = this.count(name) - 1;
    if (left > 0) this.#counts.set(name, left);
    else this.#counts.delete(name);
  }
}
