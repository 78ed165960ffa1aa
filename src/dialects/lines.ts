type Line<V> = { waiting: V[]; next: number };

const NOBODY: readonly never[] = [];

/** What waits under a key, first come first served. Constant time, however long a line is: a client may call all its tools by one id. */
export class Lines<K, V> {
  /** Made for the first: in most requests nothing ever waits. */
  #lines: Map<K, Line<V>> | undefined;

  add(key: K, value: V): void {
    this.#lines ??= new Map();
    const line = this.#lines.get(key);
    if (line) line.waiting.push(value);
    else this.#lines.set(key, { waiting: [value], next: 0 });
  }

  /** The first that still waits, which then waits no more. */
  take(key: K): V | undefined {
    const line = this.#lines?.get(key);
    return line && line.next < line.waiting.length ? line.waiting[line.next++] : undefined;
  }

  /** All that still wait, line by line, and the end of them. */
  takeAll(): readonly V[] {
    // Asked for at every turn, when nearly always nobody waits.
    if (!this.#lines || this.#lines.size === 0) return NOBODY;
    const rest: V[] = [];
    for (const { waiting, next } of this.#lines.values()) {
      for (let at = next; at < waiting.length; at++) rest.push(waiting[at] as V);
    }
    this.#lines.clear();
    return rest;
  }
}

/** {@link Lines} whose values are also met by themselves, as results of tools are that stand before their call: each is handed out once. */
export class OnceLines<K, V extends object> extends Lines<K, V> {
  /** Made for the first that is handed out. */
  #gone: Set<V> | undefined;

  /** Hands out this very value, which its line then passes over; false where that has been done already. */
  claim(value: V): boolean {
    this.#gone ??= new Set();
    if (this.#gone.has(value)) return false;
    this.#gone.add(value);
    return true;
  }

  override take(key: K): V | undefined {
    let value = super.take(key);
    while (value && !this.claim(value)) value = super.take(key);
    return value;
  }
}
