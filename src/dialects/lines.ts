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

  /** The first that still waits, which then waits no more; those that `isGone` names are passed over for good. */
  take(key: K, isGone?: (value: V) => boolean): V | undefined {
    const line = this.#lines?.get(key);
    while (line && line.next < line.waiting.length) {
      const value = line.waiting[line.next++] as V;
      if (!isGone?.(value)) return value;
    }
    return undefined;
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
