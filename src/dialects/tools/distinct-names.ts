/** Gives each name out once: where one is taken, it takes the next numbered one. It remembers the last number, so that many requests for one name stay fast. */
export class DistinctNames {
  /** Both are made with the first name: most requests need none. */
  #used: Set<string> | undefined;
  #next: Map<string, number> | undefined;

  /** `reserved`: names that are never given out. */
  constructor(private readonly reserved?: ReadonlySet<string>) {}

  /** `numbered(1)` is the wanted name, further numbers give its substitutes; `key` is the same for all calls that want this name. */
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
