/** Gives each name out once: one that is taken is asked for again with the next number. Constant time, however often one is asked for. */
export class DistinctNames {
  /** Both made for the first name: most requests give none out. */
  #used: Set<string> | undefined;
  #next: Map<string, number> | undefined;

  /** `reserved`: names that nobody may have. */
  constructor(private readonly reserved?: ReadonlySet<string>) {}

  /** `numbered(1)` is the name as it is wanted, further numbers are its substitutes; `key` is the same for all who want this name. */
  take(key: string, numbered: (count: number) => string): string {
    this.#used ??= new Set();
    this.#next ??= new Map();
    let count = this.#next.get(key) ?? 1;
    let name = numbered(count);
    while (this.#used.has(name) || this.reserved?.has(name)) name = numbered(++count);
    this.#next.set(key, count + 1);
    this.#used.add(name);
    return name;
  }
}
